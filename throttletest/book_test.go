package throttletest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A book is a Store as simple as can be: one lock, and a page for each key that
// is never thrown away.
type book struct {
	// now is the clock. If nil, time.Now.
	now func() time.Time
	// keep is what becomes of a State before it is kept. If nil, nothing.
	keep func(s limit.State, a limit.Ask) limit.State

	mu   sync.Mutex
	keys map[string]*page
}

// A page is one key under one Kind.
type page struct {
	state limit.State
	log   limit.Log
	slots limit.Slots
}

func (b *book) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(a) != len(d) {
		return false, errors.New("book: lengths differ")
	}
	for i := range a {
		for j := range i {
			if a[i].Key == a[j].Key {
				return false, errors.New("book: one key twice")
			}
		}
	}
	now := time.Now()
	if b.now != nil {
		now = b.now()
	}
	return b.take(now, a, d), nil
}

func (b *book) take(now time.Time, a []limit.Ask, d []limit.Decision) bool {
	pages := make([]*page, len(a))
	ok := true
	for i := range a {
		pages[i] = b.page(a[i])
		ok = pages[i].passes(now, a[i]) && ok
	}
	for i, ask := range a {
		passed := pages[i].passes(now, ask)
		if !ok && passed && len(a) > 1 {
			ask = limit.Ask{Key: ask.Key, Limit: ask.Limit}
		}
		d[i] = pages[i].take(now, ask)
		if passed {
			d[i].OK, d[i].RetryAfter = true, 0
		}
		if b.keep != nil {
			pages[i].state = b.keep(pages[i].state, a[i])
		}
	}
	return ok
}

func (b *book) page(a limit.Ask) *page {
	kind := "state"
	if a.Limit.Kind == limit.SlidingLog || a.Limit.Kind == limit.SlidingSlots {
		kind = a.Limit.Kind.String()
	}
	if b.keys == nil {
		b.keys = map[string]*page{}
	}
	key := kind + "\x00" + strings.Clone(a.Key)
	if b.keys[key] == nil {
		b.keys[key] = new(page)
	}
	return b.keys[key]
}

func (p *page) take(now time.Time, a limit.Ask) (d limit.Decision) {
	switch a.Limit.Kind {
	case limit.SlidingLog:
		return p.log.Take(now, a)
	case limit.SlidingSlots:
		return p.slots.Take(now, a)
	}
	p.state, d = limit.Take(p.state, now, a)
	return d
}

func (p *page) passes(now time.Time, a limit.Ask) bool {
	left := p.take(now, limit.Ask{Limit: a.Limit})
	switch {
	case a.N == 0:
		return left.OK
	case a.Min > 0 && a.Min < a.N:
		return a.Debt || a.Min <= left.Remaining
	}
	return a.N < 0 || a.Debt || a.N <= left.Remaining
}
