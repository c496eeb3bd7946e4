package operate

import (
	"strings"
	"testing"
	"time"
)

// TestOverheard: one line a second is passed on, cut to a length, and the others are
// counted.
func TestOverheard(t *testing.T) {
	var b strings.Builder
	o := &Overheard{To: &b}
	start := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, 1, time.Second - 1, time.Second, time.Second + 1} {
		line := "a line\n"
		if after == time.Second {
			line = strings.Repeat("x", 5000) + "\n"
		}
		if n, err := o.write(start.Add(after), []byte(line)); n != len(line) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if want := "a line\n2 lines before are left out; " + strings.Repeat("x", 300) + "...\n"; b.String() != want {
		t.Errorf("%q\nwant %q", &b, want)
	}
}
