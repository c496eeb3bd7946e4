package sim

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scoreboard"
	"github.com/throttle-go/throttle/sim"
)

func TestScoreboard(t *testing.T) {
	md := filepath.Join(t.TempDir(), "board.md")
	args := []string{"sim", "scoreboard", "-policy", "none,fixed(rate=2)", "-seeds=2", "emr-shared", "testdata/small.yaml", "-md"}
	stdout, stderr, code := play(t.Context(), append(args, md)...)
	if code != 0 || stderr != "" {
		t.Fatalf("throttle %q: got code %d, stderr %q; want 0 and nothing", args, code, stderr)
	}
	clitest.Golden(t, "board.txt", stdout)
	text, err := os.ReadFile(md)
	if err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "board.md", strings.ReplaceAll(string(text), md, "FILE"))
	for _, line := range strings.Split(stdout, "\n") {
		if n := utf8.RuneCountInString(line); n > 120 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	want, _, _ := play(t.Context(), "sim", "-json", "-policy", "none,fixed(rate=2)", "-seeds=2", "emr-shared", "testdata/small.yaml")
	if got, _, _ := play(t.Context(), append(args[:7], "-json")...); got != want {
		t.Errorf("throttle %q -json = %q, want as without the word %q", args[:7], got, want)
	}
}

// Where all have policies of their own, a row is a group, and one policy is
// enough.
func TestScoreboardOfGroups(t *testing.T) {
	stdout, stderr, code := play(t.Context(), "sim", "scoreboard", "-policy=none,fixed", "-seeds=1", "mixed-emr", "rival")
	lines := strings.Split(stdout, "\n")
	if code != 0 || len(lines) < 12 || lines[0] != "median and worst of seed 1; * the best median" {
		t.Fatalf("got code %d, stderr %q\n%s", code, stderr, stdout)
	}
	if strings.Join(strings.Fields(lines[3]), " ") != "share retry % utilisation" ||
		!strings.HasPrefix(lines[4], "adaptive-informed 2×4 ") || !strings.HasPrefix(lines[5], "adaptive 2×4 ") || lines[6] != "" {
		t.Errorf("mixed-emr: got\n%s\nwant the shares of two groups", stdout)
	}
	if !strings.HasSuffix(lines[8], " share") || !strings.HasPrefix(lines[10], "fixed ") {
		t.Errorf("rival: got\n%s\nwant the share against the rival", stdout)
	}
}

func TestScoreboardHasAll(t *testing.T) {
	stdout, stderr, code := play(t.Context(), "sim", "scoreboard", "-seeds=1", "testdata/small.yaml")
	if code != 0 {
		t.Fatalf("got code %d, stderr %q", code, stderr)
	}
	for _, name := range scoreboard.Policies() {
		if !strings.Contains(stdout, "\n"+name+" ") {
			t.Errorf("no row for %s in\n%s", name, stdout)
		}
	}
	var o options
	if names, err := o.readBoard([]string{scoreboard.Word}); err != nil || len(names) != len(sim.Builtin()) || len(scoreboard.Policies()) < 13 {
		t.Errorf("the scoreboard is of %d scenarios (%v) and %d policies, want all", len(names), err, len(scoreboard.Policies()))
	}
}

// Where callers can drown the server, a concurrency limit is among the rows, and
// the answers that somebody awaited are a column.
func TestScoreboardOfDrowning(t *testing.T) {
	stdout, stderr, code := play(t.Context(), "sim", "scoreboard", "-seeds=1", "throw-on-overload")
	if code != 0 || strings.Contains(stdout, "in-flight") {
		t.Errorf("throw-on-overload: code %d, %q, got\n%s\nwant no concurrency limit: it refuses", code, stderr, stdout)
	}
	stdout, stderr, code = play(t.Context(), "sim", "scoreboard", "-seeds=1", "cassandra")
	if code != 0 || !strings.Contains(stdout, "\nnone(in-flight=adaptive) ") || !strings.Contains(stdout, "served per s") {
		t.Errorf("cassandra: code %d, %q, got\n%s\nwant a row with a concurrency limit, and what was served", code, stderr, stdout)
	}
}

func TestScoreboardInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	md := filepath.Join(t.TempDir(), "board.md")
	_, stderr, code := play(ctx, "sim", "scoreboard", "-policy=none", "-md", md)
	if code != 1 || !strings.HasPrefix(stderr, "throttle: interrupted: 0 of ") {
		t.Errorf("interrupted: got code %d, stderr %q; want 1 and 0 runs", code, stderr)
	}
	if _, err := os.Stat(md); err == nil {
		t.Errorf("interrupted: a file was written")
	}
}

func TestScoreboardUsage(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"sim", "-md", "x.md"}, "-md: is of a scoreboard"},
		{[]string{"sim", "scoreboard", "-html", "x.html"}, "-html and -svg: not of a scoreboard"},
		{[]string{"sim", "scoreboard", "-svg", "x.svg"}, "-html and -svg: not of a scoreboard"},
		{[]string{"sim", "scoreboard", "-md", dir}, "is a directory; name a file"},
		{[]string{"sim", "scoreboard", "-seeds=0"}, "-seeds 0: must be"},
		{[]string{"sim", "scoreboard", "nowhere"}, "scenario nowhere is not known"},
		{[]string{"sim", "scoreboard", "-policy=best"}, "policy \"best\" is not known"},
		{[]string{"sim", "-seed=18446744073709551600", "-seeds=20"}, "-seed 18446744073709551600: must be at most 18446744073709551596, so that 19 follow"},
		{[]string{"sim", "emr", "survey"}, "survey: write it before all else, as in 'throttle sim survey -cells 20'"},
		{[]string{"sim", "emr", "scoreboard"}, "scoreboard: write it before the scenarios, as in 'throttle sim scoreboard emr'"},
	} {
		stdout, stderr, code := play(t.Context(), test.args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("throttle %q: got code %d, stdout %q, stderr %q; want 2, nothing, ...%q...", test.args, code, stdout, stderr, test.want)
		}
	}
}

func TestPlanWithoutTheWord(t *testing.T) {
	s, _ := sim.Find("ten-thousand")
	o := options{seeds: 20}
	if _, n := o.plan(s); n != 20 {
		t.Errorf("without the word, %d runs of ten-thousand; want 20", n)
	}
}

// A scoreboard takes assertions about the policies that it adds by itself, where it does.
func TestAssertOfBoundedPolicies(t *testing.T) {
	for _, test := range []struct{ assert, policy, wrong string }{
		{"none(in-flight=adaptive).jain>0", "", ""},
		{"cassandra/none(in-flight=adaptive).jain>0", "", ""},
		{"emr/none(in-flight=adaptive).jain>0", "", "is not among those to run"},
		{"none(in-flight=adaptive).jain>0", "none", "is not among those to run"},
		{"mixed-emr/none.utilisation>0", "adaptive,none", "is not among those to run"},
	} {
		o := options{seeds: 1}
		var policies []string
		if test.policy != "" {
			policies = []string{test.policy}
		}
		err := o.read(policies, []string{test.assert}, []string{scoreboard.Word, "emr", "cassandra", "mixed-emr"}, nil)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("-assert %s, -policy %q: %v, want %q", test.assert, test.policy, err, test.wrong)
		}
	}
}
