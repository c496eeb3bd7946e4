package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// All numbers are exact: nothing here depends on how long anything takes.
func TestThreadsAreBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	s, err := play(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{ // customer, path: sent|served|429, 503, unanswered
		"k1 /export: 10|3|7 0 0",
		"k2 /export: 10|3|7 0 0",
		"k1 /list: 2|2|0 0 0",
		"k3 /export: 10|2|0 8 0",
		"k1 /list: 2|0|0 2 0",
		"k1 /export: 3|3|0 0 0",
		"k1 /export: 3|0|0 0 3", // callers give up
		"k1 /export: 3|3|0 0 0",
		"k1 /export?bug=1: 3|0|0 0 3",
		"k1 /export: 3|3|0 0 0",
		"k1 /export: 3|0|0 3 0", // they take too long
	}
	if len(s.acts) != len(want) {
		t.Fatalf("%d acts were played, want %d", len(s.acts), len(want))
	}
	for i, a := range s.acts {
		if got := fmt.Sprintf("%s %s: %s %d %d", a.key, a.path, a.tally.Row(), a.tally.Of(503), a.tally.Unanswered()); got != want[i] {
			t.Errorf("act %d, %s: got %s, want %s", i, a.name, got, want[i])
		}
	}
	for key, most := range map[string]int{"first::export": 3, "second::export": 3, "third::export": 2, "all": 8} {
		if now, peak := s.backend.busy(key); now != 0 || peak != most {
			t.Errorf("%s: %d threads now and %d at most, want 0 and %d", key, now, peak, most)
		}
	}
	if n := s.inFlight.Stats().Holds; n != 0 {
		t.Errorf("%d are in flight in the end, want none", n)
	}
	var out strings.Builder
	if err := s.show(&out); err != nil || strings.Count(out.String(), "\n") != len(want)+2 {
		t.Errorf("show() = %v, want %d lines:\n%s", err, len(want)+2, &out)
	}
	t.Logf("\n%s", &out)
}
