package throttleredis

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// carried is a state that was carried over from another limit, and the value in
// Redis that it was carried over from.
type carried struct {
	state limit.State
	from  string
	kept  bool // the value stays where the ask is refused: see limit.Forgives
}

// carryOver carries over what reply found under other limits, and reports
// whether r must be sent again: so that Redis writes what was carried over, or
// with the calendar windows of another time.
func (r *request) carryOver(fence string, reply *reply) (again bool, err error) {
	r.carriedAt = 0
	rest, peeks := reply.answers, true
	for i := range r.items {
		it, a := &r.items[i], &r.asks[i]
		if it.limit == nil {
			continue
		}
		it.carried = nil
		n := answerLen(rest)
		switch rest[0] {
		case answerBad:
			return false, unreadable(fence, a, rest[1])
		case answerOther:
			now := time.UnixMicro(reply.now)
			if it.carried = carry(rest[5:n], now, a); it.carried == nil {
				return false, unreadable(fence, a, flawMalformed)
			}
			r.carriedAt = reply.now
			again = again || r.sent > 1 || !it.carried.refuses(now, a)
		case answerLate:
			again, peeks = true, false
		}
		peeks = peeks && a.N == 0
		rest = rest[n:]
	}
	return again && !peeks, nil // a peek writes nothing
}

// carry carries the state in a value over to the limit of a. It returns nil if
// that is no state.
func carry(value string, now time.Time, a *limit.Ask) *carried {
	from, rest, ok := limitOf(value)
	if !ok || len(rest) != 14 && len(rest) != 21 {
		return nil
	}
	s := limit.State{T: intAt(rest, 0), N: intAt(rest, 1)}
	fence := int64(0) // of a window: since when it counts
	if len(rest) == 21 {
		if s.P = intAt(rest, 2); from.Kind != limit.SlidingWindow {
			fence, s.P = s.P, 0
		}
	}
	c := &carried{state: limit.Change(s, now, from, a.Limit), from: value}
	if fence != 0 {
		s.N += usedAt(fence, now.UnixMicro(), &from)
		if c.state.T == s.T && from.Kind == a.Limit.Kind {
			c.state.P = fence // it counts since the same fence
		} else {
			c.state = limit.Change(s, now, from, a.Limit)
		}
	}
	c.kept = limit.Forgives(s, now, from, a.Limit)
	return c
}

// refuses reports whether a is refused and nothing is to be written.
func (c *carried) refuses(now time.Time, a *limit.Ask) bool {
	if !c.kept {
		return false
	}
	_, d := limit.Take(c.state, now, *a)
	return !d.OK
}

// usedAt is how much of what was used up at a fence is still used now, beside
// what was taken since.
func usedAt(fence, now int64, l *limit.Limit) int64 {
	if l.Kind == limit.CalendarWindow {
		return l.Count
	}
	after := max(now-fence, 0)
	if after >= micros(l) {
		return 0
	}
	hi, lo := bits.Mul64(uint64(l.Count), uint64(after))
	free, _ := bits.Div64(hi, lo, uint64(micros(l)))
	return l.Count - int64(free)
}

// format is the format of values, in the byte of the kind: a multiple of 8, up to
// 48. The scripts know it as FORMAT. They refuse values of another format, so a
// change of what follows needs another number, and then versions of this package
// that run side by side never misread each other.
const format = 0

// forget forgets what was carried over: the script does it.
func (r *request) forget() {
	r.carriedAt = 0
	for i := range r.items {
		r.items[i].carried = nil
	}
}

// fingerprint returns l as it is kept with a state: the kind, how many bytes
// follow, and these. Limits that decide alike have the same.
func fingerprint(l *limit.Limit) string {
	b := []byte{format + code(l.Kind), 0}
	if isList(l.Kind) {
		return string(b)
	}
	b = binary.AppendUvarint(b, uint64(l.Count))
	if l.Kind == limit.CalendarWindow {
		b = binary.AppendUvarint(b, uint64(l.Period))
		zone := zoneName(l.Zone)
		b = append(b, zone[:min(len(zone), 100)]...)
	} else {
		b = binary.AppendUvarint(b, uint64(micros(l)))
	}
	if isBucket(l.Kind) && l.Max() != l.Count {
		b = binary.AppendUvarint(b, uint64(l.Max()))
	}
	b[1] = byte(len(b) - 2)
	return string(b)
}

// limitOf returns the limit whose fingerprint value begins with, and the rest of
// value.
func limitOf(value string) (l limit.Limit, rest string, ok bool) {
	b := []byte(value)
	if len(b) < 2 || len(b) < 2+int(b[1]) || b[0] < format || b[0]-format > byte(limit.CalendarWindow) {
		return l, "", false
	}
	l.Kind = limit.Kind(b[0] - format)
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

func zoneName(z *time.Location) string {
	if z == nil {
		return "UTC"
	}
	return z.String()
}

// zoneOf returns the zone of a name. If it is not known here, only its name
// matters: the state says where its windows end.
func zoneOf(name string) *time.Location {
	if z, err := time.LoadLocation(name); err == nil {
		return z
	}
	return time.FixedZone(name, 0)
}
