package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// job is what one client has to do, and what it may take.
type job struct {
	name    string
	limit   limit.Limit
	full    bool
	told    Hints
	latency time.Duration
	calls   int64
	done    time.Duration // median of five seeds, at most
	refused int64         // the same
}

var jobs = []job{
	{
		"slow answers, told what remains",
		limit.Limit{Count: 4, Period: time.Second, Burst: 5},
		false,
		Hints{Remaining: true, RetryAfter: true, Reset: true},
		3065 * time.Millisecond, 78, 45 * time.Second, 8,
	},
	{
		"no burst, told by whole seconds",
		limit.Limit{Count: 5, Period: time.Second, Burst: 1},
		false,
		Hints{RetryAfter: true, Policy: true},
		2 * time.Millisecond, 367, 170 * time.Second, 8,
	},
	{
		"many workers, slow answers, told nothing",
		limit.Limit{Count: 20, Period: time.Second, Burst: 5},
		true,
		Hints{},
		time.Second, 100, 12 * time.Second, 25,
	},
	{
		"the same, told what remains",
		limit.Limit{Count: 20, Period: time.Second, Burst: 5},
		true,
		Hints{Remaining: true},
		time.Second, 100, 14 * time.Second, 5,
	},
	{
		"five hundred workers",
		limit.Limit{Count: 19, Period: time.Second, Burst: 5},
		true,
		Hints{RetryAfter: true, Policy: true},
		523 * time.Millisecond, 1473, 100 * time.Second, 60,
	},
	{
		"all remains",
		limit.Limit{Count: 36, Period: time.Second, Burst: 169},
		true,
		Hints{Remaining: true, Reset: true},
		90 * time.Millisecond, 130, 520 * time.Millisecond, 0,
	},
	{
		"more calls than remain, slow answers",
		limit.Limit{Kind: limit.SlidingWindow, Count: 307, Period: time.Minute},
		false,
		Hints{Remaining: true, RetryAfter: true, Reset: true, Policy: true},
		6650 * time.Millisecond, 526, 140 * time.Second, 100,
	},
}

// A job of one client is done soon, and refused seldom, whatever its answers take:
// what it hears late is no limit.
func TestJobsOfOneClient(t *testing.T) {
	for _, c := range jobs {
		s := Scenario{
			Name: "job", Duration: time.Hour,
			Server:  Server{Limit: c.limit, Hints: c.told},
			Network: Network{Latency: c.latency, Spread: 0.2},
			Clients: []Group{{Processes: 1, Workers: int(min(c.calls, 500)), Work: c.calls}},
		}
		if !c.full && c.limit.Kind == limit.TokenBucket {
			s.Server.Start = pace.Some(int64(0))
		}
		var done []float64 // seconds
		var refused []int64
		for seed := range uint64(5) {
			r := play(t, s, "adaptive-informed", seed+1)
			if !r.Finish.OK {
				t.Fatalf("%s, seed %d: not done in an hour", c.name, seed+1)
			}
			done, refused = append(done, r.Finish.V), append(refused, r.Throttled)
		}
		slices.Sort(done)
		slices.Sort(refused)
		t.Logf("%s: done in %.1f s, %d of %d refused", c.name, done[2], refused[2], c.calls+refused[2])
		if done[2] > c.done.Seconds() || refused[2] > c.refused {
			t.Errorf("%s: done in %.1f s, %d refused; want at most %.0f s, and %d", c.name, done, refused, c.done.Seconds(), c.refused)
		}
	}
}

// Much remains after a wait, and hundreds of calls want it: a client that is told so sends
// as many as remain, not all of them in each round trip until an answer says otherwise.
func TestWhatRemainsIsSpentOnce(t *testing.T) {
	for _, hints := range []Hints{{Remaining: true, RetryAfter: true, Policy: true}, {Remaining: true, RetryAfter: true}} {
		for seed := uint64(1); seed <= 5; seed++ {
			r := play(t, Scenario{
				Name: "spent once", Duration: 2 * time.Minute,
				Server: Server{
					Limit: limit.Limit{Count: 31, Period: time.Second, Burst: 201}, Start: pace.Some[int64](0), Hints: hints,
				},
				Network: Network{Latency: 62 * time.Millisecond, Spread: 0.2},
				Clients: []Group{{Processes: 1, Workers: 1228, Work: 1228}},
			}, "adaptive-informed", seed)
			if r.Throttled > 2 || r.Finish.V > 42 {
				t.Errorf("told %+v, seed %d: %d refused, done in %.1f s; want 2 and 42 s at most", hints, seed, r.Throttled, r.Finish.V)
			}
		}
	}
}
