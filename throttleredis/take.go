package throttleredis

import (
	"context"

	"github.com/throttle-go/throttle/limit"
)

// Take charges every ask of a or none of them, and writes the decision about a[i]
// to d[i]; ok reports whether all pass. An error is an [*Error], or wraps
// [limit.ErrAsks] if a itself is wrong. All keys must be in one slot, see Slots,
// but those of limits that remember nothing. There may be at most 255 asks.
//
// A Count or Burst above 2^50 is an error, and so is a Period, or a time to
// refill a Burst, above 71 years: Lua cannot count them exactly.
func (s *Store) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if err := check(a, d); err != nil {
		return false, err
	}
	var few [2]item // on the stack: most Takes have one key or two
	r, err := s.plan(a, few[:])
	if err != nil {
		return false, err
	}
	reply, err := s.send(ctx, &r)
	if err != nil {
		return false, err
	}
	r.read(&reply)
	return r.decide(d), nil
}

// A request is one Take, from plan to decide.
type request struct {
	asks  []limit.Ask
	items []item // one for each of asks
	sent  int    // how many of them are sent
	slot  int    // of all keys that are sent
	extra byte   // flags of all asks: refused by a limit that allows nothing, convert

	// Microseconds of Unix time, by the clock of Redis.
	now       int64 // of the decision
	carriedAt int64 // of the states that were carried over; zero: there are none
}

// An item is what a request has for one ask.
type item struct {
	limit   *prepared // nil: it remembers nothing, and is not sent
	carried *carried  // nil: the state was not carried over from another limit
	state   limit.State
	entries [2]entry // of a Log or Slots, instead of state
}

// An entry is n events at one time, in microseconds.
type entry struct{ at, n int64 }
