package terminal

import (
	"os"
	"testing"
)

// NO_COLOR is about colours alone: lines are still rewritten.
func TestColours(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("NO TERMINAL: colours are NOT tested: %v", err)
	}
	defer f.Close()
	for _, c := range []struct {
		noColor, term string
		is, colours   bool
	}{{"", "xterm", true, true}, {"1", "xterm", true, false}, {"", "dumb", false, false}} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", c.term)
		if is, colours := Is(f), Colours(f); is != c.is || colours != c.colours {
			t.Errorf("NO_COLOR=%s TERM=%s: a terminal %t, with colours %t; want %t, %t", c.noColor, c.term, is, colours, c.is, c.colours)
		}
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		columns int
		want    string
	}{{-1, "größe"}, {0, "größe"}, {4, "größ"}, {5, "größe"}, {9, "größe"}} {
		if got := cut("größe", test.columns); got != test.want {
			t.Errorf("cut to %d columns = %q, want %q", test.columns, got, test.want)
		}
	}
}
