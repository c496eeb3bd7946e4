package throttleredis

import (
	"errors"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// mostAsks is how many one Take may have: the script is told in one byte.
const mostAsks = 255

// A question is one Take.
type question struct {
	asks    []limit.Ask
	sent    []sent
	refused bool // by a limit that allows nothing
	carried bool // some states are

	at      int64    // when, in microseconds of Unix time by the clock of Redis
	answers []answer // one for each of asks
}

// sent is an ask that Redis is asked.
type sent struct {
	i       int // which
	limit   *prepared
	carried *carried
}

// sort appends what of asks is to be sent: a limit that remembers nothing is not.
// One that allows nothing refuses all.
func sort(asks []limit.Ask, x *limits, to []sent) (all []sent, refused bool, err error) {
	if len(asks) > mostAsks {
		return nil, false, fmt.Errorf("throttleredis: %d asks in one Take; at most %d", len(asks), mostAsks)
	}
	for i := range asks {
		a := &asks[i]
		if !counts(&a.Limit) {
			_, d := limit.Take(limit.State{}, time.Time{}, *a)
			refused = refused || !d.OK
			continue
		}
		p, err := x.get(a)
		if err != nil {
			return nil, false, err
		}
		to = append(to, sent{i: i, limit: p})
	}
	return to, refused, nil
}

// pending is the question as it is sent at the time now. ahead is how far the
// clock of Redis is.
func (q *question) pending(fence string, now time.Time, ahead time.Duration) pending {
	p := newPending(len(q.sent))
	p.sent = now
	if q.carried {
		p.at = q.at
	}
	names, asks := p.names(), p.asks()
	for k := range q.sent {
		s := &q.sent[k]
		a := &q.asks[s.i]
		ask := s.limit.one
		if ask == nil || len(q.sent) > 1 || a.N != 1 || a.Min > 1 || a.Debt || q.refused || s.carried != nil {
			size := 0
			if k == 0 {
				size = len(q.sent)
			}
			ask = encode(a, s.limit.print, size, q.refused, s.carried, now.Add(ahead))
		}
		names[k], asks[k] = name(fence, a.Key, a.Limit.Kind), ask
		if a.Limit.Kind == limit.SlidingLog {
			p.sort = withLogs
		}
	}
	if len(q.sent) == 1 && isPlain(asks[0].(string)) {
		p.sort = allPlain
	}
	return p
}

// isPlain tells an ask that the short way is made for: something is taken from a
// token bucket, and no more.
func isPlain(ask string) bool { return ask[0] == 1 && ask[1] == 0 && ask[ask[2]-1] == 0 }

// An answer is the state of one key before.
type answer struct {
	state limit.State
	list  [2]taken // of a Log or Slots
}

// taken is what was taken when.
type taken struct{ at, n int64 }

// What an answer is, as the scripts write it.
const (
	isEmpty = iota
	isPair
	isTriple
	isTakens
	isOther // written under another limit
	isLate  // beyond the edges of the calendar that were sent
)

var errReply = errors.New("what Redis answered is not what the script answers: is Do the client's own function?")

// cutAnswer is the length of the first answer in b, zero if it is none.
func cutAnswer(b string) int {
	n := 1
	switch {
	case len(b) == 0:
		return 0
	case b[0] == isPair:
		n += 14
	case b[0] == isTriple:
		n += 21
	case b[0] == isTakens:
		n += 1 + 28
	case b[0] == isOther:
		if len(b) < 5 {
			return 0
		}
		n += 4 + (int(b[1]) | int(b[2])<<8 | int(b[3])<<16 | int(b[4])<<24)
	case b[0] > isLate:
		return 0
	}
	if len(b) < n {
		return 0
	}
	return n
}

// intAt is the i-th integer of seven bytes.
func intAt(b string, i int) (n int64) {
	for k := 6; k >= 0; k-- {
		n = n<<8 | int64(b[7*i+k])
	}
	return n
}

// read takes the answers, and reports whether to ask again.
func (q *question) read(r reply) (again bool, err error) {
	q.at, q.carried = r.now, false
	b, peeks := r.body, true
	for k := range q.sent {
		s := &q.sent[k]
		a, ans := &q.asks[s.i], &q.answers[s.i]
		*ans, s.carried = answer{}, nil
		n := cutAnswer(b)
		switch body := b[1:n]; b[0] {
		case isPair:
			ans.state = limit.State{T: intAt(body, 0), N: intAt(body, 1)}
		case isTriple:
			ans.state = limit.State{T: intAt(body, 0), N: intAt(body, 1), P: intAt(body, 2)}
		case isTakens:
			for k := range ans.list {
				ans.list[k] = taken{intAt(body[1:], 2*k), intAt(body[1:], 2*k+1)}
			}
		case isOther:
			again, q.carried = true, true
			if s.carried, err = carry(body[4:], time.UnixMicro(q.at), a); err != nil {
				return false, err
			}
			ans.state = s.carried.state
		case isLate:
			again, peeks = true, false
		}
		peeks = peeks && a.N == 0
		b = b[n:]
	}
	return again && !peeks, nil // what only looks writes nothing, so it is answered
}

// carry carries the state in a value over to the limit of a.
func carry(value string, now time.Time, a *limit.Ask) (*carried, error) {
	from, rest, ok := limitOf(value)
	if !ok || len(rest) != 14 && len(rest) != 21 {
		return nil, &Error{Err: fmt.Errorf("the key %.100q holds what this package has not written", a.Key)}
	}
	s := limit.State{T: intAt(rest, 0), N: intAt(rest, 1)}
	fence := int64(0)
	if len(rest) == 21 {
		if s.P = intAt(rest, 2); from.Kind != limit.SlidingWindow {
			fence, s.P = s.P, 0
		}
	}
	c := &carried{state: limit.Change(s, now, from, a.Limit), from: value}
	if c.state.T == s.T && from.Kind == a.Limit.Kind && fence != 0 {
		c.state.P = fence // it counts since the same fence
	}
	return c, nil
}

// decide fills in d, as package limit decides.
func (q *question) decide(d []limit.Decision) (ok bool) {
	at := time.UnixMicro(q.at)
	ok = true
	for i := range q.asks {
		d[i] = q.answers[i].take(at, q.asks[i])
		ok = ok && d[i].OK
	}
	for i := range q.asks {
		if !ok && d[i].OK { // another was refused
			d[i] = q.answers[i].take(at, limit.Ask{Limit: q.asks[i].Limit})
			d[i].OK, d[i].RetryAfter = true, 0
		}
	}
	return ok
}

// take decides on one.
func (s *answer) take(now time.Time, a limit.Ask) (d limit.Decision) {
	if !isList(a.Limit.Kind) {
		_, d = limit.Take(s.state, now, a)
		return d
	}
	var keeps interface {
		Take(time.Time, limit.Ask) limit.Decision
	} = new(limit.Log)
	if a.Limit.Kind == limit.SlidingSlots {
		keeps = new(limit.Slots)
	}
	before := a.Limit
	before.Count = mostCount // what was taken may have been so under another
	for _, t := range s.list {
		if t.n > 0 {
			keeps.Take(time.UnixMicro(t.at), limit.Ask{Limit: before, N: t.n, Debt: true})
		}
	}
	return keeps.Take(now, a)
}
