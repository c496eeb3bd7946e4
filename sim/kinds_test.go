package sim

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// serving is a scenario of one process with so many workers that press on a
// server 10 ms away.
func serving(length time.Duration, v Server, workers int) Scenario {
	return Scenario{
		Name: "serving", Duration: length, Server: v,
		Network: Network{Latency: 10 * time.Millisecond},
		Clients: []Group{{Processes: 1, Workers: workers}},
	}
}

// Every kind of limit serves clients that press what it says, whatever the
// clock of the server.
func TestKindsServeWhatTheySay(t *testing.T) {
	for _, test := range []struct {
		kind        limit.Kind
		phase       time.Duration
		least, most int64 // of 100 each minute in five minutes
	}{
		{limit.FixedWindow, 0, 500, 500},
		{limit.FixedWindow, 20 * time.Second, 600, 600}, // windows begin at 40 s
		{limit.CalendarWindow, 20 * time.Second, 600, 600},
		{limit.FirstHitWindow, 20 * time.Second, 500, 500},
		{limit.SlidingWindow, 20 * time.Second, 495, 545},
		{limit.SlidingSlots, 20 * time.Second, 450, 500},
		{limit.SlidingLog, 20 * time.Second, 500, 500},
		{limit.TokenBucket, 20 * time.Second, 599, 600}, // 100 of them are there
	} {
		s := serving(5*time.Minute, Server{Limit: limit.Limit{Kind: test.kind, Count: 100, Period: time.Minute}, Phase: test.phase}, 1)
		r := play(t, s, "none", 1)
		if r.Served < test.least || r.Served > test.most {
			t.Errorf("%v, clock %v ahead: served %d, want %d to %d", test.kind, test.phase, r.Served, test.least, test.most)
		}
		if u := r.Utilisation.V; u < 0.89 || u > 1.13 {
			t.Errorf("%v, clock %v ahead: utilisation %.3f, want about 1", test.kind, test.phase, u)
		}
	}
}

// A leaky bucket does as nginx's limit_req does: the first goes at once, burst
// more wait for their turn, the next is refused.
func TestQueueDelays(t *testing.T) {
	s := Scenario{Server: Server{Limit: bucketOf(10, time.Second, 1), Queue: 3}}
	v := newServer(&s, new(random))
	for i, want := range []struct {
		at       time.Duration
		admitted bool
		after    time.Duration
	}{
		{0, true, 0},
		{0, true, 100 * time.Millisecond},
		{0, true, 200 * time.Millisecond},
		{0, true, 300 * time.Millisecond},
		{0, false, 0},
		{150 * time.Millisecond, true, 250 * time.Millisecond},
		{150 * time.Millisecond, false, 0},
		{5 * time.Second, true, 0},
	} {
		admitted, after := v.answer(int64(want.at), &flight{worker: new(worker), cost: 1})
		if admitted != want.admitted || after != want.after {
			t.Errorf("request %d at %v: admitted %t after %v, want %t after %v", i, want.at, admitted, after, want.admitted, want.after)
		}
	}
	// Three workers wait for each other; a fourth comes before the token of the
	// one that has just gone is back.
	r := play(t, serving(100*time.Second, Server{Limit: bucketOf(10, time.Second, 1), Queue: 3}, 3), "none", 1)
	if r.Throttled > 0 || r.Served < 996 || r.WaitP50.V < 0.29 || r.WaitP50.V > 0.31 {
		t.Errorf("three workers: %d throttled, %d served, wait %.3f s; want none, 1000, 0.3 s", r.Throttled, r.Served, r.WaitP50.V)
	}
	if r := play(t, serving(100*time.Second, Server{Limit: bucketOf(10, time.Second, 1), Queue: 3}, 4), "none", 1); r.Throttled == 0 {
		t.Error("four workers: none throttled, want some")
	}
}

// The level at the start is of tokens, and the places to wait are free besides.
func TestQueueIsFreeAtTheStart(t *testing.T) {
	for _, test := range []struct {
		start   int64
		nodes   int
		passing int64
		after   time.Duration
	}{
		{2, 0, 5, 0},
		{9, 0, 5, 0},
		{1, 0, 4, 0},
		{0, 0, 3, 100 * time.Millisecond},
		{2, 5, 1, 0},
	} {
		s := Scenario{Server: Server{Limit: bucketOf(10, time.Second, 2), Queue: 3, Nodes: test.nodes, Start: pace.Some(test.start)}}
		v := newServer(&s, new(random))
		passing := v.level
		admitted, after := v.answer(0, &flight{worker: new(worker), cost: 1})
		if passing != test.passing || !admitted || after != test.after {
			t.Errorf("start %d, %d nodes: %d pass at once, the first (%t) after %v; want %d, after %v",
				test.start, test.nodes, passing, admitted, after, test.passing, test.after)
		}
	}
}

// A server that works on a few at a time is as fast as that, makes more wait,
// and refuses the rest; callers that are told so send fewer at a time.
func TestService(t *testing.T) {
	busy := Server{Service: Service{Time: 100 * time.Millisecond, AtOnce: 2, Queue: 3}, Hints: Hints{Crowded: true}}
	r := play(t, serving(100*time.Second, busy, 5), "none", 1)
	if r.Throttled > 0 || r.Served < 1990 || r.Served > 2000 || math.Abs(r.WaitP50.V-0.25) > 0.06 {
		t.Errorf("five workers: %d throttled, %d served, wait %.3f s; want none, 2000, 0.2 to 0.3 s", r.Throttled, r.Served, r.WaitP50.V)
	}
	if u := r.Utilisation.V; u < 0.99 || u > 1.003 {
		t.Errorf("five workers: utilisation %v, want 1", u)
	}
	blunt := play(t, serving(100*time.Second, busy, 8), "none", 1)
	told := play(t, serving(100*time.Second, busy, 8), "adaptive", 1)
	if blunt.RetryRate.V < 0.5 || told.RetryRate.V > 0.1 || told.Utilisation.V < 0.95 {
		t.Errorf("eight workers: %.3f throttled without a law, %.3f and %.3f of it used with ours", blunt.RetryRate.V, told.RetryRate.V, told.Utilisation.V)
	}
	long := play(t, serving(100*time.Second, Server{Service: Service{Time: 100 * time.Millisecond, Tail: 1}}, 5), "none", 1)
	if ratio := long.WaitP99.V / long.WaitP50.V; ratio < 7 || ratio > 12 {
		t.Errorf("with a tail of 1 the slowest of a hundred takes %.1f times the median, want about 9", ratio)
	}
}

// Of several limits all must pass, and a refusal of one costs nothing at the
// others.
func TestSeveralLimits(t *testing.T) {
	v := Server{
		Limit: bucketOf(100, time.Second, 100),
		More:  []Quota{{Limit: bucketOf(5, time.Second, 5), By: ByKey}, {Limit: bucketOf(200, time.Second, 200), Costs: true}},
	}
	s := serving(20*time.Second, v, 100)
	r := play(t, s, "none", 1)
	if r.Served < 100 || r.Served > 106 {
		t.Errorf("one key: served %d, want 105", r.Served)
	}
	s.Clients[0].Keys = 4
	if r := play(t, s, "none", 1); r.Served < 400 || r.Served > 425 {
		t.Errorf("four keys: served %d, want 420", r.Served)
	}
	s.Clients[0].Cost = Cost{Mean: 20}
	r = play(t, s, "none", 1)
	if r.Served < 200 || r.Served > 211 || math.Abs(r.Utilisation.V-1) > 0.01 {
		t.Errorf("four keys, calls of 20: served %d, utilisation %v; want 210, 1", r.Served, r.Utilisation.V)
	}
	v = Server{Limit: bucketOf(2, time.Second, 2), By: ByProcess}
	s = serving(20*time.Second, v, 3)
	s.Clients[0].Processes = 5
	if r := play(t, s, "none", 1); r.Served < 200 || r.Served > 210 {
		t.Errorf("five processes of 2/s each: served %d, want 210", r.Served)
	}
}

// Callers that know limits apart are not slowed down everywhere by one key.
func TestScopes(t *testing.T) {
	v := Server{
		Limit: bucketOf(1000, time.Second, 1000), More: []Quota{{Limit: bucketOf(2, time.Second, 4), By: ByKey}},
		Hints: Hints{Remaining: true, RetryAfter: true},
	}
	s := serving(3*time.Minute, v, 60)
	s.Clients[0].Keys = 10
	blind := play(t, s, "adaptive-informed", 1)
	s.Clients[0].Scopes = true
	apart := play(t, s, "adaptive-informed", 1)
	if apart.RetryRate.V > 0.02 || apart.Utilisation.V < 0.7 || blind.Utilisation.V > 0.7*apart.Utilisation.V {
		t.Errorf("throttled %.3f, used %.3f with scopes; %.3f, %.3f without", apart.RetryRate.V, apart.Utilisation.V, blind.RetryRate.V, blind.Utilisation.V)
	}
}

// A server that says nothing leaves callers to find out which limit refused: one
// that counts keys teaches the scope of the key.
func TestScopesThatHearNothing(t *testing.T) {
	s := serving(3*time.Minute, Server{Limit: bucketOf(2, time.Second, 4), By: ByKey}, 60)
	s.Clients[0].Keys, s.Clients[0].Scopes = 10, true
	if r := play(t, s, "adaptive", 1); r.RetryRate.V > 0.3 || r.Utilisation.V < 0.5 {
		t.Errorf("throttled %.3f, used %.3f; want a scope for each key to pace", r.RetryRate.V, r.Utilisation.V)
	}
}

// Each node has a whole number of what a limit counts, one at least, as
// docs/simulator.md says: together less or more than the limit.
func TestPartsOfNodes(t *testing.T) {
	for nodes, want := range map[int]int64{2: 4, 3: 3, 8: 8} {
		if got := share(bucketOf(4, time.Second, 4), nodes); got.Count*int64(nodes) != want || got.Burst*int64(nodes) != want {
			t.Errorf("%d nodes share 4/s as %d/s and %d at once each; want %d together", nodes, got.Count, got.Burst, want)
		}
	}
}

// The capacity is what the parts come to, at the start and after a change: no
// more is served than that.
func TestUtilisationOfNodes(t *testing.T) {
	for _, v := range []Server{
		{Limit: bucketOf(10, time.Second, 10), Nodes: 100},
		{Limit: limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: time.Second}, Nodes: 4, Phase: 500 * time.Millisecond},
		{Limit: bucketOf(10, time.Second, 10), Nodes: 4, Changes: []Change{{At: time.Second, Count: 6, Period: time.Second}}},
	} {
		s := serving(100*time.Second, v, 40)
		if r := play(t, s, "none", 1); r.Utilisation.V < 0.9 || r.Utilisation.V > 1.01 { // the last window counts pro rata
			t.Errorf("%d nodes with a part of %v each: utilisation %.3f; want nearly 1", v.Nodes, v.Limit, r.Utilisation.V)
		}
	}
}

// After a change, all that press the server use its new capacity at once, and
// those that are too few for it never do, whatever the limit counts.
func TestReconvergeToTheCapacity(t *testing.T) {
	raise := []Change{{At: 10 * time.Second, Count: 40, Period: time.Second}}
	process := serving(100*time.Second, Server{Limit: bucketOf(10, time.Second, 10), By: ByProcess, Changes: raise}, 1)
	process.Clients[0].Processes, process.Network.Latency = 5, 100*time.Millisecond
	if r := play(t, process, "none", 1); r.Reconverge.V != 90 {
		t.Errorf("5 workers with 50 calls a second at most are at 200 a second after %v s; want never, 90", r.Reconverge)
	}
	costs := serving(100*time.Second, Server{Limit: bucketOf(10, time.Second, 10), Costs: true, Changes: raise}, 10)
	costs.Clients[0].Cost = Cost{Mean: 5}
	if r := play(t, costs, "none", 1); r.Reconverge.V > 1 {
		t.Errorf("10 workers at 8 calls a second of 5 tokens after %v s; want at once", r.Reconverge)
	}
}

// What is said is that of the node, old or missing, as the scenario has it.
func TestBlur(t *testing.T) {
	s := Scenario{Server: Server{
		Limit: bucketOf(40, time.Minute, 40), Nodes: 4,
		Hints: Hints{Remaining: true, Policy: true}, Blur: Blur{Stale: 10 * time.Second},
	}}
	v := newServer(&s, new(random))
	first := ask(v, 0)
	if first.Remaining.V != 9 || first.Limit.V != 40 {
		t.Errorf("one node of four says %+v, want 9 remaining of 40", first)
	}
	four := serving(100*time.Second, Server{Limit: bucketOf(40, time.Second, 40), Nodes: 4}, 10)
	if r := play(t, four, "none", 1); r.Served < 4000 || r.Served > 4041 {
		t.Errorf("four nodes serve %d, want 4040 together", r.Served)
	}
	s.Server.Nodes = 0
	v = newServer(&s, new(random))
	for i, want := range []int64{39, 39, 39} {
		if got := ask(v, time.Duration(i)*time.Second); got.Remaining != pace.Some(want) {
			t.Errorf("answer %d says %+v, want %d remaining as at first", i, got, want)
		}
	}
	if got := ask(v, 10*time.Second); got.Remaining.V != 39 {
		t.Errorf("after ten seconds it says %+v, want it fresh: 39 again, as 6 came in", got)
	}
	s.Server.Blur = Blur{Missing: 0.25}
	v = newServer(&s, new(random))
	silent := 0
	for i := range 1000 {
		if !ask(v, time.Duration(i)*time.Second).Remaining.OK {
			silent++
		}
	}
	if silent < 200 || silent > 300 {
		t.Errorf("%d of 1000 answers say nothing, want about 250", silent)
	}
}
