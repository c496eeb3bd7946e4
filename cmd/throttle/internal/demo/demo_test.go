package demo

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
	"github.com/throttle-go/throttle/throttlehttp"
)

// play runs the command, whose name is the first argument.
func play(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	return clitest.Play(ctx, Run, args[1:]...)
}

// smallScenario takes a second and a half: 170 calls, 20 of them from the full
// bucket, the others at 100 a second.
func smallScenario() sim.Scenario {
	return sim.Scenario{
		Name: "small",
		Server: sim.Server{
			Limit: limit.Limit{Count: 100, Period: time.Second, Burst: 20},
			Hints: sim.Hints{Remaining: true},
		},
		Network: sim.Network{Latency: 20 * time.Millisecond, Spread: 0.2},
		Clients: []sim.Group{{Processes: 2, Workers: 4, Work: 170}},
	}
}

func parsed(t *testing.T, names ...string) []sim.Policy {
	t.Helper()
	policies, err := policy.Read(names)
	if err != nil {
		t.Fatal(err)
	}
	return policies
}

// Clients, timers and the server do what the simulation says, since both run
// package pace. What that must come to, arithmetic says: a policy that is
// broken is so in both. TestSoakKinds does it over sockets, in real time.
func TestLiveAgreesWithSim(t *testing.T) {
	for _, test := range []struct {
		policy string
		// Of 170 calls: how many are refused, and when the last is served.
		retryRate, finish float64
	}{
		// 80 a second of both processes: below the limit.
		{"fixed(rate=40)", 0, 170.0 / 80},
		// 150 a second for 1.5 s.
		{"fixed(rate=75)", 1 - 170/225.0, 1.5},
		// 8 workers have 12 s, a call served takes 0.02 s, one refused 0.03 s
		// more: 12 = 170 × 0.02 + refused × 0.05.
		{"backoff-jitter(base=60ms,cap=60ms)", 172 / (172 + 170.0), 1.5},
		{"adaptive-informed", 0, 1.5},
	} {
		bubble.Test(t, func(t *testing.T) { livesAsSimulated(t, test.policy, test.retryRate, test.finish) })
	}
}

// livesAsSimulated plays the small scenario and simulates it. It compares both with
// one another, and with the retry rate and the last answer in seconds that are wanted.
func livesAsSimulated(t *testing.T, policy string, retryRate, finish float64) {
	const tolerance = 0.1
	const point = 0.01 // of retry rates near zero
	s, p := smallScenario(), parsed(t, policy)
	predicted := batch.Run(t.Context(), s, p, 20, 1, nil).Rows[0].Summary
	server, err := servePiped(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen, late, err := playLive(t.Context(), server, p[0], 1, func(string) {})
	server.close()
	if err != nil {
		t.Errorf("%s live: %v", policy, err)
		return
	}
	if late < -s.Network.Latency/10 || late > s.Network.Latency/10 {
		t.Errorf("%s live: answers were %v late where no time passes unseen; want no tenth of the latency", policy, late)
	}
	live := sim.Summarise([]sim.Result{seen})
	for _, m := range []struct {
		measure     string
		want, least float64
	}{
		{"retry_rate", retryRate, point},
		{"utilisation", 170 / (20 + 100*finish), 0},
		{"finish_s", finish, 0},
	} {
		i := measures.At(m.measure)
		got, simulated := live.Stats[i].V.Median, predicted.Stats[i].V.Median
		t.Logf("%s %s: live %.4f, sim %.4f, want %.4f", policy, m.measure, got, simulated, m.want)
		if math.Abs(got-simulated) > max(tolerance*simulated, m.least) {
			t.Errorf("%s: %s is %.4f live, %.4f in sim; want within %v of each other", policy, m.measure, got, simulated, tolerance)
		}
		if math.Abs(simulated-m.want) > max(tolerance*m.want, m.least) {
			t.Errorf("%s: %s is %.4f in sim, want %.4f", policy, m.measure, simulated, m.want)
		}
		if math.Abs(got-m.want) > max(2*tolerance*m.want, 2*m.least) {
			t.Errorf("%s: %s is %.4f live, want %.4f", policy, m.measure, got, m.want)
		}
	}
}

func TestDemo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var told []string
		d := demo{
			scenario: smallScenario(), policies: parsed(t, "fixed(rate=40)", "fixed(rate=75)"), seeds: 5, seed: 1,
			show: func(text string) { told = append(told, text) }, serve: servePiped,
		}
		var out strings.Builder
		if err := d.run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"small: token-bucket of 100/s, burst 20; latency 20ms; 2×4 workers, 170 calls\n",
			"\nfixed(rate=40) ", "\nfixed(rate=75) ",
			"\nbeside it what sim predicts: median (min–max) of 5 seeds\n",
			"\nLive and predicted agree within 20 %",
			"\nFor the same 170 calls fixed(rate=40) sent\n", " and fixed(rate=75) ",
			"\n  throttle sim dynamodb ",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("demo wrote\n%s\nwant ...%q...", out.String(), want)
			}
		}
		if len(told) < 3 || !strings.HasPrefix(told[0], "fixed(rate=40) (1 of 2): ") || !strings.Contains(told[0], " of 170 served, ") || told[len(told)-1] != "" {
			t.Errorf("demo told %q; want how far it is, and nothing at the end", told)
		}
	})
}

// TestDemoJSON is over sockets and in real time, whatever the figures are then.
func TestDemoJSON(t *testing.T) {
	s := smallScenario()
	s.Clients[0].Work = 10
	d := demo{scenario: s, policies: parsed(t, "fixed(rate=75)"), seeds: 5, seed: 1, json: true, show: func(string) {}, serve: serve}
	var out strings.Builder
	if err := d.run(t.Context(), &out); err != nil && !errors.As(err, new(exit.Failure)) && !errors.As(err, new(exit.Assertion)) {
		t.Error(err)
	}
	var got struct {
		Version int
		Results []struct {
			Scenario, Policy string
			Seeds            int
			Served           sim.Stat
			Groups           []struct{ Served sim.Stat }
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Version != 1 || len(got.Results) != 2 {
		t.Fatalf("demo -json wrote %s: %v; want two results of version 1", out.String(), err)
	}
	for i, want := range []struct {
		scenario string
		seeds    int
	}{{"small", 1}, {"small-predicted", 5}} {
		r := got.Results[i]
		if r.Scenario != want.scenario || r.Policy != "fixed(rate=75)" || r.Seeds != want.seeds || r.Served.Median != 10 || r.Groups[0].Served.Median != 10 {
			t.Errorf("result %d of demo -json is %+v, want 10 served in %+v", i, r, want)
		}
	}
}

// Interrupted in its second policy, the demo says what it had, and leaves
// neither its listener nor a goroutine behind.
func TestDemoInterrupted(t *testing.T) {
	s := smallScenario()
	s.Clients[0].Work = 20
	before := runtime.NumGoroutine()
	ctx, interrupt := context.WithCancel(t.Context())
	d := demo{scenario: s, policies: parsed(t, "none", "fixed(rate=0.1)", "fixed"), seeds: 2, seed: 1, serve: serve}
	d.show = func(text string) {
		if strings.HasPrefix(text, "fixed(rate=0.1)") && strings.Contains(text, " 2 of 20 ") {
			interrupt()
		}
	}
	var out strings.Builder
	err := d.run(ctx, &out)
	interrupt()
	if want := "interrupted: 1 of 3 policies, and fixed(rate=0.1): 2 of 20 served, 2 sent, 0 refused"; !errors.As(err, new(exit.Failure)) || err.Error() != want {
		t.Errorf("interrupted demo: %v, want the failure %q", err, want)
	}
	if text := out.String(); !strings.Contains(text, "\nnone ") || strings.Contains(text, "\nfixed") || strings.Contains(text, "For the same") {
		t.Errorf("interrupted demo wrote\n%s\nwant the row of none alone", text)
	}
	// Those that were told to end may need a moment to be gone.
	for give := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(give); {
		runtime.Gosched()
	}
	if now := runtime.NumGoroutine(); now > before {
		all := make([]byte, 1<<16)
		t.Errorf("%d goroutines after, %d before:\n%s", now, before, all[:runtime.Stack(all, true)])
	}
}

func TestDemoInterruptedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stdout, stderr, code := play(ctx, "demo")
	if want := "throttle: interrupted: 0 of 4 policies\n"; code != 1 || stderr != want || stdout != "" {
		t.Errorf("demo with its context over: code %d, stdout %q, stderr %q; want 1, nothing, %q", code, stdout, stderr, want)
	}
}

func TestLiveServerCloses(t *testing.T) {
	v, err := serve(smallScenario(), 1)
	if err != nil {
		t.Fatal(err)
	}
	v.close()
	if c, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://")); err == nil {
		c.Close()
		t.Errorf("%s still listens after close", v.url)
	}
}

// An answer that is neither served nor refused ends the demo with a word.
func TestDemoStrangeAnswer(t *testing.T) {
	v, err := serve(smallScenario(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	v.limited.(*throttlehttp.Handler).Next = http.NotFoundHandler()
	_, _, err = playLive(t.Context(), v, parsed(t, "none")[0], 1, func(string) {})
	if err == nil || !strings.HasPrefix(err.Error(), "the answer was 404 Not Found; 0 of 170 served, ") {
		t.Errorf("playLive where all is not found: %v", err)
	}
}

func TestDemoUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"demo", "heroku"}, 2, "demo: heroku: takes flags only"},
		{[]string{"demo", "-x"}, 2, "flag -x is not known; run 'throttle demo -h'"},
		{[]string{"demo", "-seed=-1"}, 2, `"-1"`},
		{[]string{"demo", "-h"}, 0, "Examples:\n  throttle demo\n"},
	} {
		stdout, stderr, code := play(t.Context(), test.args...)
		if code != test.code || !strings.Contains(stdout+stderr, test.want) {
			t.Errorf("throttle %q: code %d, %q; want %d, ...%q...", test.args, code, stdout+stderr, test.code, test.want)
		}
	}
}

// The scenario of the demo is one that sim accepts, with policies it knows.
func TestDemoScenario(t *testing.T) {
	if err := demoScenario().Check(); err != nil {
		t.Error(err)
	}
	if p := parsed(t, demoPolicies...); len(p) != 4 {
		t.Errorf("%d policies, want 4", len(p))
	}
}

// The measures are those of sim.Result: two processes of two workers.
func TestLiveResult(t *testing.T) {
	s := smallScenario()
	l := &live{bases: make([]*http.Transport, 2), begins: time.Unix(1000, 0)}
	l.sent.Store(100)
	l.served.Store(80)
	l.throttled.Store(20)
	for i, w := range []liveWorker{
		{sent: 20, served: 20, maxSleep: time.Second, waits: []time.Duration{4e9, 1e9}},
		{sent: 20, served: 10, throttled: 10},
		{sent: 40, served: 40, maxSleep: 3 * time.Second, waits: []time.Duration{3e9, 2e9}},
		{sent: 20, served: 10, throttled: 10},
	} {
		w.live, w.process, w.last = l, i/2, l.begins.Add(time.Duration(i)*time.Second)
		l.workers = append(l.workers, &w)
	}
	got := sim.Summarise([]sim.Result{l.result(s)})
	for _, test := range []struct {
		measure string
		want    float64
	}{
		{"sent", 100},
		{"served", 80},
		{"throttled", 20},
		{"retry_rate", 0.2},
		{"retry_rate_worker_mean", 0.25},
		{"max_sleep_s", 3},
		{"stdev_requests", 10},
		{"jain", 80 * 80 / (2 * (30.0*30 + 50*50))},
		{"jain_workers", 80 * 80 / (4 * (20.0*20 + 10*10 + 40*40 + 10*10))},
		{"utilisation", 80.0 / (20 + 3*100)},
		{"throughput", 80.0 / 3},
		{"finish_s", 3},
		{"wait_p50_s", 2},
		{"wait_p99_s", 4},
	} {
		if s := got.Stats[measures.At(test.measure)]; !s.OK || math.Abs(s.V.Median-test.want) > 1e-9 {
			t.Errorf("%s = %+v, want %v", test.measure, s, test.want)
		}
	}
}

// answering answers every request alike.
type answering struct{ status int }

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	h := http.Header{}
	h.Set("RateLimit-Remaining", "7")
	return &http.Response{StatusCode: a.status, Header: h, Body: http.NoBody}, nil
}

// A policy reads live what it reads in the simulation, and tries are counted.
func TestCounting(t *testing.T) {
	for _, test := range []struct {
		policy, hears string
	}{{"none", ""}, {"adaptive", ""}, {"adaptive-informed", "7"}, {"proportional-remaining", "7"}} {
		l := &live{policy: parsed(t, test.policy)[0]}
		w := &liveWorker{live: l, wish: time.Now()}
		req, err := http.NewRequestWithContext(context.WithValue(t.Context(), workerKey{}, w), "GET", "http://nowhere/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, status := range []int{204, 429, 429, 500} {
			answer, err := counting{l, answering{status}}.RoundTrip(req)
			if err != nil || answer.Header.Get("RateLimit-Remaining") != test.hears {
				t.Errorf("%s: a client hears %q (%v), want %q", test.policy, answer.Header.Get("RateLimit-Remaining"), err, test.hears)
			}
		}
		if w.sent != 4 || w.served != 1 || w.throttled != 2 || l.sent.Load() != 4 || l.served.Load() != 1 || l.throttled.Load() != 2 {
			t.Errorf("%s: %+v, want 4 sent, 1 served, 2 throttled", test.policy, w)
		}
	}
}
