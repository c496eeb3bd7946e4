package memory

import (
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TakeAt decides as Take does, at the time now in place of the present: for
// replays of logs and for tests. The clock of the Store starts with the first
// decision, and a time before that counts as the start, so times should rise. A
// Store that is asked by TakeAt must be asked by nothing else. It is safe for
// concurrent use, and its errors are those of Take.
func (m *Store) TakeAt(now time.Time, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	t := m.tab.Load()
	if t == nil {
		t = m.firstTable(now)
	}
	if now.Before(t.base) {
		now = t.base
	}
	if len(a) == 1 && len(d) == 1 {
		d[0] = m.oneAt(now, &a[0])
		return d[0].OK, nil
	}
	if err := limit.CheckAsks(a, d); err != nil {
		return false, err
	}
	return m.takeAll(now, a, d), nil
}

// oneAt decides a at the time at.
func (m *Store) oneAt(at time.Time, a *limit.Ask) (d limit.Decision) {
	t, p := m.table(), m.limits.get(&a.Limit)
	h, now := t.hash(a.Key), int64(t.since(at))
	if a.Min <= 0 && !a.Debt && (t.takeFast(p, h, now, a.N, &d) || t.takeFirst(p, h, now, a.N, &d)) {
		d.At = at
		return d
	}
	return m.takeOne(p, h, at, a)
}
