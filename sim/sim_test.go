package sim

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

func policy(t testing.TB, text string) Policy {
	t.Helper()
	p, err := ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func builtin(t testing.TB, name string) Scenario {
	t.Helper()
	s, ok := Find(name)
	if !ok {
		t.Fatalf("no scenario %s", name)
	}
	return s
}

// play runs a scenario to its end.
func play(t testing.TB, s Scenario, policyText string, seed uint64) Result {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	r := New(s, policy(t, policyText), seed)
	for !r.Step(1_000_000) {
	}
	return r.Result()
}

// summary is the statistics over seeds 1 to n.
func summary(t testing.TB, s Scenario, policyText string, n uint64) map[string]Stat {
	t.Helper()
	var results []Result
	for seed := uint64(1); seed <= n; seed++ {
		results = append(results, play(t, s, policyText, seed))
	}
	stats := map[string]Stat{}
	for i, stat := range Summarise(results).Stats {
		if stat.OK {
			stats[Measures[i].Name] = stat.V
		}
	}
	return stats
}

// small is a scenario of one process with one worker, without randomness.
func small() Scenario {
	return Scenario{
		Name: "small", Duration: 100 * time.Second,
		Server:  Server{Limit: bucketOf(1, time.Second, 5)},
		Network: Network{Latency: 100 * time.Millisecond, Spread: 0},
		Clients: []Group{{Processes: 1, Workers: 1}},
	}
}

func TestSameSeedSameResult(t *testing.T) {
	for _, s := range Builtin() {
		for _, info := range Policies() {
			once := func() Result {
				r := New(s, policy(t, info.Name), 3)
				r.MaxSent = 1000
				for !r.Step(1_000_000) {
				}
				return r.Result()
			}
			a, b := once(), once()
			if !reflect.DeepEqual(a, b) {
				t.Errorf("%s under %s: two runs with one seed differ:\n%+v\n%+v", s.Name, info.Name, a, b)
			}
		}
	}
}

func TestAnotherSeedAnotherResult(t *testing.T) {
	a, b := play(t, builtin(t, "heroku"), "backoff", 1), play(t, builtin(t, "heroku"), "backoff", 2)
	if reflect.DeepEqual(a, b) {
		t.Error("two seeds gave one result")
	}
}

func TestCountsAddUp(t *testing.T) {
	s := small()
	r := play(t, s, "none", 1)
	// 1000 round trips of 0.1 s, less the first 50 ms; 5 tokens and 1 a second.
	if r.Sent < 998 || r.Sent > 1000 || r.Served < 103 || r.Served > 105 {
		t.Errorf("sent %d, served %d; want about 999 and 104", r.Sent, r.Served)
	}
	if r.Served+r.Throttled != r.Sent && r.Served+r.Throttled != r.Sent-1 {
		t.Errorf("%d served + %d throttled of %d sent", r.Served, r.Throttled, r.Sent)
	}
	if got, want := r.RetryRate.V, float64(r.Throttled)/float64(r.Sent); got != want {
		t.Errorf("retry rate %v, want %v", got, want)
	}
	if u := r.Utilisation.V; u < 0.98 || u > 1 {
		t.Errorf("utilisation %v, want about 1", u)
	}
	if r.Reconverge.OK || r.Finish.OK || r.StdevRequests.OK {
		t.Errorf("measures that do not apply are there: %+v", r)
	}
}

func TestStops(t *testing.T) {
	s := small()
	s.Stop.Sent = 42
	if r := play(t, s, "none", 1); r.Sent != 42 || !r.Finish.OK {
		t.Errorf("sent %d, want 42", r.Sent)
	}
	s.Stop = Stop{Remaining: pace.Some[int64](2)}
	if r := play(t, s, "none", 1); r.Served != 3 {
		t.Errorf("served %d, want 3: of 5, until 2 remain", r.Served)
	}
	s.Duration, s.Network.Latency, s.Stop.Remaining.V = 30*time.Second, 50*time.Second, 4
	if r := play(t, s, "none", 1); r.Finish.OK {
		t.Errorf("finish at %v s, by an answer that comes after the end at %v; want none", r.Finish.V, s.Duration)
	}
	r := New(small(), policy(t, "none"), 1)
	r.MaxSent = 10
	for !r.Step(1000) {
	}
	if res := r.Result(); res.Sent != 10 || !res.Cut {
		t.Errorf("sent %d, cut %t; want 10, true", res.Sent, res.Cut)
	}
}

func TestCapacityChangesAndReconvergence(t *testing.T) {
	s := small()
	s.Duration = 300 * time.Second
	s.Server.Limit = bucketOf(10, time.Second, 5)
	s.Server.Changes = []Change{{At: 100 * time.Second, Count: 20, Period: time.Second}, {At: 200 * time.Second, Count: 5, Period: time.Second}}
	s.Clients[0].Workers = 20
	s.Network.Spread = 0.5 // else all arrive in step
	r := play(t, s, "none", 1)
	if r.Served < 3480 || r.Served > 3506 || r.Reconverge.V > 0.2 {
		t.Errorf("served %d, reconverged in %v s; want about 3500 and at once", r.Served, r.Reconverge.V)
	}
	// A client that keeps to 10 a second never gets to 20: the whole 100 s.
	if r := play(t, s, "fixed(rate=10)", 1); math.Abs(r.Reconverge.V-100) > 0.1 {
		t.Errorf("reconverged in %v s, want 100", r.Reconverge.V)
	}
}

func TestAutoScaleFollowsTheLoad(t *testing.T) {
	s := builtin(t, "autoscale")
	s.Network.Latency = 60 * time.Millisecond // 1300/s in all
	r := play(t, s, "none", 1)
	timid := play(t, s, "fixed(rate=1)", 1) // 20/s in all: it never makes it grow
	if r.Served < 500_000 || timid.Served > 25_000 {
		t.Errorf("a greedy client was served %d, a timid one %d", r.Served, timid.Served)
	}
}

func TestFixedWindowsBeginWithTheRun(t *testing.T) {
	s := small()
	s.Server.Limit = limit.Limit{Kind: limit.FixedWindow, Count: 7, Period: 9 * time.Second}
	served := map[time.Duration]int{}
	r := New(s, policy(t, "none"), 1)
	r.Watch = func(p Point) {
		if !p.Sent && p.Verdict == pace.Served {
			served[(p.At-50*time.Millisecond)/(9*time.Second)]++
		}
	}
	for !r.Step(1000) {
	}
	for w, n := range served {
		if n != 7 {
			t.Errorf("window %d served %d, want 7", w, n)
		}
	}
	if u := r.Result().Utilisation.V; math.Abs(u-84/(700.0/9)) > 0.001 {
		t.Errorf("utilisation %v, want 84 of %v", u, 700.0/9)
	}
}

// ask is what the server says to a request.
func ask(v *server, at time.Duration) signal.Signal {
	f := &flight{worker: new(worker), cost: 1}
	v.answer(int64(at), f)
	return f.said.all.Signal
}

func TestHintsAreWholeSeconds(t *testing.T) {
	r := random(1)
	v := newServer(&Scenario{Server: Server{
		Limit: bucketOf(1, 3*time.Second, 2),
		Hints: Hints{Remaining: true, RetryAfter: true, Reset: true, Policy: true},
	}}, &r)
	ask(v, 0)
	second := ask(v, 0)
	refused := ask(v, 500*time.Millisecond)
	if second.Remaining != pace.Some[int64](0) || second.Reset != pace.Some(6*time.Second) || second.After.OK {
		t.Errorf("the second answer says %+v", second)
	}
	if refused.Verdict != pace.Throttled || refused.After != pace.Some(3*time.Second) || refused.Limit.V != 1 || refused.Window.V != 3*time.Second {
		t.Errorf("the refusal says %+v, want retry after 3 s (2.5 s rounded up)", refused)
	}
}

// BenchmarkSim is simulated events a second.
func BenchmarkSim(b *testing.B) {
	for _, name := range []string{"heroku", "dynamodb"} {
		for _, policyName := range []string{"backoff", "adaptive", "adaptive-informed"} {
			b.Run(name+"/"+policyName, func(b *testing.B) {
				var events int64
				for b.Loop() {
					events += play(b, builtin(b, name), policyName, 1).Events
				}
				b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
