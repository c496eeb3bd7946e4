package load_test

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/load"
)

// answers is an Adaptive of at most 100 in flight, which are, fed with latencies.
type answers struct {
	law   load.Adaptive
	now   time.Time
	since int // samples, since the limit last changed
}

// newAnswers has learnt that 100 are served in 10 ms, and begins a window.
func newAnswers(t *testing.T) *answers {
	a := &answers{law: load.Adaptive{Max: 100}, now: t0}
	for range 5000 {
		a.feed(1, 10*ms, load.Served)
	}
	for a.law.Limit() != 100 || a.since%100 != 0 {
		if a.feed(1, 10*ms, load.Served); a.now.After(t0.Add(5 * time.Second)) {
			t.Fatalf("limit %d of 100 after 5 s of answers without a queue", a.law.Limit())
		}
	}
	return a
}

func (a *answers) feed(n int, took time.Duration, end load.End) {
	for range n {
		before := a.law.Limit()
		a.now = a.now.Add(took / time.Duration(before))
		a.law.Observe(load.Sample{Now: a.now, Took: took, InFlight: before, End: end})
		if a.since++; a.law.Limit() != before {
			a.since = 0
		}
	}
}

// A queue that is too long for two windows may be a pause; in three, it takes
// the limit to what fills the server, 100 · 10/20, and 0.7 of the allowance,
// 1.5 · 10, in one step.
func TestAdaptiveCutsQueue(t *testing.T) {
	a := newAnswers(t)
	a.feed(200, 20*ms, load.Served)
	a.feed(100, 10*ms, load.Served)
	if got := a.law.Limit(); got != 100 {
		t.Errorf("limit %d after a pause of two windows, want 100", got)
	}
	a.feed(299, 20*ms, load.Served)
	before := a.law.Limit()
	a.feed(1, 20*ms, load.Served)
	if got := a.law.Limit(); before != 100 || got != 60 {
		t.Errorf("limit %d just before three windows of a queue of 50, and %d after; want 100, and 60", before, got)
	}
}

// After time-outs the limit neither moves nor probes while answers become
// faster, however slow they are and whatever the wall clock says.
func TestAdaptiveWaitsForBacklog(t *testing.T) {
	a := newAnswers(t)
	collapse := func() {
		a.feed(20, 600*ms, load.Failed)
		if got := a.law.Limit(); got != 50 {
			t.Fatalf("limit %d after a round trip of time-outs, want 50", got)
		}
	}
	collapse()
	a.now = a.now.Add(20 * time.Second)
	for took := 640 * ms; took > 20*ms; took = took * 3 / 4 {
		for range 50 {
			if a.feed(1, took, load.Served); a.law.Limit() != 50 {
				t.Fatalf("limit %d while a backlog is worked off, at %v; want 50", a.law.Limit(), took)
			}
		}
	}
	a.feed(1000, 10*ms, load.Served)
	if got := a.law.Limit(); got < 90 {
		t.Errorf("limit %d once it is, want 100 or so", got)
	}
}

// A backlog that falls again within four windows is still worked off.
func TestAdaptiveWaitsForSlowBacklog(t *testing.T) {
	a := newAnswers(t)
	a.feed(20, 600*ms, load.Failed)
	for took := 640 * ms; took > 20*ms; took = took * 3 / 4 {
		for range 3 * 50 {
			if a.feed(1, took, load.Served); a.law.Limit() != 50 {
				t.Fatalf("limit %d while a backlog is worked off in steps, at %v; want 50", a.law.Limit(), took)
			}
		}
	}
}

// Places that lost answers held are free again once none was lost for 10 s: a queue is
// then cut to what fills the server, as in TestAdaptiveCutsQueue.
func TestAdaptiveHoldsNoLonger(t *testing.T) {
	a := newAnswers(t)
	for range 40 { // of 100 in flight, 70 are answered
		a.feed(1, 600*ms, load.Failed)
		for range 100 {
			a.now = a.now.Add(10 * ms / 70)
			a.law.Observe(load.Sample{Now: a.now, Took: 10 * ms, InFlight: a.law.Limit(), End: load.Served})
		}
	}
	a.now = a.now.Add(11 * time.Second)
	for a.feed(1, 10*ms, load.Served); a.law.Limit() != 100 || a.since < 1000; {
		a.feed(1, 10*ms, load.Served)
	}
	for range 800 {
		if a.feed(1, 20*ms, load.Served); a.law.Limit() < 100 {
			break
		}
	}
	if got := a.law.Limit(); got < 50 || got > 62 {
		t.Errorf("limit %d after a queue of 50, want 60, as none is lost any more", got)
	}
}

// Answers that stay slow for four windows are no backlog: base may be wrong.
func TestAdaptiveStopsWaitingForBacklog(t *testing.T) {
	a := newAnswers(t)
	a.feed(20, 600*ms, load.Failed)
	a.feed(5*50-1, 200*ms, load.Served)
	before := a.law.Limit()
	a.feed(1, 200*ms, load.Served)
	if got := a.law.Limit(); before != 50 || got >= 50 {
		t.Errorf("limit %d before, and %d after five windows of the same latency; want 50, and a probe", before, got)
	}
}

// Where the limit does not bind, a server that becomes faster is seen without a
// probe, which would make the requests of a calm hour wait.
func TestAdaptiveLeavesCalmAlone(t *testing.T) {
	a := newAnswers(t)
	for i := range 2000 {
		a.now = a.now.Add(ms / 5)
		a.law.Observe(load.Sample{Now: a.now, Took: 8 * ms, InFlight: 40, End: load.Served})
		if got := a.law.Limit(); got != 100 {
			t.Fatalf("limit %d after %d answers in 8 ms instead of 10 beside 39 others, want 100", got, i+1)
		}
	}
}
