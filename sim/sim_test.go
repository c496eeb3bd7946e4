package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
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
		Network: Network{100 * time.Millisecond, 0},
		Clients: []Group{{Processes: 1, Workers: 1}},
	}
}

func TestSameSeedSameResult(t *testing.T) {
	for _, s := range Builtin() {
		s.Duration = min(s.Duration, 5*time.Minute)
		for _, info := range Policies() {
			a, b := play(t, s, info.Name, 3), play(t, s, info.Name, 3)
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

func TestErrorsCostATokenAndAreRetried(t *testing.T) {
	s := small()
	s.Server.Limit = bucketOf(100, time.Second, 100)
	s.Server.Errors = 0.5
	s.Clients[0].Work = 300
	r := play(t, s, "none", 1)
	if r.Served != 300 || r.Throttled != 0 || r.Sent < 540 || r.Sent > 660 {
		t.Errorf("served %d, throttled %d, sent %d; want 300, 0, about 600", r.Served, r.Throttled, r.Sent)
	}
	if u := r.Utilisation.V; math.Abs(u*(100+100*r.Finish.V)-300) > 1 {
		t.Errorf("utilisation %v counts failures as served", u)
	}
}

func TestWorkIsSharedByTheGroup(t *testing.T) {
	s := small()
	s.Duration = 0
	s.Clients = []Group{{Processes: 2, Workers: 2, Work: 25}, {Processes: 1, Workers: 1, Work: 5}}
	r := play(t, s, "none", 1)
	if r.Groups[0].Served != 25 || r.Groups[1].Served != 5 || !r.Finish.OK {
		t.Errorf("groups served %d and %d, finish %v; want 25, 5, a time", r.Groups[0].Served, r.Groups[1].Served, r.Finish)
	}
	if f := r.Finish.V; f < 25 || f > 26.5 {
		t.Errorf("finish %v s, want (30-5)/1 s and a little", f)
	}
}

func TestGroupsWithTheirOwnPolicyAreNotMeasured(t *testing.T) {
	s := small()
	fixed := policy(t, "none")
	s.Clients = append(s.Clients, Group{Processes: 1, Workers: 3, Policy: &fixed}, Group{Processes: 1, Workers: 2, Rival: true})
	r := play(t, s, "fixed(rate=0.2)", 1)
	if r.Sent != r.Groups[0].Sent || r.Groups[1].Sent < 2500 || r.Groups[2].Policy != "fixed(rate=0.2)" {
		t.Errorf("sent %d, groups %+v", r.Sent, r.Groups)
	}
	if u := r.Utilisation.V; u < 0.95 {
		t.Errorf("utilisation %v, want about 1: what the server served to anyone", u)
	}
	var shares float64
	for _, g := range r.Groups {
		shares += g.Share.V
	}
	if math.Abs(shares-1) > 1e-9 {
		t.Errorf("shares add up to %v", shares)
	}
}

func TestJoinAndLeave(t *testing.T) {
	s := small()
	s.Server.Limit = limit.Limit{}
	s.Clients = []Group{
		{Processes: 1, Workers: 1},
		{Processes: 2, Workers: 1, Join: 20 * time.Second, Leave: 60 * time.Second, Every: 10 * time.Second},
	}
	first, last := map[int]time.Duration{}, map[int]time.Duration{}
	r := New(s, policy(t, "none"), 1)
	r.Watch = func(p Point) {
		if _, ok := first[p.Process]; !ok {
			first[p.Process] = p.At
		}
		last[p.Process] = p.At
	}
	for !r.Step(1000) {
	}
	want := [][2]time.Duration{{0, 100}, {20, 60}, {30, 70}}
	for i, w := range want {
		if d := first[i] - w[0]*time.Second; d < 0 || d > 50*time.Millisecond {
			t.Errorf("process %d came at %v, want %v s", i, first[i], w[0])
		}
		if d := last[i] - w[1]*time.Second; d < -110*time.Millisecond || d > 110*time.Millisecond {
			t.Errorf("process %d went at %v, want %v s", i, last[i], w[1])
		}
	}
	if res := r.Result(); res.Jain.V != 1 || res.Utilisation.OK {
		t.Errorf("jain %v, utilisation %v; want 1 (of the one that stays) and none", res.Jain, res.Utilisation)
	}
}

func TestOnOff(t *testing.T) {
	s := small()
	s.Server.Limit = limit.Limit{}
	s.Clients[0].On, s.Clients[0].Off = 10*time.Second, 30*time.Second
	r := New(s, policy(t, "none"), 1)
	r.Watch = func(p Point) {
		if into := p.At % (40 * time.Second); p.Sent && into >= 10*time.Second {
			t.Errorf("a call began at %v, which is off", p.At)
		}
	}
	for !r.Step(1000) {
	}
	if n := r.Result().Sent; n < 295 || n > 301 {
		t.Errorf("sent %d, want about 300 in 30 s on", n)
	}
}

func TestArrivalsQueueAndOverflow(t *testing.T) {
	s := small()
	s.Server.Limit = limit.Limit{}
	s.Duration = 1000 * time.Second
	s.Clients[0].Arrivals = 5
	r := play(t, s, "none", 1)
	if r.Sent < 4700 || r.Sent > 5300 || r.Overflow != 0 {
		t.Errorf("sent %d, overflow %d; want about 5000, 0", r.Sent, r.Overflow)
	}
	// M/D/1 at half load waits half a service time on average: 0.05 s + 0.1 s.
	if p50 := r.WaitP50.V; p50 < 0.1 || p50 > 0.16 {
		t.Errorf("median wait %v s, want from 0.1 to 0.16", p50)
	}
	s.Clients[0].Arrivals = 100
	r = play(t, s, "none", 1)
	if want := int64(1000*100 - 10*1000 - 10_000); math.Abs(float64(r.Overflow-want)) > 0.02*float64(want) {
		t.Errorf("overflow %d, want about %d", r.Overflow, want)
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
	s.Server.Changes = []Change{{100 * time.Second, 20, time.Second}, {200 * time.Second, 5, time.Second}}
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

func TestHintsAreWholeSeconds(t *testing.T) {
	r := random(1)
	v := newServer(Server{
		Limit: bucketOf(1, 3*time.Second, 2),
		Hints: Hints{Remaining: true, RetryAfter: true, Reset: true, Policy: true},
	}, &r)
	v.answer(0)
	second := v.answer(0)
	refused := v.answer(int64(500 * time.Millisecond))
	if second.Remaining != pace.Some[int64](0) || second.Reset != pace.Some(6*time.Second) || second.After.OK {
		t.Errorf("the second answer says %+v", second)
	}
	if refused.Verdict != pace.Throttled || refused.After != pace.Some(3*time.Second) || refused.Limit.V != 1 || refused.Window.V != 3*time.Second {
		t.Errorf("the refusal says %+v, want retry after 3 s (2.5 s rounded up)", refused)
	}
}

// TestPublishedTable holds the benchmark of zombocom/rate_throttle_client to
// its README: the mean retry rate of each strategy within a quarter, and the
// order of the columns except for pairs within noise.
func TestPublishedTable(t *testing.T) {
	published := []struct {
		policy      string
		retry       float64
		sleep, sdev float64
		clear       float64
	}{
		{"backoff", 0.8041, 46.72, 147.84, 74.33},
		{"gradual", 0.4056, 139.91, 867.73, 115.54},
		{"proportional", 0.0366, 17.31, 101.94, 551.10},
		{"proportional-remaining", 0.0307, 17.32, 78.44, 84.23},
	}
	var clear, sleeps, sdevs []float64
	for _, p := range published {
		got := summary(t, builtin(t, "heroku"), p.policy, 10)
		if r := got["retry_rate_worker_mean"].Median; math.Abs(r-p.retry) > p.retry/4 {
			t.Errorf("%s: mean retry rate %.4f, published %.4f", p.policy, r, p.retry)
		}
		// Single runs vary by half; the published run lies among ours, or near.
		if s := got["stdev_requests"]; p.sdev < s.Min/2 || p.sdev > s.Max*2 {
			t.Errorf("%s: deviation of requests %v, published %v", p.policy, s, p.sdev)
		}
		sleeps, sdevs = append(sleeps, got["max_sleep_s"].Median), append(sdevs, got["stdev_requests"].Median)
		clear = append(clear, summary(t, builtin(t, "heroku-clear"), p.policy, 3)["finish_s"].Median)
	}
	// Gradual sleeps longest and is the least even, plain backoff is second;
	// the other two lie within noise of each other.
	for _, column := range [][]float64{sleeps, sdevs} {
		if column[1] < column[0] || column[0] < column[2] || column[0] < column[3] {
			t.Errorf("backoff, gradual, proportional, remaining: %.1f, in another order than published", column)
		}
	}
	for i, c := range clear {
		if i != 2 && clear[2] < 4*c {
			t.Errorf("clearing takes proportional %.0f s and %s %.0f s; want it far behind", clear[2], published[i].policy, c)
		}
	}
}

// TestSleeperCurve is the chart of AutoSleeper's documentation: delays double
// to 291.9 ms by 15 failures in a row, and settle above 60 ms when the server
// allows more.
func TestSleeperCurve(t *testing.T) {
	r := New(builtin(t, "sleeper"), policy(t, "autosleeper"), 1)
	var slept []time.Duration
	var verdicts []pace.Verdict
	r.Watch = func(p Point) {
		if p.Sent {
			slept = append(slept, p.Slept)
		} else {
			verdicts = append(verdicts, p.Verdict)
		}
	}
	for !r.Step(1000) {
	}
	failures := 0
	for i, v := range verdicts[1:] {
		if v != pace.Throttled {
			if got := slept[i+1].Round(100 * time.Microsecond); failures != 15 || got != 291900*time.Microsecond {
				t.Errorf("after %d failures in a row the delay is %v, want 15 and 291.9ms", failures, got)
			}
			break
		}
		failures++
	}
	tail := slices.Clone(slept[400:])
	slices.Sort(tail)
	if median := tail[len(tail)/2]; median < 40*time.Millisecond || median > 150*time.Millisecond {
		t.Errorf("later the median delay is %v, want somewhat above 60ms", median)
	}
}

func TestHistogramIsWithinOnePercent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var h histogram
	var all []float64
	for range 100_000 {
		v := int64(math.Exp(random.Float64() * 40))
		h.add(v)
		all = append(all, float64(v))
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.1, 0.5, 0.9, 0.99, 0.999} {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		if got := h.quantile(q); math.Abs(got-want) > 0.01*want {
			t.Errorf("quantile(%v) = %v, want %v within 1 %%", q, got, want)
		}
	}
	h.add(0)
	h.add(math.MaxInt64)
	if h.quantile(0) != 0 {
		t.Error("the least value is 0")
	}
}

func TestQueueIsInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var q queue
	for range 10_000 {
		q.push(random.Int64N(1000), evWake, 0)
	}
	last := event{at: -1}
	for len(q.events) > 0 {
		e := q.pop()
		if !last.before(e) {
			t.Fatalf("%+v came before %+v", last, e)
		}
		last = e
	}
}

func TestOver(t *testing.T) {
	some := pace.Some[float64]
	got := Over([]pace.Opt[float64]{some(3), {}, some(1), some(10), some(2)})
	if got != pace.Some(Stat{2.5, 1, 10}) {
		t.Errorf("Over = %+v, want median 2.5 from 1 to 10", got)
	}
	if Over(nil).OK {
		t.Error("a statistic of nothing")
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		want  string
		spoil func(*Scenario)
	}{
		{"latency", func(s *Scenario) { s.Network.Latency = 0 }},
		{"spread", func(s *Scenario) { s.Network.Spread = 1 }},
		{"spread", func(s *Scenario) { s.Network.Spread = math.NaN() }},
		{"limit", func(s *Scenario) { s.Server.Limit.Count = -1 }},
		{"errors", func(s *Scenario) { s.Server.Errors = 1 }},
		{"start", func(s *Scenario) { s.Server.Start = pace.Some[int64](-1) }},
		{"change", func(s *Scenario) {
			s.Server.Changes = []Change{{time.Second, 1, time.Second}, {time.Second, 2, time.Second}}
		}},
		{"limit to change", func(s *Scenario) {
			s.Server.Limit = limit.Limit{}
			s.Server.Changes = []Change{{time.Second, 1, time.Second}}
		}},
		{"auto-scaler", func(s *Scenario) { s.Server.Scale.Every = time.Second }},
		{"without refill", func(s *Scenario) { s.Server.Limit = bucketOf(0, time.Second, 1<<60) }},
		{"no clients", func(s *Scenario) { s.Clients = nil }},
		{"at least 1", func(s *Scenario) { s.Clients[0].Workers = 0 }},
		{"workers in all", func(s *Scenario) { s.Clients[0].Processes = math.MaxInt }},
		{"leaves", func(s *Scenario) { s.Clients[0].Join, s.Clients[0].Leave = 2, 1 }},
		{"off needs", func(s *Scenario) { s.Clients[0].Off = 1 }},
		{"arrivals", func(s *Scenario) { s.Clients[0].Arrivals = math.Inf(1) }},
		{"never ends", func(s *Scenario) { s.Duration = 0 }},
		{"duration", func(s *Scenario) { s.Duration = math.MaxInt64 }},
		{"setting", func(s *Scenario) { s.Settings = map[string]string{"backoff": "fctor=2"} }},
	} {
		s := small()
		s.Clients = slices.Clone(s.Clients)
		test.spoil(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Check = %v, want one line about %q", err, test.want)
		}
	}
	for _, s := range Builtin() {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	for _, text := range []string{
		"nonsense", "", "backoff(", "backoff)", "backoff(factor)", "backoff(fctor=2)", "backoff(factor=x)",
		"backoff(factor=-1)", "backoff(jitter=big)", "adaptive(probe=20)", "adaptive(probe=-1s)", "none(a=1)",
		"backoff(factor=NaN)", "backoff(factor=2))", "fixed(rate=0)",
	} {
		if _, err := ParsePolicy(text); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("ParsePolicy(%q): error %v, want one line", text, err)
		}
	}
	p, err := ParsePolicy(" backoff( factor=2 , cap=30s) ")
	if err != nil || p.Name != "backoff(factor=2,cap=30s)" {
		t.Fatalf("ParsePolicy = %q, %v", p.Name, err)
	}
	if c := fmt.Sprintf("%+v", p.New()); !strings.Contains(c, "Factor:2 ") || !strings.Contains(c, "Cap:30s") {
		t.Errorf("the controller is %s", c)
	}
	for _, info := range Policies() {
		if _, err := ParsePolicy(info.Name); err != nil || info.About == "" {
			t.Errorf("%s: %v, about %q", info.Name, err, info.About)
		}
	}
}

func TestAPolicysOwnSettingsBeatTheScenarios(t *testing.T) {
	mine := policy(t, "proportional(start=3s)").with("start=1s,min=2s")
	if c := fmt.Sprintf("%+v", mine.New()); !strings.Contains(c, "Initial:3s") || !strings.Contains(c, "MinSleep:2s") {
		t.Errorf("the controller is %s, want its own start and the scenario's min", c)
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
