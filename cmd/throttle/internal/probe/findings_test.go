package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	simcommand "github.com/throttle-go/throttle/cmd/throttle/internal/sim"
	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// near is an interval of a percent around x.
func near(x float64) fit.Interval { return fit.Interval{Low: x * 0.995, High: x * 1.005} }

// made are findings of one kind, as package fit may return them.
func made(m fit.Model) *findings {
	c := fit.Candidate{
		Model: m, LogLikelihood: -3.25, Share: 0.99995, BurstIn: fit.Interval{Low: m.Burst, High: m.Burst},
		CountIn: fit.Interval{Low: m.Count, High: m.Count}, PeriodIn: near(m.Period.Seconds()), InFlightIn: fit.Interval{Low: float64(m.InFlight), High: float64(m.InFlight)},
	}
	if m.Period == 0 { // the rate of a window is no parameter of its own
		c.RateIn = near(m.Rate)
	}
	return &findings{
		Result: fit.Result{Candidates: []fit.Candidate{c, {LogLikelihood: -80, Share: 1e-9}}, Decided: true, Used: 90, Refused: 4},
		host:   "api.example.com:8080", length: 12345 * time.Millisecond, latency: 12 * time.Millisecond, usual: 100 * time.Millisecond, least: 3 * time.Millisecond, statuses: map[int]int{200: 85, 429: 4, 0: 1},
		reader: reader{dialect: signal.For("")},
	}
}

var models = []fit.Model{
	{Kind: fit.TokenBucket, Rate: 5, Burst: 10},
	{Kind: fit.TokenBucket, Rate: 4.9, Burst: 1},
	{Kind: fit.FixedWindow, Rate: 10, Count: 20, Period: 2 * time.Second, Phase: 300 * time.Millisecond},
	{Kind: fit.FixedWindow, Rate: 10, Count: 20, Period: 2 * time.Second, FromFirst: true},
	{Kind: fit.SlidingLog, Rate: 10, Count: 20, Period: 2 * time.Second},
	{Kind: fit.SlidingCounter, Rate: 10, Count: 20, Period: 2 * time.Second},
	{Kind: fit.SlidingLog, Rate: 1, Count: 1, Period: time.Second},
	{Kind: fit.Delay, Rate: 5, Burst: 2},
	{Kind: fit.Concurrency, InFlight: 4},
	{},
}

// An interval of whole numbers ends at whole numbers, and holds the value.
func TestParameterWhole(t *testing.T) {
	for _, c := range []struct {
		p    parameter
		want string
	}{
		{parameter{"count", "", 10, fit.Interval{Low: 9.482, High: 10.5}, true}, "10  (95%: 10 to 10)"},
		{parameter{"count", "", 10, fit.Interval{Low: 8.6, High: 12.3}, true}, "10  (95%: 9 to 12)"},
		{parameter{"in flight", "", 4, fit.Interval{Low: 4.2, High: 4.4}, true}, "4  (95%: 4 to 4)"},
		{parameter{"burst", "", 2.5, fit.Interval{Low: 2.2, High: 2.9}, true}, "2.50  (95%: 2.2 to 2.9)"},
		{parameter{"rate", "a second", 5, fit.Interval{Low: 4.975, High: 5.025}, false}, "5 a second  (95%: 4.975 to 5.025)"},
	} {
		if got := c.p.text(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
}

// The text and the JSON that people and programs read.
func TestReport(t *testing.T) {
	var all bytes.Buffer
	for i, m := range models {
		f := made(m)
		switch i {
		case 0:
			f.told = []signal.Policy{{Unit: "requests", Limit: pace.Some[int64](10), Window: pace.Some(2 * time.Second), Remaining: pace.Some[int64](3)}}
		case 2:
			f.Shared, f.Unexplained = true, 3
		case 4:
			f.Decided, f.Why, f.ended = false, "a sliding window counter is as likely", "-requests 2000"
		}
		var code int
		stdout, stderr, code := clitest.Play(t.Context(), clitestReport(f))
		all.WriteString(stdout + stderr)
		if want := map[bool]int{true: 0, false: 3}[f.Decided]; code != want {
			t.Errorf("%v: exit code %d, want %d", m, code, want)
		}
		all.WriteString("\n")
		text, _, _ := clitest.Play(t.Context(), clitestReport(f), "-json")
		var o map[string]any
		if err := json.Unmarshal([]byte(text), &o); err != nil || o["decided"] != f.Decided || o["caller"] != f.code() {
			t.Errorf("%v as JSON: %s, %v", m, text, err)
		}
		for _, name := range []string{"rate_per_s", "burst", "count", "period_s", "in_flight"} {
			p, ok := o["candidates"].([]any)[0].(map[string]any)[name].(map[string]any)
			if is, low, high := p["is"], p["low"], p["high"]; ok && (is.(float64) < low.(float64) || is.(float64) > high.(float64)) {
				t.Errorf("%v as JSON: %s is %v, outside its interval from %v to %v", m, name, is, low, high)
			}
		}
		if i == 0 {
			all.WriteString(text + "\n")
		}
	}
	clitest.Golden(t, "report.txt", all.String())
}

// A page on standard output stands in place of the text.
func TestDash(t *testing.T) {
	f := made(models[0])
	f.seen = []seen{{sent: at("2026-01-02T15:04:05Z"), ended: at("2026-01-02T15:04:06Z"), status: 200}}
	for option, want := range map[string]string{
		"-scenario": "# Found by 'throttle find -limit' from 90 answers; share >99.99%\n",
		"-log":      `{"time":"2026-01-02T15:04:05Z","status":200,"latency":"1s"}` + "\n",
	} {
		if stdout, _, code := clitest.Play(t.Context(), clitestReport(f), option); code != 0 || !strings.HasPrefix(stdout, want) || strings.Contains(stdout, "candidate") {
			t.Errorf("%s -: code %d, %s; want 0, %s and no table", option, code, stdout, want)
		}
	}
}

// A queue without a burst is paced at its rate, however long answers have waited in it.
func TestCallerOfQueue(t *testing.T) {
	f := made(fit.Model{Kind: fit.Delay, Rate: 5, Burst: 1})
	f.latency = 2 * time.Second
	if c := f.fixed(); math.Abs(c.Rate-4.975) > 1e-9 || c.Burst != 0 {
		t.Errorf("paced at %v/s, burst %d; want 4.975/s and none", c.Rate, c.Burst)
	}
}

// However far a server is, only what its latency differs counts; a log without latencies
// says nothing of that.
func TestCallerFarAway(t *testing.T) {
	f := made(fit.Model{Kind: fit.TokenBucket, Rate: 20, Burst: 1})
	f.least, f.latency = 200*time.Millisecond, 210*time.Millisecond
	if rate, want := f.fixed().Rate, 1/(1/19.9+0.01); math.Abs(rate-want) > 1e-9 {
		t.Errorf("paced at %v/s, want %v", rate, want)
	}
	f.least, f.latency = 50*time.Millisecond, 50*time.Millisecond
	if rate, want := f.fixed().Rate, 1/(1/19.9+0.05); math.Abs(rate-want) > 1e-9 {
		t.Errorf("paced at %v/s by a log without latencies, want %v", rate, want)
	}
}

// The line of code is an expression, and what it paces is not refused by the
// limiter that was found, with arrivals that come by up to what the latency differs later
// than others.
func TestCaller(t *testing.T) {
	for _, m := range models {
		f := made(m)
		line, _, _ := strings.Cut(f.code(), " //")
		if _, err := parser.ParseExpr(line); err != nil {
			t.Errorf("%v: %s: %v", m, line, err)
		}
		l, ok := m.Limit()
		if !ok {
			continue
		}
		for seed := range uint64(5) {
			fixed := f.fixed()
			if n := refusals(&fixed, l, f.jitter(), seed); n > 0 {
				t.Errorf("%v: %s was refused %d of 2000 times, want never", m, line, n)
			}
			if share := fixed.Rate / m.Rate; share > 1 || share < 0.9 {
				t.Errorf("%v: %s uses %.3f of the rate, want 0.9 to 1", m, line, share)
			}
		}
	}
}

// refusals are how many of 2000 requests of a policy a limit refuses, each of
// which is on its way for up to so much longer than the others.
func refusals(c *pace.Fixed, l limit.Limit, jitter time.Duration, seed uint64) (n int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	now := time.Unix(1e9, 0).Add(time.Duration(rng.Int64N(int64(2 * time.Second))))
	var arrivals []time.Time
	for range 2000 {
		r := pace.Request{Cost: 1, Since: now}
		for wait := c.Wait(now, r); wait > 0; wait = c.Wait(now, r) {
			now = now.Add(wait)
		}
		c.Start(now, r)
		arrivals = append(arrivals, now.Add(time.Duration(rng.Int64N(int64(jitter)))))
		if rng.IntN(100) == 0 {
			now = now.Add(5 * time.Second) // a pause, after which a burst is allowed
		}
	}
	slices.SortFunc(arrivals, time.Time.Compare)
	var state limit.State
	var log limit.Log
	for _, at := range arrivals {
		ask, d := limit.Ask{Limit: l, N: 1}, limit.Decision{}
		if l.Kind == limit.SlidingLog {
			d = log.Take(at, ask)
		} else {
			state, d = limit.Take(state, at, ask)
		}
		if !d.OK {
			n++
		}
	}
	return n
}

// The scenario of every kind is one that 'throttle sim' runs, and its server
// serves what the limiter does.
func TestScenario(t *testing.T) {
	for i, m := range models {
		f := made(m)
		f.wait = time.Second
		var text bytes.Buffer
		if err := f.writeScenario(&text); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"-policy=none", "-seeds=1", "-json", path}
		stdout, stderr, code := clitest.Play(t.Context(), simcommand.Run, args...)
		if code != 0 {
			t.Errorf("throttle sim of %v: code %d, %s\n%s", m, code, stderr, text.String())
			continue
		}
		var o struct {
			Results []struct{ Throughput struct{ Median float64 } }
		}
		if err := json.Unmarshal([]byte(stdout), &o); err != nil || len(o.Results) != 1 {
			t.Fatalf("%v: %s", err, stdout)
		}
		want, latency := m.Rate, f.usual
		switch m.Kind {
		case fit.Concurrency: // four workers, as many as it admits
			want, latency = 4/f.usual.Seconds(), time.Millisecond
		case fit.Delay: // the usual answer has waited in the queue
			latency = f.least
		}
		if got := o.Results[0].Throughput.Median; want > 0 && math.Abs(got-want) > 0.1*want {
			t.Errorf("%v: its scenario serves %.3g a second, want %.3g\n%s", m, got, want, text.String())
		}
		if line := fmt.Sprintf("network: {latency: %v,", latency); !strings.Contains(text.String(), line) {
			t.Errorf("%v: its scenario lacks %s\n%s", m, line, text.String())
		}
		if i == 0 {
			clitest.Golden(t, "scenario.yaml", text.String())
		}
	}
}

// clitestReport is a command that reports findings.
func clitestReport(f *findings) clitest.Command {
	return func(_ context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
		o := new(options)
		for _, a := range args {
			switch a {
			case "-json":
				o.json = true
			case "-scenario":
				o.scenario = "-"
			case "-log":
				o.log = "-"
			}
		}
		return f.report(o, stdout)
	}
}

// TestBrief: every duration has a text of three digits.
func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 999: "999ns", 123_456: "123µs", 1_500 * time.Hour: "1500h", math.MaxInt64: "2561111h"} {
		if got := brief(d); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}
