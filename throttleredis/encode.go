package throttleredis

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/throttle-go/throttle/limit"
)

const (
	// Numbers of Lua are exact below 2^53; the largest sum there is of four
	// Counts, or of now and twice the time that a bucket takes to fill.
	mostCount = 1 << 50
	mostSpan  = 1 << 51 // microseconds, 71 years
	beyond    = 1 << 53 // a span that fits in no bucket
)

// The bits of an ask, as in start.lua.
const (
	isPeek = 1 << iota
	isBack
	isDebt
	isPart
	isChanged
	isRefused
)

// check says what is wrong with a limit that Lua could not count exactly.
func check(l *limit.Limit) (what string) {
	switch {
	case l.Most() > mostCount || l.Kind != limit.SlidingLog && l.Count > mostCount:
		what = "Count and Burst must be at most 2^50; the zero Limit allows everything"
	case micros(l) > mostSpan:
		what = "Period must be at most 71 years"
	case isBucket(l.Kind) && fill(l).us > mostSpan:
		what = "a full Burst must refill within 71 years"
	}
	return what
}

// counts reports whether anything is remembered under l.
func counts(l *limit.Limit) bool { return l.Period > 0 && l.Count > 0 }

func isBucket(k limit.Kind) bool { return k == limit.TokenBucket || k > limit.CalendarWindow }

// isList tells the kinds that keep more than a State.
func isList(k limit.Kind) bool { return k == limit.SlidingLog || k == limit.SlidingSlots }

// code is the Kind as it is sent and kept.
func code(k limit.Kind) byte {
	if isBucket(k) {
		return byte(limit.TokenBucket)
	}
	return byte(k)
}

// micros is the Period in microseconds, rounded up, as package limit has it.
func micros(l *limit.Limit) int64 {
	us := int64(l.Period / time.Microsecond)
	if l.Period%time.Microsecond > 0 {
		us++
	}
	return us
}

// worth is n × Period/Count: whole microseconds and Count-ths of another; beyond
// what fits into a bucket, 2^53. n is not negative.
type worth struct{ us, rem int64 }

func worthOf(l *limit.Limit, n int64) worth {
	hi, lo := bits.Mul64(uint64(n), uint64(micros(l)))
	if hi >= uint64(l.Count) {
		return worth{us: beyond}
	}
	us, rem := bits.Div64(hi, lo, uint64(l.Count))
	if us >= beyond {
		return worth{us: beyond}
	}
	return worth{int64(us), int64(rem)}
}

// fill is the time that an empty bucket takes to fill.
func fill(l *limit.Limit) worth { return worthOf(l, l.Most()) }

// fingerprint is the limit as it is kept with a state: the kind, how many bytes
// follow, and these. Limits that decide alike have the same.
func fingerprint(l *limit.Limit) string {
	b := []byte{code(l.Kind), 0}
	if isList(l.Kind) {
		return string(b)
	}
	b = binary.AppendUvarint(b, uint64(l.Count))
	switch {
	case l.Kind == limit.CalendarWindow:
		b = binary.AppendUvarint(b, uint64(l.Period))
		zone := zoneName(l.Zone)
		b = append(b, zone[:min(len(zone), 100)]...)
	default:
		b = binary.AppendUvarint(b, uint64(micros(l)))
	}
	if isBucket(l.Kind) && l.Most() != l.Count {
		b = binary.AppendUvarint(b, uint64(l.Most()))
	}
	b[1] = byte(len(b) - 2)
	return string(b)
}

func zoneName(z *time.Location) string {
	if z == nil {
		return "UTC"
	}
	return z.String()
}

// limitOf is the limit with that fingerprint, of which value begins with one, and
// what follows.
func limitOf(value string) (l limit.Limit, rest string, ok bool) {
	b := []byte(value)
	if len(b) < 2 || len(b) < 2+int(b[1]) || b[0] > byte(limit.CalendarWindow) {
		return l, "", false
	}
	l.Kind = limit.Kind(b[0])
	b, rest = b[2:2+b[1]], value[2+b[1]:]
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return l, "", false
	}
	b = b[n:]
	period, n := binary.Uvarint(b)
	if n <= 0 {
		return l, "", false
	}
	b = b[n:]
	l.Count, l.Period = int64(count), time.Duration(period)*time.Microsecond
	switch {
	case l.Kind == limit.CalendarWindow:
		l.Period, l.Zone = time.Duration(period), zoneOf(string(b))
	case len(b) > 0:
		burst, _ := binary.Uvarint(b)
		l.Burst = int64(burst)
	}
	return l, rest, true
}

// zoneOf is the zone of a name. Of one that is not known here only the name
// matters: where its windows end is in the state.
func zoneOf(name string) *time.Location {
	if z, err := time.LoadLocation(name); err == nil {
		return z
	}
	return time.FixedZone(name, 0)
}

// carried is a state that was carried over from another limit, and the value
// that it was carried over from.
type carried struct {
	state limit.State
	from  string
}

// encode is what the script has to know of a: size, how many asks there are in
// the group that begins with it, or zero; the bits; where the fingerprint print of
// its limit begins, counted from one; numbers, that; what was carried over. now
// is about the time there.
func encode(a *limit.Ask, print string, size int, refused bool, c *carried, now time.Time) string {
	l := &a.Limit
	n, least := within(a)
	b := make([]byte, 3, 112)
	b[0], b[1] = byte(size), flags(a, refused, c)
	switch {
	case isBucket(l.Kind):
		w, room := worthOf(l, max(n, -n)), fill(l)
		b = numbers(b, w.us, w.rem, room.us, room.rem, l.Count)
		if flags(a, false, nil) == isPart {
			one := worthOf(l, 1)
			b = numbers(b, n, least, one.us, one.rem)
		}
	case l.Kind == limit.CalendarWindow:
		b = numbers(b, l.Count, n, least, int64((l.Period-l.Period/8)/time.Microsecond))
		b = numbers(b, edges(l, now)...)
	case l.Kind == limit.SlidingSlots:
		width, slots := slotsOf(l)
		b = numbers(b, l.Count, n, least, width, slots)
	case l.Kind == limit.SlidingLog:
		b = numbers(b, l.Most(), n, least, micros(l))
	default:
		b = numbers(b, l.Count, n, least, micros(l))
	}
	b[2] = byte(len(b) + 1)
	b = append(b, print...)
	if c != nil {
		b = appendInt(appendInt(appendInt(b, c.state.T), c.state.N), c.state.P)
		b = append(b, c.from...)
	}
	return string(b)
}

func flags(a *limit.Ask, refused bool, c *carried) (f byte) {
	switch {
	case a.N == 0:
		f = isPeek
	case a.N < 0:
		f = isBack
	case a.Debt:
		f = isDebt
	case a.Min > 0:
		f = isPart
	}
	if refused {
		f |= isRefused
	}
	if c != nil {
		f |= isChanged
	}
	return f
}

// within is the N and the least that would do of a, cut to what makes the same
// difference and is exact in Lua: one more than could ever fit, or than could
// ever be charged or given back.
func within(a *limit.Ask) (n, least int64) {
	most := a.Limit.Most()
	n, least = a.N, a.N
	if a.Min > 0 {
		least = min(a.Min, a.N)
	}
	switch {
	case n < 0 && !isBucket(a.Limit.Kind):
		n = max(n, -4*mostCount) // more than any Count, by which it may have been taken
	case n < 0:
		n = max(n, -math.MaxInt64)
	case a.Debt:
		n = min(n, 2*most+1)
	default:
		n = min(n, most+1)
	}
	return n, min(max(least, 0), most+1)
}

// slotsOf is the width of a slot and how many there are, as package limit has
// them.
func slotsOf(l *limit.Limit) (width, n int64) {
	n = 10
	if l.Slots > 0 {
		n = min(int64(l.Slots), limit.MaxSlots)
	}
	width = (micros(l)-1)/n + 1
	return width, (micros(l)-1)/width + 1
}

func numbers(b []byte, all ...int64) []byte {
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
