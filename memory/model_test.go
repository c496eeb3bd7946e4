package memory_test

import (
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// keepSomething is how many of memoryLimits, the first, keep something.
var keepSomething = len(memoryLimits) - 2

// A remembered is what the model knows of a key.
type remembered struct {
	limit.State
	apart apart // a Log or Slots instead
	under limit.Limit
	until time.Time // nothing is left to remember then
}

// apart is what keeps more than a State.
type apart interface {
	Take(now time.Time, a limit.Ask) limit.Decision
	Used(now time.Time, l limit.Limit) int64
}

func newApart(k limit.Kind) apart {
	switch k {
	case limit.SlidingLog:
		return new(limit.Log)
	case limit.SlidingSlots:
		return new(limit.Slots)
	}
	return nil
}

func (r remembered) String() string {
	return fmt.Sprintf("%+v %+v under %v until %v", r.State, r.apart, r.under, r.until)
}

// carried is what is known of a key when it is asked for under a limit. It
// shares nothing with r.
func (r remembered) carried(now time.Time, to limit.Limit) remembered {
	c := r
	switch old := r.apart.(type) {
	case *limit.Log:
		c.apart = old.Clone()
	case *limit.Slots:
		c.apart = old.Clone()
	}
	if to == r.under || to.Unlimited() || to.Count <= 0 {
		return c
	}
	c.under = to
	into := newApart(to.Kind)
	switch {
	case r.apart == nil && into == nil:
		c.State = limit.Change(r.State, now, r.under, to)
		return c
	case to.Kind == r.under.Kind && r.until.After(now):
		return c
	}
	used := limit.Used(r.State, now, r.under)
	if r.apart != nil {
		used = c.apart.Used(now, r.under)
	}
	c.State, c.apart = limit.State{}, into
	c.take(now, limit.Ask{Limit: to, N: used, Debt: true})
	return c
}

// keeps reports whether a refusal under another limit leaves r as it is: it has
// used more than that can owe, and forgets it within twice the time of that.
func (r remembered) keeps(now time.Time, to limit.Limit) bool {
	if to == r.under || to.Period <= 0 || to.Count <= 0 || !r.until.After(now) || r.apart != nil && to.Kind == r.under.Kind {
		return false
	}
	used := limit.Used(r.State, now, r.under)
	if r.apart != nil {
		used = r.apart.Used(now, r.under)
	}
	refill := to.Period
	if to.Kind == limit.TokenBucket {
		refill = time.Duration(float64(to.Period) * float64(to.Max()) / float64(to.Count)).Truncate(time.Microsecond)
	}
	return used > 2*to.Max() && r.until.Sub(now) <= 2*refill
}

func (r *remembered) take(now time.Time, a limit.Ask) (d limit.Decision) {
	if r.apart != nil && a.Limit.Kind == r.under.Kind && a.Limit.Count > 0 {
		d = r.apart.Take(now, a)
	} else {
		r.State, d = limit.Take(r.State, now, a)
	}
	r.until = now.Add(d.ResetAfter)
	return d
}

// memoryModel is package limit with a map.
type memoryModel map[string]remembered

// take answers as a Memory must.
func (m memoryModel) take(now time.Time, a []limit.Ask, d []limit.Decision) (ok bool) {
	ok = true
	for i := range a {
		c := m[a[i].Key].carried(now, a[i].Limit)
		d[i] = c.take(now, a[i])
		ok = ok && d[i].OK
	}
	for i := range a {
		ask, passed := a[i], d[i].OK
		if !ok && passed {
			ask.N, ask.Min, ask.Debt = 0, 0, false
		}
		old := m[a[i].Key]
		c := old.carried(now, ask.Limit)
		d[i] = c.take(now, ask)
		if passed {
			d[i].OK, d[i].RetryAfter = true, 0
		}
		if !ok && old.keeps(now, a[i].Limit) {
			continue
		}
		if c.under == a[i].Limit && (c.under == old.under || a[i].N != 0) {
			m[a[i].Key] = c
		}
	}
	return ok
}
