package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
	"github.com/throttle-go/throttle/sim/survey"
)

// served is when calls were served, the first so many.
func served(r *sim.Run, most int) (at []time.Duration) {
	r.Watch = func(p sim.Point) {
		if !p.Sent && p.Verdict == pace.Served {
			at = append(at, p.At)
		}
	}
	r.MaxSent = 3000
	for len(at) < most && !r.Step(1000) {
	}
	slices.Sort(at)
	return at[:min(most, len(at))]
}

// TestNoPolicyBeatsTheBound: whatever the cell, the k-th call is served no
// sooner under any policy, for every k; so none finishes sooner, and in none is
// the mean wait shorter.
func TestNoPolicyBeatsTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	const cells, calls = 40, 150
	for number := range cells {
		c := survey.Draw(11, number)
		s := c.Scenario
		s.Network.Spread, s.Network.Tail, s.Server.Errors = 0, 0, 0
		if s.Server.Limit.Kind == limit.FirstHitWindow {
			continue // who knows what comes may keep the first back
		}
		bound := served(sim.Bound(s, 5), calls)
		for _, p := range policy.All(s) {
			for k, at := range served(sim.New(s, p, 5), calls) {
				if k >= len(bound) || at < bound[k]-time.Microsecond {
					t.Errorf("cell %d (%s): %s serves call %d at %v, sooner than the bound (%d calls)", number, gist(c), p.Name, k, at, len(bound))
					break
				}
			}
		}
	}
}

// TestSurveyIsAFunction: how many cores there are makes no difference.
func TestSurveyIsAFunction(t *testing.T) {
	args := []string{"-cells", "6", "-seeds", "2", "-v", "-seed", "4"}
	many, stderr, code := clitest.Play(t.Context(), Run, args...)
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	if alone, _, _ := clitest.Play(t.Context(), Run, args...); alone != many {
		t.Errorf("on one core\n%s\non %d\n%s", alone, before, many)
	}
	for _, want := range []string{"adaptive-informed in 6 cells, seed 4, 2 runs each (medians of fewer than 20)", "left out as hopeless", "aws-adaptive"} {
		if !strings.Contains(many, want) {
			t.Errorf("no %q in\n%s", want, many)
		}
	}
	for _, told := range []string{"x-time-rate ", "shared ", "omniscient ", "fixed "} {
		if strings.Contains(many, "\n"+told) {
			t.Errorf("%s is told the rate and no peer", told)
		}
	}
}

// TestInterrupted: no run goes on after an interrupt, and a cell that it cuts is not counted.
func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	o := options{seed: 1, cells: 40, cell: allCells, seeds: 20}
	adaptive := with(policy.All(sim.Scenario{})[0])
	begin := func(s sim.Scenario, seed uint64) *sim.Run {
		interrupt()
		return adaptive(s, seed)
	}
	_, err := overCells(ctx, &o, func(int) {}, func(ctx context.Context, c survey.Cell) bool {
		if f := o.figures(ctx, c, o.seeds, begin, math.MaxInt64); f.Sent > 0 {
			t.Errorf("%v requests are sent after the interrupt", f.Sent)
		}
		return true
	})
	if want := "interrupted: 0 of 40 cells"; err == nil || err.Error() != want {
		t.Errorf("interrupted survey: %v, want %q", err, want)
	}
}

func TestJSON(t *testing.T) {
	stdout, stderr, code := clitest.Play(t.Context(), Run, "-cells", "10", "-seeds", "1", "-peers=false", "-pairs", "-json", "-policy", "aimd")
	var got jsonReport
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	held := 0
	for _, c := range got.All {
		if c.Held != (len(c.Missed) == 0) || c.Held != (c.Worst <= 1) {
			t.Errorf("cell %d: held %v, misses %q by %v", c.Number, c.Held, c.Missed, c.Worst)
		}
		if c.Held {
			held++
		}
	}
	told, again := 0, 0
	for _, c := range got.All {
		told += one(c.Told != nil)
		again += one(c.Again != nil && c.Hint != "")
	}
	if p := got.Pairs; p == nil || told != p.Pairs || again != p.Pairs {
		t.Errorf("%d cells with a hint more and %d controls, of %+v", told, again, p)
	}
	if len(got.All) != 10 || held != got.Held || got.Policy != "aimd" || got.Pairs == nil || got.Pairs.Pairs == 0 {
		t.Errorf("%d cells, %d held; the report says %+v", len(got.All), held, got)
	}
}

// TestPairsHaveAControl: of a policy that reads no hint a pair is twice the same
// runs, and loses nothing; what the same cells lose in other runs is chance.
func TestPairsHaveAControl(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	o := options{cells: 40, seed: 1, seeds: 1, policy: policy.All(sim.Scenario{})[0], pairs: true}
	if o.policy.Name != "none" {
		t.Fatalf("the first policy is %s", o.policy.Name)
	}
	others := 0
	for number := range o.cells {
		if x := o.judge(t.Context(), survey.Draw(o.seed, number)); x.pair.ok && x.pair.hint != "retry-after" {
			if x.pair.ours != x.ours || x.pair.told != (loss{}) {
				t.Errorf("cell %d: with %s %+v, without %+v", number, x.pair.hint, x.pair.ours, x.ours)
			}
			others += one(x.pair.again != x.ours)
		}
	}
	if others < 5 {
		t.Errorf("the control differs in %d cells, want 5 or more", others)
	}
	stdout, _, _ := clitest.Play(t.Context(), Run, "-cells", "8", "-seeds", "1", "-policy", "none", "-pairs")
	for _, want := range []string{"One true hint more", "by chance: missed", "\nretry-after "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// TestWhoHoldsWhatIsMissed: a peer; else processes that know their share; else those that share a
// rate limiter; else nobody. Each occurs in a few cells, and the totals count every cell once.
func TestWhoHoldsWhatIsMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	o := options{cells: 12, seed: 1, seeds: 1, policy: policy.All(sim.Scenario{})[0], peers: true}
	var outcomes []outcome
	for number := range o.cells {
		x := o.judge(t.Context(), survey.Draw(o.seed, number))
		outcomes = append(outcomes, x)
		if x.verdict.Held() || x.hopeless || x.rival == aPeer {
			continue
		}
		want := nobody
		switch {
		case x.told[0]:
			want = evenShares
		case x.told[1]:
			want = oneLimiter
		}
		if x.rival != want {
			t.Errorf("cell %d: held by %d, want %d", number, x.rival, want)
		}
	}
	r := o.report(outcomes)
	sum := r.all.held + r.all.hopeless
	for _, n := range r.all.rivals {
		sum += n
	}
	if sum != o.cells || r.all.rivals[aPeer] == 0 || r.all.rivals[evenShares] == 0 || r.all.rivals[oneLimiter] == 0 {
		t.Errorf("%d held, and %v missed but held by others, of %d; want some of each kind", r.all.held, r.all.rivals, o.cells)
	}
	if line := r.heldLine(); !strings.Contains(line, fmt.Sprintf("%d only by clients that share one rate limiter", r.all.rivals[oneLimiter])) {
		t.Errorf("the line is %q", line)
	}
}

// TestWorstCellsRun: the files are of the cells, but for their name, in a folder that was not
// there.
func TestWorstCellsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	dir := filepath.Join(t.TempDir(), "not", "there")
	stdout, stderr, code := clitest.Play(t.Context(), Run, "-cells", "20", "-seeds", "1", "-peers=false", "-policy", "none", "-worst", dir)
	if code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) != mostBad {
		t.Fatalf("files %q, %v; want %d; the survey is\n%s", files, err, mostBad, stdout)
	}
	if got, err := scenario.Read(files, nil); err != nil || len(got) != mostBad {
		t.Errorf("read %d scenarios, %v", len(got), err)
	}
}

func TestMarkdown(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	file := filepath.Join(t.TempDir(), "survey.md")
	if _, stderr, code := clitest.Play(t.Context(), Run, "-cells", "5", "-seeds", "1", "-md", file); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Survey\n", "-cells 5 -seed 1 -seeds 1", "| all | 5 |", "## Cells that a peer wins"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-cells", "0"}, "-cells 0: must be from 1 to 100000"},
		{[]string{"-seeds", "1001"}, "-seeds 1001: must be from 1 to 1000"},
		{[]string{"-cell", "5", "-cells", "3"}, "-cell and -cells: one cell, or how many; write one of them"},
		{[]string{"-cell", "-1"}, "-cell -1: must be from 0 to 99999"},
		{[]string{"-policy", "none,aimd", "-pairs"}, "-policy: 2 policies; -pairs, -v and -worst are of one"},
		{[]string{"-policy", "nobody"}, "is not known"},
		{[]string{"-worst", "survey.go"}, "throttle: -worst: survey.go is not a directory; name another\n"},
		{[]string{"-worst", "survey.go/sub/folder"}, "throttle: -worst: survey.go is not a directory; name another\n"},
		{[]string{"-worst", "no\x00name"}, "-worst: cannot make the directory"},
		{[]string{"heroku"}, "survey heroku: the scenarios are drawn; name none"},
		{[]string{"-bad"}, "run 'throttle sim survey -h'"},
	} {
		stdout, stderr, code := clitest.Play(t.Context(), Run, test.args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: exit code %d, %q and %q, want 2 and %q", test.args, code, stdout, stderr, test.want)
		}
	}
}

// TestNoFolderOfWrongUsage: what is refused makes no folder.
func TestNoFolderOfWrongUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "worst")
	for _, args := range [][]string{{"-json", "-md", "-"}, {"-md", filepath.Join(dir, "page.md")}, {"-cells", "0"}} {
		_, stderr, code := clitest.Play(t.Context(), Run, append(args, "-worst", dir)...)
		if code != 2 || stderr == "" {
			t.Errorf("%q: exit code %d, %q, want 2 and why", args, code, stderr)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q made the folder", args)
		}
	}
}

// TestOneCell: its figures are those that it has among the others.
func TestOneCell(t *testing.T) {
	line := func(args ...string) string {
		stdout, _, _ := clitest.Play(t.Context(), Run, append(args, "-seeds", "1", "-peers=false", "-v", "-policy", "none")...)
		_, after, _ := strings.Cut(stdout, "\n3: ")
		text, _, _ := strings.Cut(after, "\n  bound")
		return text
	}
	if one, all := line("-cell", "3"), line("-cells", "4"); one == "" || one != all {
		t.Errorf("alone %q, among others %q", one, all)
	}
}
