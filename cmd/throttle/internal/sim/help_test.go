package sim

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
)

// The help's own example of a scenario file must be one.
func TestHelpShowsScenario(t *testing.T) {
	_, text, _ := strings.Cut(help, "A scenario in a file:\n")
	text, _, _ = strings.Cut(text, "\nMore of a server:")
	s, err := scenario.Parse("help.yaml", []byte(text))
	if err != nil || len(s.Clients) != 5 {
		t.Errorf("scenario.Parse(the help's example) = %+v, %v; want 5 groups of clients", s, err)
	}
}

func TestBadFileIsOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("server: {rate: 4/fortnight}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := play(t.Context(), "sim", path)
	want := regexp.MustCompile(`^throttle: \S+bad\.yaml:1:16: rate "4/fortnight": [^\n]+; write [^\n]+\n$`)
	if code != 2 || stdout != "" || !want.MatchString(stderr) {
		t.Errorf("a bad file: got code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// Lists run nothing, so that what is for runs and their results would do nothing.
func TestListsStandAlone(t *testing.T) {
	for _, args := range [][]string{
		{"-list", "-json"},
		{"-policies", "-json"},
		{"-list", "-policies"},
		{"-list", "no-such"},
		{"scoreboard", "-list"},
		{"-list", "-html", "x.html"},
		{"-policies", "-assert", "adaptive.jain>2"},
	} {
		stdout, stderr, code := play(t.Context(), append([]string{"sim"}, args...)...)
		if want := "throttle: -list and -policies: run nothing; write each by itself\n"; code != 2 || stdout != "" || stderr != want {
			t.Errorf("sim %q: code %d, stdout %.40q, stderr %q; want 2, nothing, %q", args, code, stdout, stderr, want)
		}
	}
}
