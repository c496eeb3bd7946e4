package limit

import (
	"math"
	"math/bits"
	"time"
)

// Cardinality estimates how many distinct callers came lately, so that each can
// be given its fair share of a limit. It is linear counting (Whang,
// Vander-Zanden and Taylor 1990): each caller sets one of m bits by its hash,
// and of n callers a part exp(-n/m) of the bits stays zero, so
//
//	n = -m ln(zeros/m),  m = 512
//
// exact to a few percent up to a thousand callers, and at most 3,194. It takes
// 144 bytes whatever their number. A caller counts for one to two times Span
// after it came. The zero Cardinality is ready. It is not safe for concurrent
// use.
type Cardinality struct {
	// Span is how long a caller counts at least, in whole microseconds. If zero
	// or below, half a minute.
	Span time.Duration

	began       int64 // of the present Span, in microseconds of Unix time
	now, before [crowdWords]uint64
}

const crowdWords = 8

// Add counts a caller, by a hash of its name, key or address: all 64 bits of it
// should look random. A time before an earlier one counts as the earlier one.
func (c *Cardinality) Add(now time.Time, caller uint64) {
	c.turn(now.UnixMicro())
	c.now[caller>>6%crowdWords] |= 1 << (caller & 63)
}

// Estimate returns the number of distinct callers, at least 1: the caller that
// asks is one.
func (c *Cardinality) Estimate(now time.Time) float64 {
	c.turn(now.UnixMicro())
	const m = 64 * crowdWords
	ones := 0
	for i := range c.now {
		ones += bits.OnesCount64(c.now[i] | c.before[i])
	}
	return max(1, -m*math.Log(max(float64(m-ones), 1)/m))
}

// turn begins a new Span when the present one is over.
func (c *Cardinality) turn(now int64) {
	span := int64(30 * time.Second / time.Microsecond)
	if c.Span > 0 {
		span = max(int64(c.Span/time.Microsecond), 1)
	}
	switch late := now - c.began; {
	case late < span:
		return
	case late < 2*span:
		c.before = c.now
		c.began += span
	default:
		c.before = [crowdWords]uint64{}
		c.began = now
	}
	c.now = [crowdWords]uint64{}
}
