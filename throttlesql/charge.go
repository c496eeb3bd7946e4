package throttlesql

import (
	"math"

	"github.com/throttle-go/throttle/limit"
)

// A charge is what decide.sql is asked: see there.
type charge struct {
	cost, rem, count int64
	unit, add        int64
	ahead, atMost    int64
	used             int64
	from, to         int64
}

// chargeOf returns the charge of n, from 1 to Limit.Most. clock is about the time
// in PostgreSQL.
func (p *prepared) chargeOf(n, clock int64) charge {
	c := charge{count: p.count, unit: 1, atMost: math.MaxInt64, to: math.MaxInt64}
	switch p.kind {
	case kindBucket:
		c.cost, c.rem = costOf(n, p.period, p.count)
		c.used = p.count - 1
		c.ahead, c.atMost = p.room-c.cost, 0
		if c.rem > 0 {
			c.ahead--
		}
		if p.roomRem > 0 {
			c.ahead, c.atMost = c.ahead+1, p.roomRem-p.count
		}
		return c
	case kindFixed:
		c.unit, c.add = p.period, p.period
	case kindFirstHit:
		c.add = p.period
	case kindCalendar:
		e := p.edgesAt(clock)
		c.unit, c.add = math.MaxInt64, e[1] // now - now % unit is 0
		c.from, c.to = e[0], e[1]
	}
	c.rem, c.used = -n, p.count-n
	return c
}

// before returns the state before the charge, given the state after it.
func (c *charge) before(after limit.State, now int64) (s limit.State) {
	s = limit.State{T: after.T - c.cost, N: after.N + c.rem}
	if c.rem > 0 && after.N >= c.count-c.rem {
		s = limit.State{T: s.T - 1, N: after.N - (c.count - c.rem)}
	}
	if s.T <= now || c.rem < 0 && s.N == 0 {
		return limit.State{}
	}
	return s
}

// refill returns for how long after a loss only take.sql may decide: until a full
// bucket has refilled, or a window has ended. Of a calendar window it is the
// length of the one that holds clock.
func (p *prepared) refill(clock int64) int64 {
	switch p.kind {
	case kindBucket:
		return p.room + 1
	case kindSliding:
		return 2 * p.period
	case kindCalendar:
		e := p.edgesAt(clock)
		return e[1] - e[0]
	}
	return p.period
}
