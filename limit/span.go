package limit

import (
	"math"
	"math/bits"
	"time"
)

// A span is a length of time of us whole microseconds and rem parts of another,
// a part being 1/Count microsecond: n events of a limit take n × Period/Count,
// which is rarely a whole number. So 3/s, 1/day and 600,000,000/s are exact.
// Spans are never negative, and rem is below the Count that is passed along.
type span struct{ us, rem int64 }

const (
	// forever is the span that longer ones saturate at: 36,000 years.
	forever = int64(1) << 60
	// longest is the span that a full bucket may be worth: 9,000 years, so that
	// the sum of one that is full, of what is owed besides and of one more
	// charge that does not fit never looks as if it did.
	longest = forever / 4
)

// spanOf is n × period/count, exact; n is not negative.
func spanOf(n, period, count int64) span {
	us, rem := mulDiv(n, period, count)
	if us >= forever {
		return span{us: forever}
	}
	return span{us, rem}
}

// cut is n, or how many events fit into the longest span if that is less.
func cut(n, period, count int64) int64 {
	if !lessProduct(longest, count, n, period) {
		return n
	}
	n, _ = mulDiv(longest, count, period)
	return n
}

// lessProduct is a × b < c × d, none being negative.
func lessProduct(a, b, c, d int64) bool {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	hi2, lo2 := bits.Mul64(uint64(c), uint64(d))
	return hi < hi2 || hi == hi2 && lo < lo2
}

// mulDiv is a × b / c and what remains, with a product of 128 bits. All are
// non-negative, c above zero; a quotient above the largest int64 saturates.
func mulDiv(a, b, c int64) (quo, rem int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return div128(hi, lo, c)
}

func div128(hi, lo uint64, c int64) (quo, rem int64) {
	if hi >= uint64(c) {
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(r)
}

func (a span) less(b span) bool {
	return a.us < b.us || a.us == b.us && a.rem < b.rem
}

func (a span) plus(b span, count int64) span {
	s := span{a.us + b.us, a.rem} // no overflow: each us is at most forever
	if s.rem >= count-b.rem {     // carry, without overflow for large counts
		s.us, s.rem = s.us+1, s.rem-(count-b.rem)
	} else {
		s.rem += b.rem
	}
	if s.us >= forever {
		return span{us: forever}
	}
	return s
}

// minus is a - b, or zero where b is larger.
func (a span) minus(b span, count int64) span {
	if a.less(b) {
		return span{}
	}
	s := span{a.us - b.us, a.rem - b.rem}
	if s.rem < 0 {
		s.us, s.rem = s.us-1, s.rem+count
	}
	return s
}

// ceil is the span in whole microseconds, rounded up.
func (a span) ceil() int64 {
	if a.rem > 0 {
		return a.us + 1
	}
	return a.us
}

// duration is the span rounded up to a microsecond; beyond 292 years, Never.
func (a span) duration() time.Duration {
	if us := a.ceil(); us <= math.MaxInt64/1000 {
		return time.Duration(us) * time.Microsecond
	}
	return Never
}

// events is how many whole events fit into a, floor(a × count / period), and
// how many period-ths of another.
func (a span) events(period, count int64) (n, rem int64) {
	hi, lo := bits.Mul64(uint64(a.us), uint64(count))
	lo, carry := bits.Add64(lo, uint64(a.rem), 0)
	return div128(hi+carry, lo, period)
}
