package throttleaws_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

// metered is a table whose writes have a capacity. While any is left a write is
// let through, whatever it consumes.
type metered struct {
	units, saved float64 // a second; at most

	mu              sync.Mutex // guards what follows
	left, used      float64
	latest          time.Time
	served, refused int
}

func (m *metered) put(consumes float64) (any, error) {
	time.Sleep(10 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.left = min(m.saved, m.left+m.units*now.Sub(m.latest).Seconds())
	if m.latest = now; m.left <= 0 {
		m.refused++
		return nil, answer(400, throughput())
	}
	m.left -= consumes
	m.used += consumes
	m.served++
	return total(consumes), nil
}

// write lets 32 workers write items of 100 bytes to 100 KB for so long, and
// returns which part was throttled and which part of the capacity was used.
func (m *metered) write(t *testing.T, g *throttleaws.Gates, took time.Duration) (throttled, used float64) {
	m.left, m.latest = m.saved, time.Now()
	end := m.latest.Add(took)
	var all sync.WaitGroup
	for w := range 32 {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(1, uint64(w)))
			s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
			for time.Now().Before(end) {
				size := int(100 * math.Pow(1000, draw.Float64()))
				s.serve = func(int, *smithyhttp.Request) (any, error) { return m.put(math.Ceil(float64(size) / 1024)) }
				item := attributes{"x": &attributeValueMemberS{strings.Repeat("x", size-1)}}
				if _, err := s.call(t.Context(), &unitsInput{TableName: aws.String("orders"), Item: item}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return float64(m.refused) / float64(m.refused+m.served), m.used / (m.saved + m.units*took.Seconds())
}

// TestUnitsUnderALimit: where items differ in size, pacing by units uses the
// whole capacity, and pacing by calls does not, with as many refusals.
func TestUnitsUnderALimit(t *testing.T) {
	for _, byUnits := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			g := &throttleaws.Gates{Units: byUnits, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
				adaptive := func(string) pace.Controller { return &pace.Adaptive{Probe: 20 * time.Second} }
				return &throttle.Throttle{Control: adaptive(""), NewScope: adaptive}
			}}}
			m := &metered{units: 300, saved: 300}
			throttled, used := m.write(t, g, 3*time.Minute)
			t.Logf("by units %t: %d writes, %.2f %% throttled, %.1f %% of the capacity used", byUnits, m.served, 100*throttled, 100*used)
			if throttled > 0.04 || byUnits != (used > 0.9) { // 60 runs gave 92.8 to 101.1 % and 72.3 to 87.5 %
				t.Errorf("by units %t: throttled %.2f %%, used %.1f %%; want at most 4, and above 90 only by units", byUnits, 100*throttled, 100*used)
			}
		})
	}
}
