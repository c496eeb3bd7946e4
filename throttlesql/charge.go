package throttlesql

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// bare is a statement without its comments, as it is sent.
func bare(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// A charge is what decide.sql is asked: see there.
type charge struct {
	cost, rem, count int64
	unit, add        int64
	ahead, atMost    int64
	used             int64
	from, to         int64
	fenced           int64
}

// chargeOf is that of n, from 1 to the most there can be.
func (p *prepared) chargeOf(n, now int64) (c charge, ok bool) {
	c = charge{count: p.count, unit: 1, atMost: math.MaxInt64, to: math.MaxInt64}
	switch p.kind {
	case kindBucket:
		c.cost, c.rem = worth(n, p.period, p.count)
		c.used = math.MaxInt64
		c.fenced, c.ahead = p.room, p.room-c.cost
		if c.rem > 0 {
			c.ahead--
		}
		c.atMost = 0
		if p.roomRem > 0 {
			c.fenced, c.ahead, c.atMost = c.fenced+1, c.ahead+1, p.roomRem-p.count
		}
		return c, true
	case kindFixed:
		c.unit, c.add = p.period, p.period
		c.fenced = p.period
	case kindFirstHit:
		c.add, c.fenced = p.period, p.period
	case kindCalendar:
		e := p.edgesAt(now)
		c.unit, c.add = math.MaxInt64, e[1] // now - now % unit is 0
		c.from, c.to = e[0], e[1]
		c.fenced = e[1] - e[0]
	default:
		return c, false
	}
	c.rem, c.used = -n, p.count-n
	return c, true
}

// charge charges the one key of q by decide.sql, if it can. It is done if it
// has.
func (s *Store) charge(ctx context.Context, t *statements, q *question, d []limit.Decision) (done bool, err error) {
	a, p := &q.asks[0], q.limits[0]
	sent := time.Now()
	c, ok := p.chargeOf(a.N, sent.UnixMicro()+s.ahead.Load())
	if !ok {
		return false, nil
	}
	var at, tt, n int64
	err = s.Query(ctx, t.decide, []byte(q.keys[0]), p.text, c.cost, c.rem, c.count,
		c.unit, c.add, c.ahead, c.atMost, c.used, c.from, c.to, c.fenced).Scan(&at, &tt, &n)
	switch {
	case err != nil && isNoRows(err):
		return false, nil
	case err != nil:
		return false, failed(err)
	}
	if added := at > 0; added {
		s.grown(ctx, t, 1)
	} else {
		at = -at
	}
	s.ahead.Store(at - sent.UnixMicro())
	q.at = time.UnixMicro(at)
	after, d0 := limit.Take(c.before(tt, n, at), q.at, *a)
	if d[0] = d0; !d0.OK || after != (limit.State{T: tt, N: n}) {
		return false, errDisagree
	}
	s.note(q, d)
	return true, nil
}

// before is the state before the charge, given that after it.
func (c *charge) before(t, n, now int64) (s limit.State) {
	s = limit.State{T: t - c.cost, N: n + c.rem}
	if c.rem > 0 && n >= c.count-c.rem {
		s.T, s.N = s.T-1, n-(c.count-c.rem)
	}
	if s.T <= now || c.rem < 0 && s.N == 0 {
		return limit.State{}
	}
	return s
}
