package fit

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// drained asks l, from off after a multiple of its period on, until it refuses, one request
// a millisecond, at each of these seconds.
func drained(l limit.Limit, off time.Duration, at ...float64) (all []Answer) {
	begin := time.Unix(0, int64(1_800_000_000*time.Second/l.Period*l.Period)).Add(off)
	var s limit.State
	for _, x := range at {
		now := begin.Add(time.Duration(x * float64(time.Second)))
		for ok := true; ok; now = now.Add(time.Millisecond) {
			var d limit.Decision
			s, d = limit.Take(s, now, limit.Ask{Limit: l, N: 1})
			ok = d.OK
			all = append(all, Answer{Sent: now, Ended: now.Add(time.Millisecond / 2), Refused: !ok})
		}
	}
	return all
}

// TestCounterInAPartOfItsPeriod: a sliding window counter is found by a tenth of its
// period, in which an edge lies.
func TestCounterInAPartOfItsPeriod(t *testing.T) {
	l := limit.Limit{Kind: limit.SlidingWindow, Count: 870, Period: 15 * time.Minute}
	all := drained(l, 875*time.Second, 0, 1, 2, 5, 11, 19, 32, 38.5, 40.5, 42, 44, 63, 64.2, 70, 81, 93, 97)
	tr := readTrace(all)
	c := &scorer{tr: tr, events: tr.events, ceiling: math.Inf(1)}
	if f := c.search(SlidingCounter, false); f.cost > 1 || math.Abs(f.p.period-900) > 45 || math.Abs(f.p.n-870) > 5 {
		t.Errorf("%v in %v s, edge %v, costs %.1f", f.p.n, f.p.period, f.p.edge, f.cost)
	}
}

// TestEdgesTurn: the edges of a shared window at the beginning and at the end are both
// kept to, though the period begins a little off.
func TestEdgesTurn(t *testing.T) {
	l := limit.Limit{Kind: limit.FixedWindow, Count: 60, Period: 10 * time.Second}
	for seed := range uint64(4) {
		tr := readTrace(crowded(l, 0.08, seed, 30))
		c := &scorer{tr: tr, events: tr.events, least: math.Inf(1), shared: true}
		p := params{kind: FixedWindow, n: 60, period: 10, others: 0.48}
		p.edge = math.Floor(tr.end/10) * 10
		truth := c.crowdCost(&p, math.Inf(1))
		windows := p.edge / 10
		p.period *= 0.99
		p.edge -= windows * 0.09
		off := c.crowdCost(&p, math.Inf(1))
		if f := c.settle(found{p, off}); f.cost > truth+1 {
			t.Errorf("seed %d: %v s costs %.1f, from %.1f; the truth %.1f", seed, f.p.period, f.cost, off, truth)
		}
	}
}

// TestUnseenWindows: a window from the first request that others share is found though no
// kind that is alone is near it.
func TestUnseenWindows(t *testing.T) {
	l := limit.Limit{Kind: limit.FirstHitWindow, Count: 60, Period: 10 * time.Second}
	for seed := range uint64(4) {
		tr := readTrace(crowded(l, 0.08, seed, 24))
		c := &scorer{tr: tr, events: tr.events, ceiling: math.Inf(1), shared: true}
		far := params{kind: FixedWindow, first: true, n: 61, period: 4.9}
		f := c.share(FixedWindow, true, []params{far})
		if math.Abs(f.p.period-10) > 0.6 || math.Abs(f.p.n-60) > 3 {
			t.Errorf("seed %d: %v in %v s costs %.1f", seed, f.p.n, f.p.period, f.cost)
		}
	}
}

// TestOthersInPlaceOfACount: a count of more, with as much more of others, leaves this
// caller the same of a log: the two are changed together.
func TestOthersInPlaceOfACount(t *testing.T) {
	p := params{kind: SlidingLog, n: 100, period: 10, others: 0.5}
	for _, q := range nearShared(p, 0.05) {
		if q.n != p.n && q.others != p.others && math.Abs(q.n-q.others*q.period-95) < 1e-9 {
			return
		}
	}
	t.Error("no step changes the count and others together")
}
