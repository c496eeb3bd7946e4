package survey

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/sim/survey"
)

// TestSidesAreThoseOfEach: side by side each policy has the figures that it has alone, and the
// first is held to the same bars; how many cores there are makes no difference.
func TestSidesAreThoseOfEach(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	args := []string{"-cells", "9", "-seeds", "1", "-seed", "4", "-json", "-peers=false", "-policy"}
	play := func(policy string, into any) string {
		stdout, stderr, code := clitest.Play(t.Context(), Run, append(args, policy)...)
		if code != 0 {
			t.Fatalf("%s: exit code %d, %s", policy, code, stderr)
		}
		if err := json.Unmarshal([]byte(stdout), into); err != nil {
			t.Fatal(err)
		}
		return stdout
	}
	names := []string{"adaptive-informed", "aimd"}
	var sides sidesJSON
	text := play(strings.Join(names, ","), &sides)
	if len(sides.Policies) != 2 || sides.Groups[0].Group != "all" || sides.Groups[0].Cells != 9 || sides.Hopeless != 0 {
		t.Fatalf("the report begins with %+v", sides)
	}
	for i, name := range names {
		var alone jsonReport
		play(name, &alone)
		throttled := 0.0
		for _, c := range alone.All {
			throttled += c.Ours.RetryRate / 9
		}
		got := sides.Groups[0].Of[i]
		if math.Abs(*got["throttled"]-throttled) > 1e-9 {
			t.Errorf("%s: throttled %v, alone %v", name, *got["throttled"], throttled)
		}
		if i == 0 && math.Abs(9**got["held"]-float64(alone.Held)) > 1e-9 {
			t.Errorf("%s: %v of all held, alone %d of 9", name, *got["held"], alone.Held)
		}
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	if one := play(strings.Join(names, ","), new(sidesJSON)); one != text {
		t.Errorf("on one core\n%s\non %d\n%s", one, before, text)
	}
}

// TestSidesMeans: a share is the mean of the cells that count, a ratio the geometric one, in
// which what never comes counts as mostRatio; any counts a cell once.
func TestSidesMeans(t *testing.T) {
	job, loop := survey.Cell{Mode: survey.Job, Processes: 2, Rate: 2}, survey.Cell{Mode: survey.Closed, Processes: 2, Rate: 2}
	bound := survey.Figures{Served: 100, Jain: 1, Wait: 1, Finish: 10}
	s := sides{cells: []side{
		{cell: loop, bound: bound, of: []survey.Figures{{Served: 50, Retry: 0.1, Jain: 0.8, Wait: 7}}, held: []bool{false}},
		{cell: loop, bound: bound, of: []survey.Figures{{Served: 120, Retry: 0.3, Jain: 0.6, Wait: survey.Never}}, held: []bool{true}},
		{cell: job, bound: bound, of: []survey.Figures{{Served: 1, Retry: 0.2, Wait: 1, Finish: 20}}, held: []bool{true}},
	}}
	for i, want := range []float64{2.0 / 3, 0.2, 0.75, 0.7, math.Cbrt(4 * mostRatio), 2} {
		if got, ok := measures[i].mean(s.cells, 0); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, %v; want %v", measures[i].name, got, ok, want)
		}
	}
	if _, ok := measures[5].mean(s.cells[:2], 0); ok {
		t.Error("there is a time in which no job was done")
	}
	if got := anyHolds(s.cells); got != 2.0/3 {
		t.Errorf("%v of the cells are held by any, want 2/3", got)
	}
}

func TestSidesMarkdown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sides.md")
	if _, stderr, code := clitest.Play(t.Context(), Run, "-cells", "3", "-seeds", "1", "-policy", "none,adaptive(probe=15s)", "-md", file); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	if stdout, _, _ := clitest.Play(t.Context(), Run, "-cell", "7", "-seeds", "1", "-policy", "none,aimd", "-md", "-"); !strings.Contains(stdout, "survey -cell 7 -seed 1 -seeds 1 -policy 'none,aimd' -md -\n") {
		t.Errorf("the page of one cell begins with %.400s", stdout)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Survey of several policies\n", "-cells 3 -seed 1 -seeds 1 -policy 'none,adaptive(probe=15s)' -md " + file, "## Held\n", "## Finish\n", "| group | cells | none | adaptive(probe=15s) | any |\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
