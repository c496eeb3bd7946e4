package near

import (
	"strings"
	"testing"
)

// TestOf: a third of the letters may be wrong, left out, too many or swapped; of names that
// are as near, the first is meant.
func TestOf(t *testing.T) {
	known := []string{"limits", "limit", "in_flight", "priority"}
	for text, want := range map[string]string{
		"limit": "limit", "limts": "limits", "lmiit": "limit", "inflight": "in_flight", "prioritty": "priority",
		"lim": "", "": "", "burst": "", strings.Repeat("limit", 13): "", strings.Repeat("limit", 50): "",
	} {
		if got := Of(text, known); got != want {
			t.Errorf("Of(%q) = %q, want %q", text, got, want)
		}
	}
}
