package throttleenvoy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/throttle-go/throttle/internal/bubble"
)

// model is what has been used of each limit of 10: all descriptors of a request are
// charged, or none.
type model map[string]int

// ask returns the codes for descriptors with addends.
func (m model) ask(names []string, addends []int) string {
	codes, charged, over := "", model{}, false
	for i, name := range names {
		left := 10 - m[name] - charged[name]
		switch {
		case name == "free" || left >= addends[i]:
			codes += "o"
			if !over && name != "free" {
				charged[name] += addends[i]
			}
		default:
			codes, over = codes+"x", true
		}
	}
	if over {
		return "x:" + codes
	}
	for name, n := range charged {
		m[name] += n
	}
	return "o:" + codes
}

// TestModel: thousands of requests at random are decided as a model says, which charges
// all or nothing.
func TestModel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(300) {
			s := serviceOf(t, `{"rules": [
				{"name": "user", "match": {"descriptor": "user"}, "key": "entry:user", "limits": "10/h fixed-window"},
				{"name": "all", "match": {"descriptor": "all"}, "limits": "10/h fixed-window"}
			]}`)
			r, m := rand.New(rand.NewPCG(seed, 1)), model{}
			for range 20 {
				var names []string
				var addends []int
				var all []*descriptorpb.RateLimitDescriptor
				for range 1 + r.IntN(4) {
					name := []string{"user=a", "user=b", "all", "free"}[r.IntN(4)]
					n := r.IntN(4)
					names, addends = append(names, name), append(addends, n)
					all = append(all, hits(uint64(n), descriptor(name)))
				}
				want := m.ask(names, addends)
				if got := codesOf(ask(t, s, about(all...))); got != want {
					t.Fatalf("seed %d: %v with %v: %s, want %s by %s", seed, names, addends, got, want, fmt.Sprint(m))
				}
			}
		}
	})
}
