package throttleredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// The sorts of calls, as the script knows them.
const (
	ordinary = iota
	withLogs
	allPlain // something is taken from token buckets, one each: see short.lua
)

// pending is a question as it is sent.
type pending struct {
	args []any // of EVALSHA: as many names as asks
	keys int   // how many
	sort byte
	sent time.Time
	at   int64 // of the states that were carried over; zero: there are none
}

// newPending has room for n keys. What holds for all is missing.
func newPending(n int) pending {
	p := pending{args: make([]any, 5+2*n), keys: n}
	p.args[2] = two
	if n != 1 {
		p.args[2] = strconv.Itoa(n + 1)
	}
	return p
}

var two, evalsha any = "2", "EVALSHA" // put into an interface once

// names are those of the keys.
func (p *pending) names() []any { return p.args[4 : 4+p.keys] }

// asks are what is asked of them.
func (p *pending) asks() []any { return p.args[5+p.keys:] }

// A meeting is what is known of the process that has answered last. It does not
// change.
type meeting struct {
	process string // empty: none has
	looked  int64  // when it was last looked at who it is; zero: unknown
	fence   string // then, as the script answers it
	sort    byte   // of the call
	head    any    // of the next, if it is of that sort
}

// meets is m with the head of a call of a sort.
func (s *Store) meets(m meeting, sort byte) *meeting {
	m.sort = sort
	m.head = s.head(&m, sort, 0)
	return &m
}

// head is what holds for all asks, as start.lua has it.
func (s *Store) head(m *meeting, sort byte, at int64) string {
	b := append(make([]byte, 0, 80), sort, 0, 0)
	if s.Strict {
		b[1] = 1
	}
	if s.Unfenced {
		b[2] = 1
	}
	b = appendInt(b, m.looked)
	if m.looked == 0 {
		b = appendInt(b, 0)
	}
	b = append(b, m.fence...)
	b = appendInt(b, int64(min(max(s.Overlap, 0), limit.Month)/time.Microsecond))
	b = appendInt(b, at)
	return string(append(b, m.process...))
}

// alone makes one call for p.
func (s *Store) alone(ctx context.Context, ln *lane, p *pending) (reply, error) {
	r, err := s.send(ctx, ln, p)
	if err == nil {
		r.body, _, err = r.cut(p.keys)
	}
	return r, err
}

// send makes the call.
func (s *Store) send(ctx context.Context, ln *lane, p *pending) (reply, error) {
	met := ln.met.Load()
	head := met.head
	if p.sort != met.sort || p.at != 0 {
		head = s.head(met, p.sort, p.at)
	}
	p.args[3], p.args[4+p.keys] = ln.name, head
	r, err := s.eval(ctx, &takeScript, p.args)
	if err == nil {
		s.meet(ln, r, met, p.sort)
	}
	return r, err
}

// meet notes who has answered a call that knew of met, and if it was looked at
// who that is, when and what the fence said.
func (s *Store) meet(ln *lane, r reply, met *meeting, sort byte) {
	switch {
	case r.process != "":
		last := ln.met.Swap(s.meets(meeting{process: r.process}, sort))
		if last.process != "" && last.process != r.process {
			s.replaced.Add(1)
		}
	case r.fence != "":
		next := s.meets(meeting{process: met.process, looked: r.now, fence: r.fence}, sort)
		for last := ln.met.Load(); last.process == met.process && !ln.met.CompareAndSwap(last, next); {
			last = ln.met.Load()
		}
	}
}

// reply is what a script answers.
type reply struct {
	now     int64
	process string // if it is another than the caller knew
	fence   string // if the script has looked at it: since when it is
	body    string
}

// eval runs a script, and again for a while if Redis says to try again, as it
// does while it moves a slot to another node.
func (s *Store) eval(ctx context.Context, sc *script, args []any) (r reply, err error) {
	pause := 2 * time.Millisecond
	for {
		r, err = s.evalOnce(ctx, sc, args)
		if err == nil || !says(err, "TRYAGAIN") || pause > time.Second {
			return r, err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return r, &Error{Err: fmt.Errorf("%w, and Redis says %w", ctx.Err(), errors.Unwrap(err))}
		}
		pause *= 2
	}
}

// evalOnce runs a script where it is known, and otherwise makes it known.
func (s *Store) evalOnce(ctx context.Context, sc *script, args []any) (r reply, err error) {
	args[0], args[1] = evalsha, sc.sha
	v, err := s.Do(ctx, args...)
	if err != nil && says(err, "NOSCRIPT") {
		args[0], args[1] = "EVAL", sc.text
		v, err = s.Do(ctx, args...)
	}
	if err != nil {
		err = failed(err)
		if errors.Is(err, ErrFull) {
			s.full.Add(1)
		}
		return r, err
	}
	b, ok := textOf(v)
	if !ok || len(b) < 8 || len(b) < 8+int(b[7]) {
		return r, &Error{Charged: true, Err: errReply}
	}
	r = reply{now: intAt(b, 0), process: b[8 : 8+b[7]], body: b[8+b[7]:]}
	if len(r.process) == 7 {
		r.fence, r.process = r.process, ""
	}
	return r, nil
}

// textOf is a bulk string, whatever type a client gives it.
func textOf(v any) (text string, ok bool) {
	switch v := v.(type) {
	case []byte:
		return string(v), true
	case string:
		return v, true
	}
	return "", false
}

// cut splits off the first n answers.
func (r *reply) cut(n int) (body, rest string, err error) {
	rest = r.body
	for range n {
		k := cutAnswer(rest)
		if k == 0 {
			return "", "", &Error{Charged: true, Err: errReply}
		}
		rest = rest[k:]
	}
	return r.body[:len(r.body)-len(rest)], rest, nil
}
