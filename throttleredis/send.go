package throttleredis

import (
	"context"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// maxTries bounds how often a request is sent because the limit of a key, or the
// calendar window, has just changed.
const maxTries = 8

// carries is how often a state is carried over here. Where it changes meanwhile,
// as while other processes ask under another limit, the script does it after
// that, and rounds up to microseconds.
const carries = 2

var errTries = &Error{Err: fmt.Errorf("the limit or the calendar window of a key changed %d times meanwhile: does the clock of Redis jump?", maxTries)}

// send sends r and returns the reply that answers all of it. It sends r again if
// Redis has a state that was written under another limit, which only Go can
// carry over, or if its clock is in a calendar window that was not expected.
func (s *Store) send(ctx context.Context, r *request) (reply, error) {
	if r.sent == 0 {
		return reply{now: time.Now().UnixMicro()}, nil
	}
	sl, err := s.slot(r.slot)
	if err != nil {
		return reply{}, err
	}
	var clock time.Time // about that of Redis
	for try := range maxTries {
		if try == carries {
			r.extra |= flagConvert
		}
		now := time.Now()
		if clock.IsZero() {
			clock = now.Add(s.offset())
		}
		c := r.command(sl.fence, now, clock)
		reply, err := s.exchange(ctx, sl, &c)
		if err != nil {
			return reply, err
		}
		clock = time.UnixMicro(reply.now)
		s.setOffset(clock.Sub(now))
		if again, err := r.carryOver(sl.fence, &reply); err != nil || !again {
			return reply, err
		}
		if try+1 >= carries {
			r.forget()
		}
	}
	return reply{}, errTries
}

// command encodes r. now is the time here, clock about the time in Redis.
func (r *request) command(fence string, now, clock time.Time) command {
	c := newCommand(r.sent)
	c.created, c.carriedAt = now, r.carriedAt
	names, asks := c.names(), c.asks()
	k := 0
	for i := range r.items {
		a, it := &r.asks[i], &r.items[i]
		if it.limit == nil {
			continue
		}
		ask := it.limit.single
		if ask == nil || r.sent > 1 || a.N != 1 || a.Min > 1 || a.Debt || r.extra != 0 || it.carried != nil {
			size := 0
			if k == 0 {
				size = r.sent
			}
			ask = encode(a, it.limit.fingerprint, size, r.extra, it.carried, clock)
		}
		names[k], asks[k] = keyName(fence, a.Key, a.Limit.Kind), ask
		if a.Limit.Kind == limit.SlidingLog {
			c.mode = modeLogs
		}
		k++
	}
	if r.sent == 1 && isPlain(asks[0].(string)) {
		c.mode = modePlain
	}
	return c
}

// isPlain reports whether short.lua can decide on an encoded ask: it takes from
// a token bucket and has no flags and no state carried over.
func isPlain(ask string) bool { return ask[0] == 1 && ask[1] == 0 && ask[ask[2]-1] == 0 }
