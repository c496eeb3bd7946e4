package find

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/check"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/knee"
	"github.com/throttle-go/throttle/cmd/throttle/internal/sim"
	"github.com/throttle-go/throttle/internal/bubble"
)

// found are findings of a search that never was.
func found(t *testing.T, change func(*findings)) *findings {
	t.Helper()
	o, err := optionsOf([]string{"http://127.0.0.1:3000/<b>?secret=1"})
	if err != nil {
		t.Fatal(err)
	}
	point := func(level, good, errors float64, p99 time.Duration, met float64) knee.Point {
		return knee.Point{
			Level: level, Trials: 2, Requests: 2000, Offered: level, Served: level * (1 - errors), Goodput: good, Errors: errors,
			Mean: p99 / 4, P50: p99 / 5, P90: p99 / 2, P99: p99, Met: met, Trusted: level < 450,
		}
	}
	f := &findings{hunt: &hunt{options: o}, Result: knee.Result{
		Objective: knee.Objective{Latency: 250 * ms, Quantile: 0.99, Errors: 0.001},
		Knee:      knee.Interval{Low: 385.2, At: 400.4, High: 411},
		Capacity:  405.6, CapacityAt: 420, Latency: 45 * ms, InFlight: 18.018,
		Curve: []knee.Point{
			point(50, 50, 0, 41*ms, 1), point(200, 200, 0, 62*ms, 1), point(400.4, 400, 0.0005, 230*ms, 0.5),
			point(420, 405.6, 0.02, 420*ms, 0.03), point(500, 210, 0.31, 1400*ms, 0),
		},
		Recovery: knee.Recovery{Verdict: knee.Metastable, Pushed: 600, Back: 320, For: 5 * time.Second, After: 30 * time.Second, Kept: 0.42, Rested: true},
		Stop:     knee.Found, Spent: knee.Spent{Trials: 21, Requests: 34567, Failures: 1234, Time: 92 * time.Second},
	}}
	f.first = errors.New("answer 500\nInternal Server Error")
	if change != nil {
		change(f)
	}
	return f
}

func TestReport(t *testing.T) {
	var text, page, data bytes.Buffer
	f := found(t, nil)
	if err := errors.Join(f.writeText(&text), f.writeHTML(&page), f.writeJSON(&data)); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "report.txt", text.String())
	if html := page.String(); strings.Contains(html, "<b>") || strings.Contains(html, "secret") || strings.Count(html, "<svg") != 2 || !strings.Contains(html, "400.4/s (90 % interval 385.2 to 411)") {
		t.Errorf("the page is\n%s", html)
	}
	var o object
	if err := json.Unmarshal(data.Bytes(), &o); err != nil || *o.Knee.At != 400.4 || o.Recovery.Verdict != knee.Metastable || len(o.Curve) != 5 || o.Rule.Limit == "" {
		t.Errorf("%v: %+v", err, o)
	}
}

// TestWords: each outcome has its line.
func TestWords(t *testing.T) {
	for _, test := range []struct {
		change func(*findings)
		want   string
	}{
		{func(f *findings) { f.Knee = knee.Interval{}; f.Stop = knee.Never }, "none: the objective held at no load that was tried"},
		{func(f *findings) { f.AtLeast = true }, "400.4/s or more"},
		{func(f *findings) { f.AtLeast, f.Stop = true, knee.TooLate }, "400.4/s or more: beyond, this machine does not keep"},
		{func(f *findings) { f.Concurrency = true }, "400.4 in flight"},
		{func(f *findings) { f.Recovery = knee.Recovery{} }, "past the knee  not tried"},
		{func(f *findings) { f.Recovery.Verdict, f.Recovery.After = knee.Recovers, 0 }, "recovers at once"},
		{func(f *findings) { f.Recovery.Verdict = knee.Recovers }, "recovers after 30 s"},
		{func(f *findings) { f.Recovery.Verdict = knee.Slow }, "recovers slowly, not within 30 s"},
		{func(f *findings) { f.Result.Objective.Latency = 0 }, "objective      at most 0.1 % errors"},
		{func(f *findings) { f.Result.Objective.Errors = -1 }, "p99 within 250 ms, no errors"},
		{func(f *findings) { f.Doubt = "late" }, "beware         not to be trusted: late"},
		{func(f *findings) { f.Stop = knee.TooManySent }, "as many requests as -requests allows"},
		{func(f *findings) { f.Stop = knee.TooLong }, "ended after -for"},
		{func(f *findings) { f.Stop = knee.TooManyFailed }, "as many failures as -failures allows"},
		{func(f *findings) { f.Stop = knee.TooLate }, "what this machine can send"},
		{func(f *findings) { f.Stop = knee.Down }, "did not come back"},
		{func(f *findings) { f.Stop = knee.Undecided }, "too noisy"},
		{func(f *findings) { f.Stop = "" }, "beware         interrupted"},
		{func(f *findings) { f.Curve = nil }, "one line"},
		{func(f *findings) {
			f.Curve[0] = knee.Point{Level: 50, Trials: 1, Offered: 50, Errors: 1, Trusted: true}
		}, "100 %        -        -       -       -    0 %       1"},
	} {
		var text bytes.Buffer
		if err := found(t, test.change).writeText(&text); err != nil || !strings.Contains(text.String(), test.want) {
			t.Errorf("%v, got\n%s\nwant ...%s...", err, text.String(), test.want)
		}
	}
}

// TestNoKnee: charts without a knee have no legend of it.
func TestNoKnee(t *testing.T) {
	for _, at := range []float64{0, 400} {
		var page bytes.Buffer
		err := found(t, func(f *findings) { f.Knee.At = at }).writeHTML(&page)
		if got, want := strings.Count(page.String(), ">knee</text>"), 2*int(at/400); err != nil || got != want {
			t.Errorf("a knee at %v: %v, %d legends of it, want %d", at, err, got, want)
		}
	}
}

// TestFiles: the rules pass 'throttle check', and the simulator runs the scenario.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	rules, scenario := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "knee.yaml")
	f := found(t, func(f *findings) { f.rules, f.scenario = rules, scenario })
	var text bytes.Buffer
	if err := f.report(&text); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := clitest.Play(t.Context(), check.Run, rules, "-request", "GET /")
	if code != 0 || !strings.Contains(stdout, "knee") {
		t.Errorf("throttle check: code %d, %q, %q", code, stdout, stderr)
	}
	if stdout, stderr, code = clitest.Play(t.Context(), sim.Run, "-seeds=1", "-policy=none", scenario); code != 0 {
		t.Errorf("throttle sim: code %d, %q, %q", code, stdout, stderr)
	}
	for _, name := range []string{rules, scenario} {
		if text, err := os.ReadFile(name); err != nil || strings.Contains(string(text), "secret") {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

// TestNothingToWrite: files that cannot be written hide nothing of the report.
func TestNothingToWrite(t *testing.T) {
	dir := t.TempDir()
	f := found(t, func(f *findings) {
		f.Knee, f.Curve, f.Stop = knee.Interval{}, nil, knee.Never
		f.rules, f.scenario = filepath.Join(dir, "a"), filepath.Join(dir, "b")
	})
	var text bytes.Buffer
	err := f.report(&text)
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "no limit can be recommended") || !strings.Contains(err.Error(), "no scenario is written") {
		t.Errorf("got %v", err)
	}
	if code := exit.Code(err, io.Discard); code != 3 || !strings.Contains(err.Error(), "find: the objective holds at no load") {
		t.Errorf("code %d, %v, want 3 and why the search ended", code, err)
	}
	f.Stop = "" // interrupted
	if code := exit.Code(f.report(io.Discard), io.Discard); code != 1 {
		t.Errorf("interrupted: code %d, want 1", code)
	}
	if !strings.Contains(text.String(), "none: the objective held at no load") {
		t.Errorf("got %s", text.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := found(t, nil).report(clitest.BrokenPipe{}); err == nil || !strings.Contains(err.Error(), "standard output: pipe is broken") {
		t.Errorf("a broken pipe: %v", err)
	}
	for option, f := range map[string]*findings{
		"</html>": found(t, func(f *findings) { f.html = "-" }), "rules:": found(t, func(f *findings) { f.rules = "-" }), "clients:": found(t, func(f *findings) { f.scenario = "-" }),
	} {
		var out bytes.Buffer
		if err := f.report(&out); err != nil || !strings.Contains(out.String(), option) || strings.Contains(out.String(), "past the knee  ") {
			t.Errorf("%v, got %s, want %s", err, out.String(), option)
		}
	}
}

// TestScenarioOfPool: the simulator's service of a pool that was measured takes about
// as long for a request as the pool, 20 ms.
func TestScenarioOfPool(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := search(t, newPool(1, 20*ms), "-p99", "200ms", "-from", "20", "-recovery", "0", "-requests", "10000")
		var file bytes.Buffer
		if err := f.writeScenario(&file); err != nil {
			t.Fatal(err)
		}
		s, ok := f.Scenario(f.Knee.At)
		if w := s.Server.Service; !ok || w.AtOnce != 1 || w.Time < 10*ms || w.Time > 40*ms {
			t.Errorf("service %+v of\n%s", w, file.String())
		}
	})
}
