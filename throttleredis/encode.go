package throttleredis

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// The flags of an ask, as in long.lua.
const (
	flagPeek = 1 << iota
	flagGiveBack
	flagDebt
	flagPart
	flagCarried
	flagRefused
	flagConvert
	flagStays
)

// encode encodes a as the scripts read it: size, the number of asks in the Take
// that begins with it, or zero; the flags, extra among them; where the fingerprint of its limit
// begins, counted from one; numbers; the fingerprint; what was carried over.
// clock is about the time in Redis.
func encode(a *limit.Ask, fingerprint string, size int, extra byte, c *carried, clock time.Time) string {
	l := &a.Limit
	n, least := clamp(a)
	b := make([]byte, 3, 112)
	b[0], b[1] = byte(size), flags(a)|extra
	if c != nil {
		b[1] |= flagCarried
		if c.kept {
			b[1] |= flagStays
		}
	}
	switch {
	case isBucket(l.Kind):
		cost, room := costOf(l, max(n, -n)), capacity(l)
		b = appendNumbers(b, cost.us, cost.rem, room.us, room.rem, l.Count)
		if flags(a) == flagPart {
			one := costOf(l, 1)
			b = appendNumbers(b, n, least, one.us, one.rem)
		}
	case l.Kind == limit.CalendarWindow:
		b = appendNumbers(b, l.Count, n, least, int64((l.Period-l.Period/8)/time.Microsecond))
		b = appendNumbers(b, edges(l, clock)...)
	case l.Kind == limit.SlidingSlots:
		width, slots := slotsOf(l)
		b = appendNumbers(b, l.Count, n, least, width, slots)
	case l.Kind == limit.SlidingLog:
		b = appendNumbers(b, l.Max(), n, least, micros(l))
	default:
		b = appendNumbers(b, l.Count, n, least, micros(l))
	}
	b[2] = byte(len(b) + 1)
	b = append(b, fingerprint...)
	if c != nil {
		b = appendInt(appendInt(appendInt(b, c.state.T), c.state.N), c.state.P)
		b = append(b, c.from...)
	}
	return string(b)
}

func flags(a *limit.Ask) (f byte) {
	switch {
	case a.N == 0:
		f = flagPeek
	case a.N < 0:
		f = flagGiveBack
	case a.Debt:
		f = flagDebt
	case a.Min > 0:
		f = flagPart
	}
	return f
}

// clamp returns N of a and the least of it that a accepts, cut to what decides
// alike and is exact in Lua: one more than could ever fit, or than could ever be
// charged or given back.
func clamp(a *limit.Ask) (n, least int64) {
	most := a.Limit.Max()
	n, least = a.N, a.N
	if a.Min > 0 {
		least = min(a.Min, a.N)
	}
	switch {
	case n < 0 && !isBucket(a.Limit.Kind):
		n = max(n, -4*maxCount) // more than any Count that it may have been taken under
	case n < 0:
		n = max(n, -math.MaxInt64)
	case a.Debt:
		n = min(n, 2*most+1)
	default:
		n = min(n, most+1)
	}
	return n, min(max(least, 0), most+1)
}

// code returns the Kind as it is sent and kept.
func code(k limit.Kind) byte {
	if isBucket(k) {
		return byte(limit.TokenBucket)
	}
	return byte(k)
}

// appendNumbers appends numbers as Lua has them, which are doubles.
func appendNumbers(b []byte, all ...int64) []byte {
	for _, n := range all {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

// appendInt appends n, not negative and below 2^56, in seven bytes.
func appendInt(b []byte, n int64) []byte {
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], uint64(n))
	return append(b, w[:7]...)
}

// early is how far the clock of Redis may be behind the expected one for a
// calendar window to be decided in one call. Ahead, it may be by a window.
const early = 5 * time.Second

// edges returns what the script needs of the calendar, in microseconds: from
// when on it holds, when the window of that time began and ends, and the ends of
// the next two. clock is about the time in Redis.
func edges(l *limit.Limit, clock time.Time) []int64 {
	first := clock.Add(-early)
	begin := windowEnd(l, first.Add(-longest(l.Period)))
	e := windowEnd(l, begin)
	for e.Compare(first) <= 0 {
		begin, e = e, windowEnd(l, e)
	}
	e2 := windowEnd(l, e)
	e3 := windowEnd(l, e2)
	return []int64{first.UnixMicro(), begin.UnixMicro(), e.UnixMicro(), e2.UnixMicro(), e3.UnixMicro()}
}

// longest returns how long a calendar window may last.
func longest(period time.Duration) time.Duration {
	for _, unit := range [...]time.Duration{time.Minute, time.Hour, 24 * time.Hour, limit.Week} {
		if period <= unit {
			return unit + 2*time.Hour // clocks may be put back
		}
	}
	return ((period-1)/limit.Month + 1) * limit.Month
}

// windowEnd returns the end of the calendar window that holds t.
func windowEnd(l *limit.Limit, t time.Time) time.Time {
	s, _ := limit.Take(limit.State{}, t, limit.Ask{Limit: *l, N: 1})
	return time.UnixMicro(s.T)
}
