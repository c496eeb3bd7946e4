package pace

import (
	"math"
	"math/rand/v2"
	"testing"
)

// watched polls a limit of 60 in 5 seconds every 0.3 seconds or so from s on, and reports when
// leaps first agreed, in seconds, and how many answers they agreed after; zero: they never did.
func watched(x *leaps, s float64, d *rand.Rand, polls int, remains func(s float64) float64) (first float64, seen int) {
	return watchedAt(x, s, 1, d, polls, remains)
}

// watchedAt does what watched does, with all times scaled to the leaps, but not to remains.
func watchedAt(x *leaps, s, scale float64, d *rand.Rand, polls int, remains func(s float64) float64) (first float64, seen int) {
	for ; polls > 0; polls-- {
		s += 0.1 + 0.4*d.Float64()
		if x.observe(scale*s, scale*(s-0.05), math.Floor(remains(s-0.02)), 60, 5*scale); x.seen() {
			if first == 0 {
				first = s
			}
			seen++
		}
	}
	return first, seen
}

// TestLeapsOfWindows: three ends say when windows end, to the time between two answers, and
// ends at other times that they do not.
func TestLeapsOfWindows(t *testing.T) {
	for seed := range uint64(200) {
		d := rand.New(rand.NewPCG(seed, 31))
		at, spent := 5*d.Float64(), 12+8*d.Float64() // a second
		window := func(s float64) float64 { return max(0, 60-spent*math.Mod(s-at+10, 5)) }
		var x leaps
		first, seen := watched(&x, 0, d, 200, window)
		if first == 0 || first > at+3*5+1 || seen < 140 {
			t.Errorf("seed %d: windows that end from %.2f on are known first at %.2f, and after %d answers of 200", seed, at, first, seen)
		}
		if late := math.Mod(x.last(1000)-at, 5); late < 0 || late > 0.55 {
			t.Errorf("seed %d: the end of a window is expected %.2f s late; want what is between two answers at most", seed, late)
		}
		at += 2.5
		if watched(&x, 1000, d, 60, window); math.Mod(x.last(2000)-at, 5) > 0.55 && x.seen() {
			t.Errorf("seed %d: windows end half a length later, and the old end is still believed", seed)
		}
	}
}

// TestLeapsOfBuckets: a bucket gives back no faster than its policy says, whatever others
// take, and is never taken for a window; nor is a log whose starts leave it at any time.
func TestLeapsOfBuckets(t *testing.T) {
	for seed := range uint64(400) {
		d := rand.New(rand.NewPCG(seed, 32))
		level, at := 60.0, 0.0
		bucket := func(s float64) float64 {
			level = min(60, level+12*(s-at))
			at = s
			level -= min(level, float64(d.IntN(2+int(seed%40))))
			return level
		}
		scale := []float64{1, 0.2}[seed%2] // windows of 5 seconds, and of one
		if first, _ := watchedAt(&leaps{}, 0, scale, d, 2000, bucket); first > 0 {
			t.Errorf("seed %d: a bucket is taken for a window after %.1f s", seed, first)
		}
		var starts []float64
		log := func(s float64) float64 {
			for len(starts) > 0 && starts[0] <= s-5 {
				starts = starts[1:]
			}
			for n := d.IntN(2 + int(seed%12)); n > 0 && len(starts) < 60; n-- {
				starts = append(starts, s)
			}
			return 60 - float64(len(starts))
		}
		if first, seen := watchedAt(&leaps{}, 0, scale, d, 2000, log); seen > 20 {
			t.Errorf("seed %d: a log is taken for a window after %.1f s, for %d answers", seed, first, seen)
		}
	}
}

// TestLeapOfAFreshWindow: a client that asks seldom, and mostly finds nothing, finds the end of a
// short window by the first answer of which much remains. Not that of a long one, nor where there
// is mostly something.
func TestLeapOfAFreshWindow(t *testing.T) {
	for _, c := range []struct {
		long  float64
		found float64 // by the answers before
		want  bool
	}{{1, 0, true}, {1, 3, false}, {60, 0, false}} {
		var x leaps
		for i := range 20 { // each window is used up after 0.3 of it
			s := (float64(2*i) + 0.5) * c.long
			x.observe(s, s, c.found, 20, c.long)
		}
		s := 50.1 * c.long
		if x.observe(s, s, 18, 20, c.long); x.seen() != c.want {
			t.Errorf("windows of %v s, answers that found %v before: the end is known: %v, want %v", c.long, c.found, x.seen(), c.want)
		}
		if late := 50*c.long - x.from; c.want && (late < 0 || late > freshAge*c.long) {
			t.Errorf("a window that began at %v is taken to begin between %v and %v", 50*c.long, x.from, x.to)
		}
	}
}
