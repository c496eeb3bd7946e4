package load

import (
	"testing"
	"time"
)

// serve is a service of so many workers that take base each, when it is full.
func (g *Gradient) serve(n, workers int, base time.Duration) {
	for range n {
		in := g.Limit()
		g.Observe(time.Duration(float64(base)*max(1, float64(in)/float64(workers))), in)
	}
}

func TestGradient(t *testing.T) {
	const ms = time.Millisecond
	var g Gradient
	for _, c := range []struct {
		n, workers int
		base       time.Duration
	}{{5000, 20, 100 * ms}, {60000, 200, 100 * ms}, {20000, 20, 100 * ms}, {2500, 20, 2000 * ms}, {10000, 20, 20 * ms}} {
		g.serve(c.n, c.workers, c.base)
		if got := g.limit; got < 1.1*float64(c.workers) || got > 2*float64(c.workers) {
			t.Errorf("%d workers of %v: %.1f after %d requests, want between 1.1 and twice as many", c.workers, c.base, got, c.n)
		}
	}
	var idle Gradient
	for range 10000 {
		idle.Observe(100*ms, 3)
	}
	if idle.limit != gradientStart {
		t.Errorf("with 3 in flight the limit becomes %v, want no change", idle.limit)
	}
}

// The limit is between 1 and Max, whatever is observed.
func TestGradientBounds(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		max, start int
		took       func(n int) time.Duration
		from, to   int // where the limit is after many
	}{
		{0, 20, func(int) time.Duration { return second }, 1000, 1000}, // none is ever slower: up to the default
		{50, 20, func(int) time.Duration { return second }, 50, 50},
		{5, 5, func(int) time.Duration { return second }, 5, 5},
		{1, 1, func(int) time.Duration { return second }, 1, 1},
		{50, 20, func(int) time.Duration { return 0 }, 1, 50}, // a clock that is too coarse
		{50, 20, func(n int) time.Duration { return time.Duration(n) * second }, 1, 50},
	} {
		g := Gradient{Max: c.max}
		if got := g.Limit(); got != c.start {
			t.Errorf("Max %d: begins at %d, want %d", c.max, got, c.start)
		}
		for n := range 400_000 {
			g.Observe(c.took(n), g.Limit())
			if got := g.Limit(); got < 1 || got > c.to {
				t.Fatalf("Max %d: limit %d after %d, want 1 to %d", c.max, got, n+1, c.to)
			}
		}
		if got := int(g.limit); got < c.from || got > c.to {
			t.Errorf("Max %d: limit %v in the end, want %d to %d", c.max, g.limit, c.from, c.to)
		}
	}
}

// During a probe only four tenths may be in flight, and then the limit again.
func TestGradientProbes(t *testing.T) {
	g := Gradient{Max: 20}
	if g.Limit() != 20 {
		t.Fatalf("begins with %d, want 20", g.Limit())
	}
	seen := map[int]int{}
	for range 20_000 {
		g.Observe(time.Second, g.Limit())
		seen[g.Limit()]++
	}
	if len(seen) != 2 || seen[8] < 3*40 || seen[8] > 20_000/50 {
		t.Errorf("limits %v, want 20, and 8 for a moment", seen)
	}
}
