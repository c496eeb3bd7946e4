package throttlesql

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/throttle-go/throttle/limit"
)

// The kinds, as take.sql numbers them.
const (
	kindBucket = iota
	kindFixed
	kindFirstHit
	kindCalendar
	kindSliding
	kindSlots
	kindLog
)

// prepared is a limit with what every ask under it would otherwise work out.
type prepared struct {
	limit  limit.Limit
	text   string // as it stands in a row
	kind   int64
	count  int64
	most   int64 // Limit.Most
	period int64 // microseconds

	// Of a bucket: what it holds, and what may be owed.
	room, roomRem, bottom, bottomRem int64

	calendar atomic.Pointer[edges] // of the window asked for last
}

// prepare works out what l needs.
func prepare(l limit.Limit) *prepared {
	p := &prepared{limit: l, text: textOf(l), count: l.Count, most: l.Max(), period: micros(l.Period)}
	switch l.Kind {
	case limit.FixedWindow:
		p.kind = kindFixed
	case limit.FirstHitWindow:
		p.kind = kindFirstHit
	case limit.CalendarWindow:
		p.kind = kindCalendar
	case limit.SlidingWindow:
		p.kind = kindSliding
	case limit.SlidingSlots:
		p.kind = kindSlots
	case limit.SlidingLog:
		p.kind, p.count = kindLog, p.most
	default:
		p.room, p.roomRem = costOf(p.most, p.period, p.count)
		p.bottom, p.bottomRem = 2*p.room, p.roomRem
		if p.roomRem >= p.count-p.roomRem { // carry
			p.bottom, p.bottomRem = p.bottom+1, p.roomRem-(p.count-p.roomRem)
		} else {
			p.bottomRem += p.roomRem
		}
	}
	return p
}

// textOf returns l as it stands in a row, which is read again when the limit
// changes. The name of a Zone may be anything; one that PostgreSQL does not store,
// or Parse does not read, is written in digits.
func textOf(l limit.Limit) string {
	odd := func(r rune) bool { return r == ' ' || r == utf8.RuneError || !unicode.IsPrint(r) }
	if zone := l.Zone.String(); zone == "" || strings.ContainsFunc(zone, odd) {
		l.Zone = time.FixedZone(fmt.Sprintf("zone-%x", zone), 0)
	}
	return l.String()
}

// edges are of windows that follow each other: begin, end, and the ends of the
// two after it.
type edges [4]int64

// edgesAt returns the edges of the calendar window that holds now.
func (p *prepared) edgesAt(now int64) *edges {
	if e := p.calendar.Load(); e != nil && e[0] <= now && now < e[1] {
		return e
	}
	e := &edges{1: p.end(now)}
	e[2] = p.end(e[1])
	e[3] = p.end(e[2])
	// It began after the last microsecond of another window: found by halving,
	// from one that is in another window.
	before, in := now, now
	for step := int64(time.Minute / time.Microsecond); p.end(before) == e[1]; step *= 2 {
		in = before
		before -= step
	}
	for in-before > 1 {
		if mid := before + (in-before)/2; p.end(mid) == e[1] {
			in = mid
		} else {
			before = mid
		}
	}
	e[0] = in
	p.calendar.Store(e)
	return e
}

// end returns the end of the calendar window that holds now: the T of a State
// written then.
func (p *prepared) end(now int64) int64 {
	s, _ := limit.Take(limit.State{}, time.UnixMicro(now), limit.Ask{Limit: p.limit, N: 1, Debt: true})
	return s.T
}

// maxLimits bounds the limits that a Store keeps prepared. Further ones are
// prepared at each decision, which takes a microsecond or two.
const maxLimits = 4096

// limits are those used so far. The zero value is ready.
type limits struct {
	all sync.Map // of limit.Limit to *prepared
	n   atomic.Int64
}

// get returns l prepared.
func (x *limits) get(l limit.Limit) *prepared {
	if p, ok := x.all.Load(l); ok {
		return p.(*prepared)
	}
	p := prepare(l)
	if x.n.Load() < maxLimits {
		if _, known := x.all.LoadOrStore(l, p); !known {
			x.n.Add(1)
		}
	}
	return p
}

// remembers reports whether anything is kept under l.
func remembers(l *limit.Limit) bool { return l.Period > 0 && l.Count > 0 }

// SQL only adds and compares; what must be divided is divided here. A length of
// time is a number of whole microseconds and of Count-ths of another.

// forever stands for any longer time, as in package limit.
const forever = int64(1) << 60

// costOf returns the time in which a token bucket refills n events, which is
// n × Period/Count. n is not negative.
func costOf(n, period, count int64) (us, rem int64) {
	hi, lo := bits.Mul64(uint64(n), uint64(period))
	if hi >= uint64(count) {
		return forever, 0
	}
	q, r := bits.Div64(hi, lo, uint64(count))
	if q >= uint64(forever) {
		return forever, 0
	}
	return int64(q), int64(r)
}

// far returns how far ahead a calendar window may end without a closer look, as
// in package limit: an eighth less than its Period.
func (p *prepared) far() int64 {
	period := p.limit.Period
	return int64((period - period/8) / 1000)
}

// slots returns the width of a slot of a SlidingSlots, in microseconds, and their
// number, as package limit has them.
func (p *prepared) slots() (width, n int64) {
	n = 10
	if p.limit.Slots > 0 {
		n = min(int64(p.limit.Slots), limit.MaxSlots)
	}
	width = (p.period-1)/n + 1
	return width, (p.period-1)/width + 1
}

// micros returns d in microseconds, rounded up.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// size returns the amount of n; the smallest integer has none.
func size(n int64) int64 {
	if n < 0 {
		return -max(n, -math.MaxInt64)
	}
	return n
}

// double returns twice n, or the largest there is.
func double(n int64) int64 {
	if n > math.MaxInt64/2 {
		return math.MaxInt64
	}
	return 2 * n
}
