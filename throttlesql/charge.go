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
}

// chargeOf is that of n, from 1 to the most there can be, at about now.
func (p *prepared) chargeOf(n, now int64) charge {
	c := charge{count: p.count, unit: 1, atMost: math.MaxInt64, to: math.MaxInt64}
	switch p.kind {
	case kindBucket:
		c.cost, c.rem = worth(n, p.period, p.count)
		c.used = math.MaxInt64
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
		e := p.edgesAt(now)
		c.unit, c.add = math.MaxInt64, e[1] // now - now % unit is 0
		c.from, c.to = e[0], e[1]
	}
	c.rem, c.used = -n, p.count-n
	return c
}

// fenced is for how long after something was lost a key may not be as it
// stands: until a full bucket has been refilled, or a window has ended. Of a
// calendar window it is the length of the one that holds now.
func (p *prepared) fenced(now int64) int64 {
	switch p.kind {
	case kindBucket:
		return p.room + 1
	case kindSliding:
		return 2 * p.period
	case kindCalendar:
		e := p.edgesAt(now)
		return e[1] - e[0]
	}
	return p.period
}

// one answers the usual question, about one key, if it can: by decide.sql or
// slide.sql if it is likely to pass, and by look.sql if not.
func (s *Store) one(ctx context.Context, t *statements, q *question, d []limit.Decision) (done bool, err error) {
	a, p := &q.asks[0], q.limits[0]
	if p.kind >= kindSlots || a.N < 0 {
		return false, nil
	}
	refuses := a.N == 0 || a.N > p.most || s.refuses(q.keys[0])
	if refuses && (a.Debt || a.Min > 0) {
		return false, nil // it may well be charged, but not by decide.sql
	}
	if refuses {
		if done, err := s.look(ctx, t, q, d); done || err != nil {
			return done, err
		}
	}
	if a.N == 0 || a.N > p.most {
		return false, nil
	}
	if p.kind == kindSliding {
		done, err = s.slide(ctx, t, q, d)
	} else {
		done, err = s.charge(ctx, t, q, d)
	}
	if done || err != nil || refuses {
		return done, err
	}
	return s.look(ctx, t, q, d)
}

// look answers if there is nothing to be charged or else written.
func (s *Store) look(ctx context.Context, t *statements, q *question, d []limit.Decision) (done bool, err error) {
	a, p := &q.asks[0], q.limits[0]
	var at int64
	var state limit.State
	var under string
	var since *int64
	sent := time.Now().UnixMicro()
	err = s.Query(ctx, t.look, []byte(q.keys[0])).Scan(&at, &state.T, &state.N, &state.P, &under, &since)
	if err != nil {
		return false, unwritten(err)
	}
	s.ahead.Store(at - sent)
	s.lost.meet(since)
	live := state.T > at
	switch {
	case since == nil || live && under != p.text:
		return false, nil
	case !live:
		state = limit.State{}
	case p.kind != kindSliding:
		state.P = 0
	}
	if p.fenced(at) > at-*since {
		return false, nil
	}
	after, answer := limit.Take(state, time.UnixMicro(at), *a)
	if after != state {
		return false, nil
	}
	d[0] = answer
	s.note(q, d)
	return true, nil
}

// charge charges by decide.sql, or whole.sql.
func (s *Store) charge(ctx context.Context, t *statements, q *question, d []limit.Decision) (done bool, err error) {
	p := q.limits[0]
	sent := time.Now().UnixMicro()
	c := p.chargeOf(q.asks[0].N, sent+s.ahead.Load())
	var at int64
	var after limit.State
	if p.kind == kindBucket && c.rem == 0 && p.roomRem == 0 {
		err = s.Query(ctx, t.whole, []byte(q.keys[0]), p.text, c.cost, c.ahead).Scan(&at, &after.T)
	} else {
		err = s.Query(ctx, t.decide, []byte(q.keys[0]), p.text, c.cost, c.rem, c.count,
			c.unit, c.add, c.ahead, c.atMost, c.used, c.from, c.to, p.fenced(c.from)).Scan(&at, &after.T, &after.N)
	}
	if err != nil {
		return false, charged(err)
	}
	if at > 0 {
		s.grown(ctx, t, 1)
	}
	at = max(at, -at)
	s.ahead.Store(at - sent)
	return true, s.passed(q, d, c.before(after, at), after, at)
}

// slide charges by slide.sql.
func (s *Store) slide(ctx context.Context, t *statements, q *question, d []limit.Decision) (done bool, err error) {
	p, n := q.limits[0], q.asks[0].N
	var at int64
	var after limit.State
	var added bool
	sent := time.Now().UnixMicro()
	err = s.Query(ctx, t.slide, []byte(q.keys[0]), p.text, n, p.period, p.count-n, p.fenced(0)).
		Scan(&at, &after.T, &after.N, &after.P, &added)
	if err != nil {
		return false, charged(err)
	}
	if added {
		s.grown(ctx, t, 1)
	}
	s.ahead.Store(at - sent)
	before := limit.State{T: after.T, N: after.N - n, P: after.P}
	switch {
	case before.N == 0 && before.P == 0:
		before = limit.State{}
	case before.N == 0:
		before = limit.State{T: after.T - p.period, N: after.P}
	}
	return true, s.passed(q, d, before, after, at)
}

// passed answers what was charged.
func (s *Store) passed(q *question, d []limit.Decision, before, after limit.State, at int64) error {
	state, answer := limit.Take(before, time.UnixMicro(at), q.asks[0])
	if !answer.OK || state != after {
		return errDisagree
	}
	d[0] = answer
	s.note(q, d)
	return nil
}

// before is the state before the charge, given that after it.
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
