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

// Lists are text: -json is of results.
func TestListsHaveNoJSON(t *testing.T) {
	for _, list := range []string{"-list", "-policies"} {
		stdout, stderr, code := play(t.Context(), "sim", list, "-json")
		if want := "throttle: -json: is for results; leave it out with -list and -policies\n"; code != 2 || stdout != "" || stderr != want {
			t.Errorf("sim %s -json: code %d, stdout %.40q, stderr %q; want 2, nothing, %q", list, code, stdout, stderr, want)
		}
	}
}
