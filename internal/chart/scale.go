package chart

import (
	"math"
	"strconv"
)

// scale is an axis from lo to hi with marks at whole multiples, first to last,
// of mantissa × 10^exponent: of 1, 2 or 5 times a power of ten.
type scale struct {
	lo, hi             float64
	first, last        int
	mantissa, exponent int
}

// place is where v lies between lo, at 0, and hi, at 1.
func (s scale) place(v float64) float64 { return (v - s.lo) / (s.hi - s.lo) }

// tick is the value of mark i.
func (s scale) tick(i int) float64 {
	if v := float64(i * s.mantissa); s.exponent < 0 {
		return v / math.Pow10(-s.exponent) // 3/10 is 0.3, unlike 3 × 0.1
	}
	return float64(i*s.mantissa) * math.Pow10(s.exponent)
}

// widen is the range to be shown of values from lo to hi: from zero where they
// come near, and never nothing.
func widen(lo, hi float64) (float64, float64) {
	if hi-lo <= 1e-9*max(math.Abs(lo), math.Abs(hi)) || lo > 0 && lo < hi/2 || hi < 0 && hi > lo/2 {
		lo, hi = min(lo, 0), max(hi, 0)
	}
	if lo == hi {
		hi = lo + 1
	}
	return lo, hi
}

// stepped is a scale from lo to hi, and about as many marks as wanted or fewer.
func stepped(lo, hi float64, ticks int) scale {
	least := (hi - lo) / float64(max(ticks, 1))
	s := scale{lo: lo, hi: hi, exponent: max(int(math.Floor(math.Log10(least))), -300)}
	for _, s.mantissa = range []int{1, 2, 5, 10} {
		if s.tick(1) >= least*(1-1e-9) {
			break
		}
	}
	if s.mantissa == 10 {
		s.mantissa, s.exponent = 1, s.exponent+1
	}
	return s
}

// nearly is how far a quotient may be off for its rounding.
const nearly = 1e-6

// inside is a scale from lo to hi itself, with marks where they fall.
func inside(lo, hi float64, ticks int) scale {
	s := stepped(lo, hi, ticks)
	s.first = int(math.Ceil(lo/s.tick(1) - nearly))
	s.last = int(math.Floor(hi/s.tick(1) + nearly))
	return s
}

// around is a scale that begins and ends at a mark.
func around(lo, hi float64, ticks int) scale {
	s := stepped(lo, hi, ticks)
	s.first = int(math.Floor(lo/s.tick(1) + nearly))
	s.last = int(math.Ceil(hi/s.tick(1) - nearly))
	s.lo, s.hi = min(lo, s.tick(s.first)), max(hi, s.tick(s.last))
	return s
}

// label is the text of mark i, as short as all marks allow: 1500, 20k, 0.25.
func (s scale) label(i int) string {
	v := s.tick(i)
	switch {
	case i == 0:
		return "0"
	case s.exponent < -6 || s.exponent >= 12:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case s.exponent < 0:
		return strconv.FormatFloat(v, 'f', -s.exponent, 64)
	case s.exponent >= 9:
		return strconv.FormatFloat(v/1e9, 'f', 0, 64) + "G"
	case s.exponent >= 6:
		return strconv.FormatFloat(v/1e6, 'f', 0, 64) + "M"
	case s.exponent >= 3:
		return strconv.FormatFloat(v/1e3, 'f', 0, 64) + "k"
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
