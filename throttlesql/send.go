package throttlesql

import (
	"context"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// maxTries bounds how often take.sql is sent because the limit of a key, or the
// calendar window, has just changed.
const maxTries = 8

// A reply is what a statement returned.
type reply struct {
	from   statement
	now    int64       // microseconds of Unix time, by the clock of PostgreSQL
	ok     bool        // whether all pass
	state  limit.State // of one key
	states string      // of several keys: the literal of an array
	under  *string     // of take.sql: the limits that states were written under, where others
	added  int64       // rows
}

// A statement is one of the SQL files. Those that cannot decide change nothing.
type statement byte

const (
	fromNone    statement = iota // nothing was sent
	fromLook                     // one key that is not charged: the state
	fromCharge                   // one key that passes: the state after
	fromSlide                    // the same of a sliding window
	fromSeveral                  // several keys that pass: the states after
	fromTake                     // anything: the states before
)

// send sends r and returns the reply that answers all of it. It begins with the
// statement that is the cheapest if it decides, as it most likely does; take.sql
// always does.
func (s *Store) send(ctx context.Context, r *request) (reply, error) {
	if len(r.sent) == 0 {
		return reply{now: time.Now().UnixMicro()}, nil
	}
	t, err := s.statements()
	if err != nil {
		return reply{}, err
	}
	if err := ctx.Err(); err != nil { // nothing was sent
		return reply{}, &Error{Err: err}
	}
	var reply reply
	var decides bool
	if len(r.asks) == 1 {
		reply, decides, err = s.sendOne(ctx, t, r)
	} else {
		reply, decides, err = s.sendSeveral(ctx, t, r)
	}
	if decides || err != nil {
		return reply, err
	}
	return s.sendTake(ctx, t, r)
}

// sendOne sends a request for one key: decide.sql or slide.sql if it is likely to
// pass, look.sql if not, and the other one if the first does not decide.
func (s *Store) sendOne(ctx context.Context, t *statements, r *request) (reply reply, decides bool, err error) {
	a, it := &r.asks[0], &r.items[0]
	if it.limit.kind >= kindSlots || a.N < 0 {
		return reply, false, nil
	}
	canPass := a.N > 0 && a.N <= it.limit.most
	looks := !canPass || s.likelyRefused(it.key)
	if looks {
		if a.Debt || a.Min > 0 {
			return reply, false, nil // it may well be charged, but not by decide.sql
		}
		if reply, decides, err = s.sendLook(ctx, t, r); decides || err != nil || !canPass {
			return reply, decides, err
		}
	}
	if it.limit.kind == kindSliding {
		reply, decides, err = s.sendSlide(ctx, t, r)
	} else {
		reply, decides, err = s.sendCharge(ctx, t, r)
	}
	if decides || err != nil || looks {
		return reply, decides, err
	}
	return s.sendLook(ctx, t, r)
}

// sendLook sends look.sql, which decides if there is nothing to write.
func (s *Store) sendLook(ctx context.Context, t *statements, r *request) (_ reply, decides bool, err error) {
	a, it := &r.asks[0], &r.items[0]
	var found struct {
		now   int64
		state limit.State
		under string
		since *int64 // when something may have been lost; nil: not known
	}
	sent := time.Now().UnixMicro()
	err = s.Query(ctx, t.look, []byte(it.key)).
		Scan(&found.now, &found.state.T, &found.state.N, &found.state.P, &found.under, &found.since)
	if err != nil {
		return reply{}, false, failedLook(err)
	}
	s.setOffset(found.now - sent)
	s.lost.note(found.since)
	now, state, since := found.now, found.state, found.since
	live := state.T > now
	switch {
	case since == nil || live && found.under != it.limit.text:
		return reply{}, false, nil
	case !live:
		state = limit.State{}
	case it.limit.kind != kindSliding:
		state.P = 0
	}
	if it.limit.refill(now) > now-*since {
		return reply{}, false, nil
	}
	after, d := limit.Take(state, time.UnixMicro(now), *a)
	return reply{from: fromLook, now: now, ok: d.OK, state: state}, after == state, nil
}

// sendCharge sends decide.sql or, where it will do, whole.sql. Both decide if the
// key passes.
func (s *Store) sendCharge(ctx context.Context, t *statements, r *request) (_ reply, decides bool, err error) {
	it := &r.items[0]
	p := it.limit
	sent := time.Now().UnixMicro()
	it.charge = p.chargeOf(r.asks[0].N, sent+s.offset())
	reply, c := reply{from: fromCharge, ok: true}, &it.charge
	if p.kind == kindBucket && c.rem == 0 && p.roomRem == 0 {
		err = s.Query(ctx, t.whole, []byte(it.key), p.text, c.cost, c.ahead).Scan(&reply.now, &reply.state.T)
	} else {
		err = s.Query(ctx, t.decide, []byte(it.key), p.text, c.cost, c.rem, c.count,
			c.unit, c.add, c.ahead, c.atMost, c.used, c.from, c.to, p.refill(c.from)).
			Scan(&reply.now, &reply.state.T, &reply.state.N)
	}
	if err != nil {
		return reply, false, failedCharge(err)
	}
	if reply.now > 0 { // the row is new: else the time is negative
		s.sweepFor(ctx, t, 1)
	}
	reply.now = max(reply.now, -reply.now)
	s.setOffset(reply.now - sent)
	return reply, true, nil
}

// sendSlide sends slide.sql, which decides if the key passes.
func (s *Store) sendSlide(ctx context.Context, t *statements, r *request) (_ reply, decides bool, err error) {
	p, n := r.items[0].limit, r.asks[0].N
	reply := reply{from: fromSlide, ok: true}
	var added bool
	sent := time.Now().UnixMicro()
	err = s.Query(ctx, t.slide, []byte(r.items[0].key), p.text, n, p.period, p.count-n, p.refill(0)).
		Scan(&reply.now, &reply.state.T, &reply.state.N, &reply.state.P, &added)
	if err != nil {
		return reply, false, failedCharge(err)
	}
	if added {
		s.sweepFor(ctx, t, 1)
	}
	s.setOffset(reply.now - sent)
	return reply, true, nil
}

// sendSeveral sends several.sql if all keys are likely to pass. It decides if
// they do.
func (s *Store) sendSeveral(ctx context.Context, t *statements, r *request) (_ reply, decides bool, err error) {
	if len(r.sent) < 2 || r.refused {
		return reply{}, false, nil
	}
	for _, i := range r.sent {
		p, n := r.items[i].limit, r.asks[i].N
		if p.kind > kindCalendar || n < 1 || n > p.most || s.likelyRefused(r.items[i].key) {
			return reply{}, false, nil
		}
	}
	sent := time.Now().UnixMicro()
	keys, lims, charges := r.chargeArguments(sent + s.offset())
	reply := reply{from: fromSeveral, ok: true}
	var after *string
	if err := s.Query(ctx, t.several, keys, lims, charges).Scan(&reply.now, &after, &reply.added); err != nil {
		return reply, false, failed(err)
	}
	s.setOffset(reply.now - sent)
	if after == nil {
		return reply, false, nil
	}
	reply.states = *after
	s.sweepFor(ctx, t, reply.added)
	return reply, true, nil
}

// sendTake sends take.sql, which decides on everything. It sends it again if a
// key has a state that was written under another limit, which Go carries over,
// or if the clock is in a calendar window that was not expected.
func (s *Store) sendTake(ctx context.Context, t *statements, r *request) (reply, error) {
	var clock int64 // about that of PostgreSQL
	for range maxTries {
		sent := time.Now().UnixMicro()
		if clock == 0 {
			clock = sent + s.offset()
		}
		keys, lims, olds, numbers := r.takeArguments(clock)
		reply := reply{from: fromTake}
		var ok *bool // nil: nothing was changed
		err := s.Query(ctx, t.take, keys, lims, olds, numbers).
			Scan(&reply.now, &ok, &reply.states, &reply.under, &reply.added)
		if err != nil {
			return reply, failed(err)
		}
		clock = reply.now
		s.setOffset(clock - sent)
		s.sweepFor(ctx, t, reply.added)
		if ok != nil {
			reply.ok = *ok
			return reply, nil
		}
		if err := r.carryOver(&reply); err != nil {
			return reply, err
		}
	}
	return reply{}, errTries
}
