package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// What was made, refused, and failed is exact, and so is how often the database
// was asked: once in the minute, and once more after a deletion if somebody wants
// the room. Only in the last act the time that it took matters, which is
// measured.
func TestObjectsKeepToTheirQuota(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	played, err := play(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := show(&out, played); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	// made, refused, failed, counted so far, most at a time
	for i, want := range []string{"10 90 0 1 10", "10 90 0 1 10", "3 47 0 2 10", "0 0 1 3 10", "1 4 0 3 10"} {
		cells := strings.Fields(lines[1+i])
		if got := strings.Join(cells[len(cells)-5:], " "); got != want {
			t.Errorf("%s by %s: got %s, want %s (made, refused, failed, counted so far, most at a time)", played[i].name, played[i].key, got, want)
		}
	}
	last := played[len(played)-1]
	if atMost := 1 + int(last.took/minute); last.counted > atMost || last.counted < 2 {
		t.Errorf("%s: counted %d times in %v, want 2 to %d, once in %v", last.name, last.counted, last.took, atMost, minute)
	}
	if last.tally.Served() != last.n || last.most != most || last.took < lifetime {
		t.Errorf("%s: %d made in %v, %d at most at a time; want %d in %v or more, and %d", last.name, last.tally.Served(), last.took, last.most, last.n, lifetime, most)
	}
	t.Logf("last act in %v\n%s", last.took, &out)
}
