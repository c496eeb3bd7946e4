package sim

import (
	"math"
	"math/bits"
)

// histogram counts durations in buckets that grow with them: 64 to each
// doubling, so that a quantile is off by at most 1/128 of itself. Its size does
// not depend on how much is counted.
type histogram struct {
	counts [64 * 64]int64
	total  int64
}

// bucket of v nanoseconds: the position of its highest bit, and the 6 bits
// below that.
func bucket(v int64) int {
	if v < 64 {
		return int(max(v, 0))
	}
	exp := bits.Len64(uint64(v)) - 1
	return (exp-5)*64 + int(v>>(exp-6))&63
}

// middle is the value in the middle of a bucket.
func middle(b int) float64 {
	if b < 64 {
		return float64(b)
	}
	exp := b/64 + 5
	width := math.Ldexp(1, exp-6)
	return math.Ldexp(1, exp) + (float64(b%64)+0.5)*width
}

func (h *histogram) add(v int64) {
	h.counts[bucket(v)]++
	h.total++
}

// quantile is the value that the share q of all is at or below, in
// nanoseconds; zero if there is none.
func (h *histogram) quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(h.total)))
	for b, n := range h.counts {
		if rank -= n; rank <= 0 && n > 0 {
			return middle(b)
		}
	}
	return 0
}
