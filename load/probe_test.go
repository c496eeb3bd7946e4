package load_test

import (
	"testing"

	"github.com/throttle-go/throttle/load"
)

// A server of 100 ms comes to take 300 ms. The second look at it, which with one in
// flight is of four answers, finds them in 220 ms by chance: as base, that would make
// what the others take look like a queue for as long as a minute.
func TestAdaptiveBelievesBothLooks(t *testing.T) {
	a := &answers{law: load.Adaptive{Max: 10}, now: t0}
	for a.now.Before(t0.Add(25 * 1000 * ms)) {
		a.feed(1, 100*ms, load.Served)
	}
	for range 200 {
		if a.feed(1, 300*ms, load.Served); a.law.Limit() == 1 {
			break
		}
	}
	a.feed(4, 300*ms, load.Served)
	if got := a.law.Limit(); got != 1 {
		t.Fatalf("limit %d after the first look, want 1 for the second", got)
	}
	a.feed(4, 220*ms, load.Served)
	believed := a.law.Limit()
	a.feed(10*believed, 300*ms, load.Served)
	if got := a.law.Limit(); believed <= 1 || got <= believed {
		t.Errorf("limit %d after the second look, and %d ten round trips later; want growth", believed, got)
	}
}
