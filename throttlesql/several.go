package throttlesql

import (
	"context"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// several charges more than one key by several.sql, if all are likely to pass.
// It is done if it has; then all do.
func (s *Store) several(ctx context.Context, t *statements, q *question) (done bool, err error) {
	if len(q.sent) < 2 || q.refused {
		return false, nil
	}
	for _, at := range q.sent {
		p, n := q.limits[at], q.asks[at].N
		if p.kind > kindCalendar || n < 1 || n > p.most || s.refuses(q.keys[at]) {
			return false, nil
		}
	}
	sent := time.Now().UnixMicro()
	keys, lims, list, charges := q.charges(sent + s.ahead.Load())
	var at, added int64
	var after *string
	if err := s.Query(ctx, t.several, keys, lims, list).Scan(&at, &after, &added); err != nil {
		return false, failed(err)
	}
	s.ahead.Store(at - sent)
	if after == nil {
		return false, nil
	}
	q.at, q.ok, q.states = time.UnixMicro(at), true, make([][4]int64, len(q.asks))
	rest := strings.Trim(*after, "{}")
	for i, k := range q.sent {
		var now [2]int64
		if !cut(&rest, now[:]) {
			return false, &Error{Charged: true, Err: errReply}
		}
		before := charges[i].before(limit.State{T: now[0], N: now[1]}, at)
		q.states[k] = [4]int64{before.T, before.N}
	}
	if added > 0 {
		s.grown(ctx, t, added)
	}
	return true, nil
}

// charges are the arguments of several.sql.
func (q *question) charges(now int64) (keys, lims, list string, charges []charge) {
	var k, l, n []byte
	for i, at := range q.sent {
		p := q.limits[at]
		c := p.chargeOf(q.asks[at].N, now)
		charges = append(charges, c)
		k, l = element(k, i, hexOf(q.keys[at])), element(l, i, p.text)
		for j, number := range [...]int64{c.cost, c.rem, c.count, c.unit, c.add, c.ahead, c.atMost, c.used, c.from, c.to, p.fenced(c.from)} {
			n = number64(n, i+j, number)
		}
	}
	return string(append(k, '}')), string(append(l, '}')), string(append(n, '}')), charges
}
