package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/sim"
)

// play runs the command, whose name is the first argument.
func play(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	return clitest.Play(ctx, Run, args[1:]...)
}

// twenty is a scenario of which the best rate is known.
const twenty = `name: twenty
duration: 1m
server: {limit: token-bucket, rate: 20/s, burst: 10}
network: {latency: 100ms, spread: 0.2}
clients:
  - {processes: 1, workers: 10}
`

func twentyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "twenty.yaml")
	if err := os.WriteFile(path, []byte(twenty), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type tuned struct {
	Version, Seeds, Settings, Runs int
	Space                          string
	Default, Best                  map[string]any
	Axes                           []string
	Front                          []map[string]any
}

// tuneJSON runs a search and reads what it prints.
func tuneJSON(t *testing.T, args ...string) (r tuned) {
	t.Helper()
	stdout, stderr, code := play(t.Context(), append([]string{"tune", "-json"}, args...)...)
	if code != 0 || stderr != "" {
		t.Fatalf("throttle tune %q: got code %d, stderr %q", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("throttle tune -json %q = %s: %v", args, stdout, err)
	}
	return r
}

// Told nothing but a wide range, it finds the rate that the server has.
func TestTuneFindsTheRate(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	for _, args := range [][]string{
		{"-seeds=4", "-runs=200"},
		{"-seeds=1", "-runs=100", "-seed=9"},
		{"-seeds=3", "-runs=200", "-weight", "throughput=1,retry_rate=2"},
		{"-seeds=3", "-runs=200", "-weight", "wait_p99_s=1,retry_rate=1"},
	} {
		r := tuneJSON(t, append(args, "-policy", "fixed(rate=1..100)", twentyFile(t))...)
		var rate float64
		if _, err := fmt.Sscanf(r.Best["policy"].(string), "fixed(rate=%g)", &rate); err != nil || rate < 19 || rate > 21 {
			t.Errorf("throttle tune %q: the best is %v, %v; want a rate from 19 to 21", args, r.Best["policy"], err)
		}
		if score, fresh := r.Best["score"].(float64), r.Best["fresh_score"].(float64); score > 0.5 || math.Abs(fresh-score) > 0.1 {
			t.Errorf("throttle tune %q: scores %v and, on other seeds, %v; want little", args, score, fresh)
		}
	}
}

// The weights decide where on the front the best lies.
func TestTuneObeysWeights(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	scenario := twentyFile(t)
	with := func(weights string) (retries, sleep float64) {
		r := tuneJSON(t, "-policy=backoff-jitter(cap=100ms..20s)", "-seeds=2", "-runs=120", "-weight", weights, scenario)
		return r.Best["retry_rate"].(float64), r.Best["max_sleep_s"].(float64)
	}
	few, long := with("retry_rate=100,max_sleep_s=1")
	many, brief := with("retry_rate=1,max_sleep_s=100")
	if !(few < many && brief < long) {
		t.Errorf("retries %v and sleep %v where retries count, %v and %v where sleep does", few, long, many, brief)
	}
}

// The same words give the same bytes on however many cores, another seed others.
func TestTuneIsDeterministic(t *testing.T) {
	scenario := twentyFile(t)
	args := []string{"tune", "-json", "-policy=backoff(base=100ms..5s,jitter=full|equal)", "-seeds=2", "-runs=80", scenario}
	first, _, _ := play(t.Context(), args...)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, cores := range []int{1, 4} {
		runtime.GOMAXPROCS(cores)
		if again, _, _ := play(t.Context(), args...); again != first {
			t.Fatalf("throttle %q on %d cores = %q, before %q", args, cores, again, first)
		}
	}
	if other, _, _ := play(t.Context(), append(args, "-seed=2")...); other == first || other == "" {
		t.Errorf("-seed=2 = %q, as -seed=1", other)
	}
}

// A search stays within its runs, and the front is one.
func TestTuneBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	for _, seeds := range []int{1, 2, 3, 7} {
		for _, runs := range []int{leastRuns(seeds), leastRuns(seeds) + 57} {
			r := tuneJSON(t, "-policy=backoff(base=100ms..5s)", "-seeds", fmt.Sprint(seeds), "-runs", fmt.Sprint(runs), twentyFile(t))
			if r.Runs > runs || r.Settings < 8 || r.Seeds != seeds {
				t.Errorf("-seeds %d -runs %d: %d runs of %d settings; want no more runs, and 8 settings or more", seeds, runs, r.Runs, r.Settings)
			}
			for i, f := range r.Front[1:] {
				before := r.Front[i]
				if x, y := r.Axes[0], r.Axes[1]; !(f[x].(float64) > before[x].(float64) && f[y].(float64) < before[y].(float64)) {
					t.Errorf("on the front %v follows %v", f, before)
				}
			}
		}
	}
}

// Where there are few settings, each is tried once.
func TestTuneFewSettings(t *testing.T) {
	r := tuneJSON(t, "-policy=fixed(rate=5|19|80)", "-seeds=2", twentyFile(t))
	if want := "fixed(rate=19)"; r.Best["policy"] != want || r.Settings != 3 || r.Runs > 3*2+2+4 {
		t.Errorf("got %v of %d settings in %d runs, want %s of 3 in 12 at most", r.Best["policy"], r.Settings, r.Runs, want)
	}
}

func TestTuneText(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "x.svg")
	args := []string{"tune", "-policy", "fixed(rate=1..100)", "-seeds=3", "-runs=150", twentyFile(t), "-svg", svg}
	stdout, stderr, code := play(t.Context(), args...)
	if code != 0 || stderr != "" {
		t.Fatalf("throttle %q: code %d, stderr %q", args, code, stderr)
	}
	clitest.Golden(t, "tune.txt", stdout)
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"twenty: the trade-off of fixed", ">front<", ">best: fixed(rate=", ">default<", ">tried<", "retry_rate %", "max_sleep_s"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the picture has no %s in\n%s", want, text)
		}
	}
	if err := xml.Unmarshal(text, new(struct{})); err != nil {
		t.Errorf("the picture is not XML: %v", err)
	}
}

// docs/tune.md shows what the program prints and draws.
func TestTuneDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	doc, err := os.ReadFile("../../../../docs/tune.md")
	if err != nil {
		t.Fatal(err)
	}
	svg := filepath.Join(t.TempDir(), "x.svg")
	const command = "tune -policy backoff(base=100ms..1m,factor=1.02..3) -seeds 8 -runs 800 heroku -svg "
	stdout, _, _ := play(t.Context(), strings.Fields(command+svg)...)
	if !bytes.Contains(doc, []byte("```\n"+stdout+"```\n")) || stdout == "" {
		t.Errorf("docs/tune.md does not show what 'throttle %sdocs/tune.svg' prints now:\n%s", command, stdout)
	}
	got, err := os.ReadFile(svg)
	if want, err2 := os.ReadFile("../../../../docs/tune.svg"); errors.Join(err, err2) != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/tune.svg is not what 'throttle %sdocs/tune.svg' draws now (%v)", command, errors.Join(err, err2))
	}
}

func TestVerdict(t *testing.T) {
	p := func(name string) sim.Policy { return sim.Policy{Name: name} }
	byRule := &trial{policy: p("default"), point: []float64{0.5}, score: 1}
	better := &trial{policy: p("better"), point: []float64{0.5}, score: 0.5}
	worse := &trial{policy: p("worse"), point: []float64{0.5}, score: 1}
	edge := &trial{policy: p("edge"), point: []float64{1}, score: 0.5}
	score := func(x float64) *trial { return &trial{score: x} }
	for _, test := range []struct {
		best, freshDefault, freshBest *trial
		want, use                     string
	}{
		{better, score(1), score(0.6), "The best found:", "better"},
		{better, score(0.9), score(0.9), "Keep the defaults; on the other seeds better is no better:", "default"},
		{better, nil, nil, "The best found so far, not checked on other seeds:", "better"},
		{worse, score(1), score(0.9), "Keep the defaults; nothing found is better:", "default"},
		{byRule, score(1), score(1), "Keep the defaults; nothing found is better:", "default"},
		{byRule, nil, nil, "So far nothing found is better than the defaults:", "default"},
		{edge, score(1), score(0.6), "At the end of the range: rate. A wider one may hold more.\nThe best found:", "edge"},
	} {
		r := result{search: &search{byRule: byRule}, best: test.best, freshDefault: test.freshDefault, freshBest: test.freshBest}
		r.space.dims = []dimension{{name: "rate"}}
		if got, use := r.verdict(); got != test.want || use.policy.Name != test.use {
			t.Errorf("best %s: got %q and %s, want %q and %s", test.best.policy.Name, got, use.policy.Name, test.want, test.use)
		}
	}
}

// countdown is a context that ends when it has been asked so many times.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// Interrupted, it says what it has, and that it was.
func TestTuneInterrupted(t *testing.T) {
	scenario := twentyFile(t)
	for _, test := range []struct {
		looks  int64
		policy string
		want   string // is in stdout; "": nothing is
	}{
		{0, "fixed(rate=1..100)", ""},
		{2, "fixed(rate=1..100)", ""},
		{10, "fixed(rate=1..100)", "So far nothing found is better than the defaults:\n\n-policy 'fixed'\n"},
		{10, "fixed(rate=10..100)", ""},
		{120, "fixed(rate=1..100)", "The best found so far, not checked on other seeds:\n\n-policy 'fixed(rate="},
	} {
		ctx := &countdown{Context: t.Context()}
		ctx.left.Store(test.looks)
		stdout, stderr, code := play(ctx, "tune", "-policy", test.policy, "-seeds=4", "-runs=200", scenario)
		if code != 1 || !strings.HasPrefix(stderr, "throttle: interrupted: ") || !strings.HasSuffix(stderr, " of 200 runs\n") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("interrupted after %d looks: code %d, stderr %q", test.looks, code, stderr)
		}
		if !strings.Contains(stdout, test.want) || test.want == "" && stdout != "" || strings.Contains(stdout, "score on seeds") {
			t.Errorf("interrupted after %d looks, %s: got\n%s\nwant ...%q...", test.looks, test.policy, stdout, test.want)
		}
	}
}

func TestTuneUsage(t *testing.T) {
	dir := t.TempDir()
	scenario := twentyFile(t)
	for _, test := range []struct {
		args []string
		want string // is in stderr
	}{
		{[]string{"-x"}, "flag -x is not known; run 'throttle tune -h'"},
		{[]string{"mixed-emr"}, "scenario mixed-emr: all clients have a policy of their own, and none has the one that is searched; leave out one policy"},
		{[]string{"-"}, "throttle: -:1:1: empty; a scenario needs"},
		{[]string{"-seeds=0"}, "-seeds 0: must be from 1 to 1000"},
		{[]string{"-seeds=1001"}, "-seeds 1001: must be"},
		{[]string{"-seed=18446744073709551577"}, "-seed 18446744073709551577: must be at most 18446744073709551576, so that 39 follow"},
		{[]string{"-seed=-1"}, `"-1"`},
		{[]string{"-runs=0"}, "-runs 0: must be from 200, with -seeds 20, to 100000"},
		{[]string{"-runs=100001"}, "-runs 100001: must be"},
		{[]string{"-seeds=3", "-runs=20"}, "-runs 20: must be from 33, with -seeds 3"},
		{[]string{"-policy", "fixed,adaptive"}, "one is searched, not 2"},
		{[]string{"-policy", "fixed(rate=9..1)"}, "the low end must be below"},
		{[]string{"-policy", "a\nb"}, `policy "a\nb" is not known`},
		{[]string{"-weight", "retry_rate"}, "-weight retry_rate: write MEASURE=NUMBER"},
		{[]string{"-weight", "retry_rate=-1"}, "from 0 to 1000000"},
		{[]string{"-weight", "retry_rate=NaN"}, "from 0 to 1000000"},
		{[]string{"-weight", "retry_rate=1,"}, `-weight "": write`},
		{[]string{"-weight", "retry_rate=0"}, "one must be above 0"},
		{[]string{"-weight", "retry_rate=1,retry_rate=2"}, "retry_rate occurs twice"},
		{[]string{"-weight", "speed=1"}, "measure speed is not among those that count; known are retry_rate, "},
		{[]string{"-weight", "sent=1"}, "measure sent is not among"},
		{[]string{"-weight", "retry_rat=1"}, "did you mean retry_rate?"},
		{[]string{"-weight", "finish_s=1", "-runs=60", "-seeds=2", scenario}, "scenario twenty has no finish_s"},
		{[]string{"-front", "jain"}, "name two measures"},
		{[]string{"-front", "jain,jain"}, "name two measures"},
		{[]string{"-front", "jain,sent"}, "-front: measure sent is not among"},
		{[]string{"-front", "jain,finish_s", "-runs=60", "-seeds=2", scenario}, "-front: scenario twenty has no finish_s"},
		{[]string{"emr", "heroku"}, "one scenario is searched, not 2"},
		{[]string{"nowhere"}, "scenario nowhere is not known"},
		{[]string{"-svg", dir}, "is a directory; name a file"},
	} {
		stdout, stderr, code := play(t.Context(), append([]string{"tune"}, test.args...)...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("throttle tune %q:\ngot code %d, stdout %q, stderr %q\nwant code 2, nothing, ...%q...", test.args, code, stdout, stderr, test.want)
		}
		if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "throttle: ") {
			t.Errorf("throttle tune %q: got stderr %q, want one line", test.args, stderr)
		}
	}
}

func TestTuneHelp(t *testing.T) {
	for _, args := range [][]string{{"tune", "-h"}, {"tune", "emr", "--help"}} {
		if stdout, stderr, code := play(t.Context(), args...); code != 0 || stderr != "" || !strings.Contains(stdout, "LOW..HIGH") {
			t.Errorf("throttle %q: got code %d, stderr %q, stdout\n%s", args, code, stderr, stdout)
		}
	}
	err := Run(t.Context(), []string{"-policy=fixed(rate=1|2)", "-seeds=1", "emr"}, nil, clitest.BrokenPipe{}, io.Discard)
	if err == nil || exit.Code(err, io.Discard) != 1 || !strings.Contains(err.Error(), "pipe is broken") {
		t.Errorf("run into a broken pipe = %v, want a failure that says so", err)
	}
}

// Work that is not done by the end of the run counts as finished then.
func TestUnfinishedWork(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	s, err := scenario.Parse("x.yaml", []byte(strings.Replace(twenty, "workers: 10}", "workers: 10, work: 1000}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	r := searched(t, s, "fixed(rate=1..100)")
	if f := r.byRule.median[measures.At("finish_s")]; !f.OK || f.V != 60 {
		t.Errorf("finish_s of what is not finished in a minute is %v, want 60", f)
	}
	if best := r.best(); best.median[measures.At("finish_s")].V > 52 {
		t.Errorf("the best of %s finishes after %v s, want about 50", &r.space, best.median[measures.At("finish_s")].V)
	}
}

// The check is on seeds that the search has not seen, and on all of them.
func TestTuneChecksOnOtherSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	s, err := scenario.Parse("x.yaml", []byte(twenty))
	if err != nil {
		t.Fatal(err)
	}
	o := options{search: *searched(t, s, "backoff-jitter(cap=1s..20s)")}
	r := o.result(t.Context(), o.search.best())
	for _, test := range []struct{ tried, fresh *trial }{{r.byRule, r.freshDefault}, {r.best, r.freshBest}} {
		for i := range 3 {
			for from, got := range map[uint64]readings{1: test.tried.runs[i], 4: test.fresh.runs[i]} {
				want, _ := playOut(t.Context(), s, test.tried.policy, from+uint64(i))
				if !slices.Equal(got, readingsOf(s, want)) {
					t.Errorf("%s, run %d: got %v, want that of seed %d, %v", test.tried.policy.Name, i, got, from+uint64(i), readingsOf(s, want))
				}
			}
		}
		if len(test.tried.runs) != 3 || len(test.fresh.runs) != 3 {
			t.Errorf("%s: %d and %d runs, want 3 and 3", test.tried.policy.Name, len(test.tried.runs), len(test.fresh.runs))
		}
	}
}

// searched is a search that is over. Work that never ends has no finish_s.
func searched(t *testing.T, s sim.Scenario, policy string) *search {
	t.Helper()
	space, err := parseSpace(policy)
	weights, err2 := parseWeights("retry_rate=1,max_sleep_s=0.1,finish_s=1")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	r := &search{
		scenario: s, space: space, weights: weights, seeds: 3, first: 1, most: 150, progress: func(int) {},
		axes: [2]int{measures.At("max_sleep_s"), measures.At("retry_rate")},
	}
	known, err := r.measureDefault(t.Context())
	if err := errors.Join(err, r.run(t.Context())); err != nil || !known {
		t.Fatalf("search: %t, %v", known, err)
	}
	return r
}

// TestTuneWithoutMeasures: a run without requests has one seed in the singular, and no front.
func TestTuneWithoutMeasures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	idle := "duration: 1m\nserver: {rate: 4/s}\nclients: [{workers: 1, join: 59s, arrivals: 0.001/s}]\n"
	if err := os.WriteFile(file, []byte(idle), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := play(t.Context(), "tune", "-policy", "backoff(base=1s..2s)", "-seeds", "1", "-runs", "19", file)
	if code != 0 || !strings.Contains(out, ", seed 1\n") || !strings.Contains(out, "score on seed 2 ") || !strings.HasSuffix(out, "\nThere is no front: the scenario has no max_sleep_s, or no retry_rate %.\n") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}
