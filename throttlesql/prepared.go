package throttlesql

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// How take.sql calls the kinds.
const (
	kindBucket = iota
	kindFixed
	kindFirstHit
	kindCalendar
	kindSliding
	kindSlots
	kindLog
)

// numbers are how many take.sql gets for each key.
const numbers = 24

// prepared is a Limit, with what need not be worked out at every decision.
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

func prepare(l limit.Limit) *prepared {
	p := &prepared{limit: l, text: l.String(), count: l.Count, most: l.Most(), period: micros(l.Period)}
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
		p.room, p.roomRem = worth(p.most, p.period, p.count)
		p.bottom, p.bottomRem = 2*p.room, p.roomRem
		if p.roomRem >= p.count-p.roomRem { // carry
			p.bottom, p.bottomRem = p.bottom+1, p.roomRem-(p.count-p.roomRem)
		} else {
			p.bottomRem += p.roomRem
		}
	}
	return p
}

// edges are of windows that follow each other: begin, end, and the ends of the
// two after it.
type edges [4]int64

// edgesAt are those of the calendar window that holds now.
func (p *prepared) edgesAt(now int64) *edges {
	if e := p.calendar.Load(); e != nil && e[0] <= now && now < e[1] {
		return e
	}
	e := &edges{1: p.end(now)}
	e[2] = p.end(e[1])
	e[3] = p.end(e[2])
	// It began after the last instant that is in another one: that is found by
	// halving, from one that is.
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

// end is that of the calendar window that holds now: the T of a State written
// then.
func (p *prepared) end(now int64) int64 {
	s, _ := limit.Take(limit.State{}, time.UnixMicro(now), limit.Ask{Limit: p.limit, N: 1, Debt: true})
	return s.T
}

// mostLimits is how many limits a Store keeps prepared. Further ones are
// prepared at each decision, which takes a microsecond or two.
const mostLimits = 4096

// limits are those prepared. The zero value is ready.
type limits struct {
	all sync.Map // of limit.Limit to *prepared
	n   atomic.Int64
}

func (x *limits) get(l limit.Limit) *prepared {
	if p, ok := x.all.Load(l); ok {
		return p.(*prepared)
	}
	p := prepare(l)
	if x.n.Load() < mostLimits {
		if _, known := x.all.LoadOrStore(l, p); !known {
			x.n.Add(1)
		}
	}
	return p
}
