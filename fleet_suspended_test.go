package throttle_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
)

// still is a memory.Store whose first questions end so much later, as if the process
// had stood still meanwhile. They may fail then.
type still struct {
	memory.Store
	mu     sync.Mutex
	stands []time.Duration
	fails  bool
	asked  int64
}

func (s *still) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	s.mu.Lock()
	s.asked++
	var stands time.Duration
	if len(s.stands) > 0 {
		stands, s.stands = s.stands[0], s.stands[1:]
	}
	s.mu.Unlock()
	ok, err := s.Store.Take(ctx, a, d)
	if stands > 0 {
		time.Sleep(stands)
		if s.fails {
			return false, ctx.Err()
		}
	}
	return ok, err
}

// A question that ended long after its deadline is no sign that the Store is
// away, and what it brought is of another time; unless it happens again.
func TestFleetStoodStill(t *testing.T) {
	l := limit.Limit{Count: 10, Period: time.Second, Burst: 10}
	// The first question is for the first caller, the second for all others.
	one, several := []time.Duration{0, 5 * time.Second}, []time.Duration{0, time.Second, time.Second, time.Second, time.Second}
	for _, c := range []struct {
		name        string
		stands      []time.Duration
		fails       bool
		least, most int // calls until two seconds after the last of them
		failed      int64
	}{
		{"the answer is lost", one, true, 26, 1 + 10 + 2*10, 1},
		{"the answer is there", one, false, 26, 1 + 10 + 2*10, 0},
		{"it fails late, again and again", several, true, 900, 1 << 30, 4},           // each goes on by itself
		{"it is late, again and again", several, false, 50, 1 + 10 + 3*10 + 2*10, 0}, // what the first brings is lost
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				length := 2 * time.Second
				for _, d := range c.stands {
					length += d
				}
				s := &still{fails: c.fails, stands: c.stands}
				th := &throttle.Throttle{Control: &pace.Fixed{Rate: 1000}, Fleet: throttle.Fleet{Store: s, Key: "api", Limit: l}}
				if n := callsIn(t, th, length); n < c.least || n > c.most {
					t.Errorf("%d calls were made, want %d to %d", n, c.least, c.most)
				}
				time.Sleep(5 * time.Second) // the last question ends
				if f := th.FleetStats(); f.Failed != c.failed || f.Answered != s.asked-c.failed {
					t.Errorf("FleetStats() = %+v after %d questions, want all of them, %d failed", f, s.asked, c.failed)
				}
			})
		})
	}
}

// A response within 20 ms of the Timeout is used; a later one is discarded, and the Store
// asked again.
func TestFleetDiscardsLateAnswers(t *testing.T) {
	for after, want := range map[time.Duration]int64{
		100 * time.Millisecond: 1, 120 * time.Millisecond: 1, 120*time.Millisecond + 1: 2,
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &still{stands: []time.Duration{after}}
			th := &throttle.Throttle{Fleet: throttle.Fleet{Store: s, Key: "api", Limit: limit.Limit{Count: 10, Period: time.Second}}}
			if err := th.Do(t.Context(), nothing); err != nil || s.asked != want {
				t.Errorf("an answer after %v: %v, asked %d times; want %d", after, err, s.asked, want)
			}
		})
	}
}

// callsIn is how many calls ten callers make in so long.
func callsIn(t *testing.T, th *throttle.Throttle, length time.Duration) int {
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	var made atomic.Int64
	for range 10 {
		all.Go(func() {
			for th.Do(ctx, nothing) == nil {
				made.Add(1)
			}
		})
	}
	all.Wait()
	return int(made.Load())
}
