package throttleredis

import (
	"time"

	"github.com/throttle-go/throttle/limit"
)

// plan finds out which of a must be sent, and to which slot. A limit that
// remembers nothing is not sent; one that allows nothing refuses the rest. The
// items are those of few, if it has enough.
func (s *Store) plan(a []limit.Ask, few []item) (request, error) {
	r := request{asks: a}
	if len(a) <= len(few) {
		r.items = few[:len(a)]
	} else {
		r.items = make([]item, len(a))
	}
	for i := range a {
		if !remembers(&a[i].Limit) {
			_, d := limit.Take(limit.State{}, time.Time{}, a[i])
			if !d.OK {
				r.extra |= flagRefused
			}
			continue
		}
		p, err := s.limits.get(&a[i])
		if err != nil {
			return request{}, err
		}
		r.items[i].limit = p
		r.sent++
	}
	if r.sent == 0 {
		return r, nil
	}
	var err error
	r.slot, err = s.commonSlot(&r)
	return r, err
}
