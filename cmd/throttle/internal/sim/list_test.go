package sim

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestListsFitTheTerminal: the lists are folded into the columns of a terminal, and not
// where there are hardly any.
func TestListsFitTheTerminal(t *testing.T) {
	for _, list := range []string{"-list", "-policies"} {
		t.Setenv("COLUMNS", "")
		whole, _, _ := clitest.Play(t.Context(), Run, list)
		t.Setenv("COLUMNS", "10")
		if narrow, _, _ := clitest.Play(t.Context(), Run, list); narrow != whole {
			t.Errorf("%s in 10 columns is folded", list)
		}
		t.Setenv("COLUMNS", "80")
		folded, _, code := clitest.Play(t.Context(), Run, list)
		if code != 0 || strings.Join(strings.Fields(folded), " ") != strings.Join(strings.Fields(whole), " ") {
			t.Errorf("%s in 80 columns: code %d, and other words", list, code)
		}
		for line := range strings.Lines(folded) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", list, n, line)
			}
		}
	}
}
