package throttlesql

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

// tries is how often a question is put again because the limit of a key, or the
// month, has just changed.
const tries = 8

var errReply = errors.New("what PostgreSQL answered is not what throttle_take answers: is Query the client's own function?")

// ask puts the whole question, by take.sql.
func (s *Store) ask(ctx context.Context, t *statements, q *question) error {
	var carried map[int]carry
	var foundAt int64
	var r reply
	for range tries {
		sent := time.Now()
		now := sent.UnixMicro() + s.ahead.Load()
		if r.at != 0 {
			now = r.at // the clock stood there: the window after it is asked for too
		}
		keys, lims, olds, numbers := q.arguments(carried, now)
		r = reply{}
		err := s.Query(ctx, t.take, keys, lims, olds, foundAt, numbers).Scan(&r.at, &r.ok, &r.states, &r.under, &r.added)
		if err != nil {
			return failed(err)
		}
		s.ahead.Store(r.at - sent.UnixMicro())
		if err := q.read(&r); err != nil {
			return err
		}
		if r.added > 0 {
			s.grown(ctx, t, r.added)
		}
		if r.ok != nil {
			q.ok = *r.ok
			return nil
		}
		carried, foundAt = q.carry(&r)
	}
	return errTries
}

// reply is what throttle_take returns.
type reply struct {
	at     int64
	ok     *bool
	states string
	under  *string
	added  int64
}

// read takes the states of the keys that were sent.
func (q *question) read(r *reply) error {
	q.at, q.states = time.UnixMicro(r.at), make([][4]int64, len(q.asks))
	list := strings.Trim(r.states, "{}")
	for _, at := range q.sent {
		if !cut(&list, q.states[at][:]) {
			return &Error{Charged: true, Err: errReply}
		}
	}
	return nil
}

// cut reads the next numbers off a list.
func cut(list *string, n []int64) (ok bool) {
	for i := range n {
		text, rest, _ := strings.Cut(*list, ",")
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return false
		}
		*list = rest
	}
	return true
}
