package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestAloneOnASmallLimit: a client that has a limit of few requests for itself, and is told what
// remains and the reset, is refused once or twice, and loses next to nothing of the limit.
func TestAloneOnASmallLimit(t *testing.T) {
	for _, c := range []struct {
		kind    limit.Kind
		count   int64
		period  time.Duration
		latency time.Duration
		over    float64 // finish at most, in times the bound's
	}{
		{limit.FixedWindow, 1, 10 * time.Second, 80 * time.Millisecond, 1.05},
		{limit.FixedWindow, 1, 10 * time.Second, 400 * time.Millisecond, 1.05},
		{limit.FixedWindow, 1, time.Minute, 5 * time.Millisecond, 1.05},
		{limit.FixedWindow, 5, 10 * time.Minute, 9 * time.Millisecond, 1.05},
		{limit.FirstHitWindow, 1, 10 * time.Second, 80 * time.Millisecond, 1.1},
		{limit.CalendarWindow, 1, time.Minute, 80 * time.Millisecond, 1.05},
		{limit.TokenBucket, 1, 10 * time.Second, 80 * time.Millisecond, 1.1},
		{limit.TokenBucket, 1, time.Minute, 400 * time.Millisecond, 1.05},
		{limit.SlidingLog, 1, time.Minute, 5 * time.Millisecond, 1.05},
		{limit.SlidingSlots, 1, time.Minute, 80 * time.Millisecond, 1.1},
	} {
		l := limit.Limit{Kind: c.kind, Count: c.count, Period: c.period, Burst: 1, Slots: 10}
		for _, after := range []bool{false, true} {
			s := Scenario{
				Name: "alone", Duration: 200 * c.period,
				Server:  Server{Limit: l, Hints: Hints{Remaining: true, Reset: true, RetryAfter: after}},
				Network: Network{Latency: c.latency, Spread: 0.2},
				Clients: []Group{{Processes: 1, Workers: 10, Work: 60}},
			}
			p, err := ParsePolicy("adaptive-informed")
			if err != nil {
				t.Fatal(err)
			}
			finish, refused := finished(s, func(seed uint64) *Run { return New(s, p, seed) })
			bound, _ := finished(s, func(seed uint64) *Run { return Bound(s, seed) })
			got := fmt.Sprintf("%v, %v away, Retry-After: %v: %g refused, done at %.2f of the bound", l, c.latency, after, refused, finish/bound)
			t.Log(got)
			if refused > 3 || finish > c.over*bound {
				t.Errorf("%s; want at most 3, and %.2f", got, c.over)
			}
		}
	}
}

// TestManyOnOneRequest: where a limit holds one request at a time, the client that was served
// last knows best when it opens again, and what remains never shows it another. It must not keep
// the limit for itself.
func TestManyOnOneRequest(t *testing.T) {
	for _, c := range []struct {
		kind      limit.Kind
		period    time.Duration
		processes int
	}{
		{limit.FirstHitWindow, time.Minute, 40},
		{limit.FixedWindow, time.Minute, 20},
		{limit.TokenBucket, time.Minute, 20},
		{limit.SlidingLog, 5 * time.Minute, 20},
	} {
		l := limit.Limit{Kind: c.kind, Count: 1, Period: c.period, Burst: 1}
		r := play(t, Scenario{
			Name: "many", Duration: 100 * time.Duration(c.processes) * c.period,
			Server:  Server{Limit: l, Hints: Hints{Remaining: true, Reset: true}},
			Network: Network{Latency: 80 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: c.processes, Workers: 3}},
		}, "adaptive-informed", 1)
		got := fmt.Sprintf("%d clients on %v: Jain's index %.2f, %.2f refused, %.2f used", c.processes, l, r.Jain.V, r.RetryRate.V, r.Utilisation.V)
		t.Log(got)
		if r.Jain.V < 0.6 || r.Utilisation.V < 0.3 {
			t.Errorf("%s; want at least 0.6, and 0.3 used", got)
		}
	}
}
