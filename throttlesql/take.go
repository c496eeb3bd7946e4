package throttlesql

import (
	"context"
	"fmt"
	"strings"

	"github.com/throttle-go/throttle/limit"
)

// Take charges every ask of a or none of them, and writes the decision about
// a[i] to d[i]; ok reports whether all pass. An error is an [*Error], unless a
// itself or the Table is wrong. At most 1000 keys are decided on at once.
//
// When ctx ends, the client gives up; to be certain that PostgreSQL gives up too,
// set its statement_timeout and lock_timeout.
func (s *Store) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if err := check(a, d); err != nil {
		return false, err
	}
	var few fewItems // on the stack: most Takes have one key or two
	r := s.plan(a, &few)
	reply, err := s.send(ctx, &r)
	if err != nil {
		return false, r.explain(err)
	}
	if err := r.read(&reply); err != nil {
		return false, err
	}
	return s.decide(&r, d)
}

// explain names the keys in an error of PostgreSQL about what a row holds, which
// is nothing that a Store wrote.
func (r *request) explain(err error) error {
	e, ok := err.(*Error)
	if !ok || !strings.HasPrefix(stateOf(err), "22") {
		return err
	}
	keys := make([]string, 0, 3)
	for _, i := range r.sent[:min(len(r.sent), 3)] {
		keys = append(keys, fmt.Sprintf("%.100q", r.asks[i].Key))
	}
	return &Error{Charged: e.Charged, Err: fmt.Errorf("the row of a key, one of %d that begin with %s, holds what no Store writes: %w: delete it, and the key starts unused",
		len(r.sent), strings.Join(keys, ", "), e.Err)}
}

// A request is one Take, from plan to decide.
type request struct {
	asks    []limit.Ask
	items   []item // one for each of asks
	sent    []int  // those of items that are sent, by key
	refused bool   // by a limit that allows nothing

	now int64 // of the decision: microseconds of Unix time, by the clock of PostgreSQL
	ok  bool  // the decision of PostgreSQL
}

// An item is what a request has for one ask.
type item struct {
	limit   *prepared // nil: it remembers nothing, and is not sent
	key     string    // as in the table
	charge  charge    // as it was sent
	carried *carried  // nil: the state was not carried over from another limit
	state   limit.State
	entries [2]entry // of a Log or Slots, instead of state
}

// An entry is n events at one time, in microseconds.
type entry struct{ at, n int64 }

// fewItems has room for a small request.
type fewItems struct {
	items [2]item
	sent  [2]int
}
