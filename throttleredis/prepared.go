package throttleredis

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// prepared is a limit with what every question about it would otherwise work
// out.
type prepared struct {
	limit limit.Limit
	print string // its fingerprint
	one   any    // the question whether one may pass, alone; nil: it depends on the time
}

// limits are those asked about lately. The zero value is ready.
type limits [64]atomic.Pointer[prepared]

// get is the limit of a prepared, or an error if it cannot be counted.
func (x *limits) get(a *limit.Ask) (*prepared, error) {
	l := &a.Limit
	h := uint64(l.Count) ^ uint64(l.Period)<<20 ^ uint64(l.Burst)<<40 ^ uint64(l.Kind)<<60
	spot := &x[h*0x9e3779b97f4a7c15>>58] // 2^64 over the golden ratio spreads over the high bits
	if p := spot.Load(); p != nil && p.limit == *l {
		return p, nil
	}
	if what := check(l); what != "" {
		return nil, fmt.Errorf("throttleredis: limit of key %.100q: %s", a.Key, what)
	}
	p := &prepared{limit: *l, print: fingerprint(l)}
	if l.Kind != limit.CalendarWindow {
		p.one = encode(&limit.Ask{Limit: *l, N: 1}, p.print, 1, false, nil, time.Time{})
	}
	spot.Store(p)
	return p, nil
}
