package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// hinted is what the answer to a request that costs so many says to one that reads everything.
func hinted(v *server, at time.Duration, cost int64) *said {
	f := &flight{worker: new(worker), cost: cost}
	v.answer(int64(at), f)
	return &f.said
}

// TestFull: a bucket says when it is full and of how many, in milliseconds rounded up, also when
// it refuses, and leaves its policy as it is.
func TestFull(t *testing.T) {
	bucket := bucketOf(3, time.Second, 100)
	for _, test := range []struct {
		name        string
		v           Server
		full, again time.Duration // after a request of 50, and one of 60 a tenth of a second later
		limit       int64
		window      time.Duration
	}{
		{"alone", Server{Limit: bucket}, 16_667, 16_567, 100, 0},
		{"policy", Server{Limit: bucket, Hints: Hints{Policy: true}}, 16_667, 16_567, 3, time.Second},
		{"places to wait", Server{Limit: bucket, Queue: 50}, 16_667, 36_567, 150, 0},
		{"stale", Server{Limit: bucket, Blur: Blur{Stale: time.Second}}, 16_667, 16_667, 100, 0},
		{"node", Server{Limit: bucketOf(6, time.Second, 200), Nodes: 2}, 0, 0, 100, 0},
	} {
		r := random(1)
		test.v.Costs, test.v.Hints.Full, test.v.Hints.Remaining = true, true, true
		v := newServer(&Scenario{Server: test.v, Clients: []Group{{Processes: 1, Workers: 1}}}, &r)
		first := hinted(v, 0, 50).all.Report().Hints
		second := hinted(v, 100*time.Millisecond, 60).all.Report().Hints
		if test.full > 0 && (first.Full != pace.Some(test.full*time.Millisecond) || second.Full != pace.Some(test.again*time.Millisecond)) {
			t.Errorf("%s: full after %v, then after %v, want %d and %d ms", test.name, first.Full, second.Full, test.full, test.again)
		}
		if !first.Full.OK || first.Limit != pace.Some(test.limit) || first.Window.V != test.window || first.Reset.OK {
			t.Errorf("%s: the answer says %+v, want a limit of %d in %v and no reset", test.name, first, test.limit, test.window)
		}
	}
}

// TestFullOfSeveral: each bucket says it by itself, and what is no bucket says nothing.
func TestFullOfSeveral(t *testing.T) {
	r := random(1)
	v := newServer(&Scenario{Server: Server{
		Limit: bucketOf(10, time.Second, 10),
		More: []Quota{
			{Limit: bucketOf(100, time.Second, 5000), Costs: true},
			{Limit: limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: time.Minute}},
		},
		Hints: Hints{Full: true},
	}}, &r)
	said := hinted(v, 0, 1000)
	want := []pace.Opt[time.Duration]{pace.Some(100 * time.Millisecond), pace.Some(10 * time.Second), {}}
	for i, full := range want {
		if h := said.of(i).Report().Hints; h.Full != full || h.Limit.OK != full.OK {
			t.Errorf("limit %d says %+v, want full after %v", i, h, full)
		}
	}
}

// TestNeverFull: a bucket that is not refilled, or whose answers say nothing, is never full, and
// one that takes years is not told.
func TestNeverFull(t *testing.T) {
	bucket := bucketOf(5, time.Second, 5)
	for _, v := range []Server{
		{Limit: bucketOf(0, time.Second, 5)},
		{Limit: bucket, Changes: []Change{{At: time.Second, Period: time.Second}}},
		{Limit: bucket, Blur: Blur{Missing: 1}},
		{Limit: bucketOf(1, 366*24*time.Hour, 5)},
	} {
		v.Hints.Full = true
		if h := lastHints(t, serving(20*time.Second, v, 1)); h.Full.OK || h.Limit.OK {
			t.Errorf("%+v says that it is full after %v, and of %v", v, h.Full, h.Limit)
		}
	}
}

// TestFullNeedsABucket: such a hint of another server is refused, of one with a bucket besides not.
func TestFullNeedsABucket(t *testing.T) {
	window := limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: time.Second}
	for _, test := range []struct {
		v  Server
		ok bool
	}{
		{Server{Limit: bucketOf(5, time.Second, 5)}, true},
		{Server{Limit: window, More: []Quota{{Limit: bucketOf(5, time.Second, 5)}}}, true},
		{Server{Limit: window}, false},
		{Server{}, false},
		{Server{Gap: []Gap{{From: 1, Least: time.Second}}}, false},
	} {
		test.v.Hints.Full = true
		err := serving(time.Minute, test.v, 1).Check()
		if (err == nil) != test.ok || err != nil && !strings.Contains(err.Error(), "no limit is a token bucket; leave full out") {
			t.Errorf("%+v: %v, want an error: %t", test.v, err, !test.ok)
		}
	}
}

// TestFullIsRead: a policy that does not read when a bucket is full does not know its size either.
func TestFullIsRead(t *testing.T) {
	size, window := pace.Some[int64](100), pace.Some(time.Minute)
	for _, test := range []struct {
		hears       Hints
		window      pace.Opt[time.Duration]
		full, limit bool
	}{
		{Hints{}, pace.Opt[time.Duration]{}, false, false},
		{Hints{Full: true}, pace.Opt[time.Duration]{}, true, true},
		{Hints{Full: true}, window, true, false},
		{Hints{Policy: true}, window, false, true},
	} {
		p, r := Policy{Hears: test.hears}, pace.Report{}
		r.Hints.Full, r.Hints.Limit, r.Hints.Window = pace.Some(time.Second), size, test.window
		p.deafen(&r)
		if r.Hints.Full.OK != test.full || r.Hints.Limit.OK != test.limit || !test.full && r.Hints.Full.V != 0 {
			t.Errorf("one that reads %+v reads %+v, want when it is full: %t, how many: %t", test.hears, r.Hints, test.full, test.limit)
		}
	}
}

// TestFullIsHeard: clients of an LLM API that says when all tokens are back wait less, and fewer of
// their calls are refused; also beside a policy, which says how fast they are but not that they come steadily.
func TestFullIsHeard(t *testing.T) {
	api := func(h Hints) Scenario {
		return Scenario{
			Name: "llm", Duration: 2 * time.Hour,
			Server:  Server{Limit: bucketOf(200_000, time.Minute, 200_000), Costs: true, Hints: h},
			Network: Network{Latency: 300 * time.Millisecond, Spread: 0.5},
			Clients: []Group{{Processes: 1, Workers: 100, Arrivals: 0.65, Cost: Cost{Mean: 2240, Tail: 1.2}}},
		}
	}
	figures := func(policy string, h Hints) (wait, refused float64) {
		var waits, rates []float64
		for seed := range uint64(9) {
			r := play(t, api(h), policy, seed+1)
			waits, rates = append(waits, r.WaitP99.V), append(rates, r.RetryRate.V)
		}
		return median(waits), median(rates)
	}
	wait, refused := figures("adaptive-informed", Hints{Remaining: true})
	toldWait, toldRefused := figures("adaptive-informed", Hints{Remaining: true, Full: true})
	t.Logf("what remains: %.0f s, %.2f %% refused; and when it is full: %.0f s, %.2f %%", wait, 100*refused, toldWait, 100*toldRefused)
	if toldWait > 0.8*wait || toldRefused > 0.8*refused {
		t.Errorf("told when it is full: 99 %% of waits below %.0f s and %.2f %% refused, want four fifths at most of %.0f s and %.2f %%", toldWait, 100*toldRefused, wait, 100*refused)
	}
	wait, _ = figures("adaptive-informed", Hints{Remaining: true, Policy: true})
	toldWait, _ = figures("adaptive-informed", Hints{Remaining: true, Policy: true, Full: true})
	t.Logf("beside a policy: %.0f s, and when it is full: %.0f s", wait, toldWait)
	if toldWait > 0.8*wait {
		t.Errorf("told when it is full beside a policy: 99 %% of waits below %.0f s, want four fifths at most of %.0f s", toldWait, wait)
	}
}
