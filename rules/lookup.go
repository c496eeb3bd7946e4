package rules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Overrides looks up the overrides of more keys than a file may list, in a
// database of customers say, and remembers them. Its method Override is a
// [Request.Override]. It is safe for concurrent use and starts no goroutine; the
// fields must not change, nor it be copied, after first use.
type Overrides struct {
	// Find returns the override of a key of a rule; not ok if it has none. It
	// must return soon after ctx is done. It is called concurrently, but for one
	// key once at a time.
	Find func(ctx context.Context, rule string, key []string) (o Override, ok bool, err error)
	// TTL is how long a result is used, also the result that there is no override;
	// after an error, a tenth of that. When it has passed, one request looks the
	// key up again while others use the old result. If zero or below, a minute.
	TTL time.Duration
	// Timeout bounds a lookup. If zero or below, 20 ms.
	Timeout time.Duration
	// Max bounds the results remembered; beyond it, those longest unused are
	// forgotten. If zero or below, 100,000.
	Max int
	// OnError is called with the error of each lookup that failed, in the
	// goroutine of the request: the old result counts, or, if there is none, the
	// rule's own limits. If nil, nothing is called.
	OnError func(error)

	mu         sync.Mutex
	young, old map[string]*lookup // together at most Max
}

// lookup is the result for one key.
type lookup struct {
	turn     chan struct{} // closed when the first lookup has ended
	override Override
	ok       bool
	until    time.Time // then it is looked up again
	busy     bool      // somebody does
}

const (
	defaultTTL     = time.Minute
	defaultLookup  = 20 * time.Millisecond
	defaultLookups = 100_000
)

// Override returns the override of a key of a rule; not ok if it has none, or if
// that cannot be found out in time.
func (x *Overrides) Override(ctx context.Context, rule string, key []string) (o Override, ok bool) {
	if x == nil || x.Find == nil {
		return Override{}, false
	}
	timeout := positive(x.Timeout, defaultLookup)
	l, first, again := x.claim(name(rule, key), time.Now())
	if first || again { // the result is for others too, even if this caller has gone
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return x.look(ctx, l, first, rule, key)
	}
	if !l.wait(ctx, timeout) {
		return Override{}, false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return l.override, l.ok
}

// wait waits for the first result; not ok if it does not come in time.
func (l *lookup) wait(ctx context.Context, most time.Duration) (ok bool) {
	select {
	case <-l.turn: // as a rule: no timer is needed
		return true
	default:
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-l.turn:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func positive(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// name tells rules and keys apart, whatever is in them.
func name(rule string, key []string) string { return fmt.Sprintf("%s/%q", rule, key) }

// claim returns the result for a key, and whether the caller has to look it up:
// for the first time, or again.
func (x *Overrides) claim(name string, now time.Time) (l *lookup, first, again bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l = x.young[name]
	if l == nil {
		l = x.old[name]
		first = l == nil
		if first {
			l = &lookup{turn: make(chan struct{}), busy: true}
		}
		x.keep(name, l)
	}
	if !first && !l.busy && !now.Before(l.until) {
		l.busy, again = true, true
	}
	return l, first, again
}

// keep remembers l as used. When half of Max has been used since, those not used
// since are forgotten.
func (x *Overrides) keep(name string, l *lookup) {
	most := x.Max
	if most <= 0 {
		most = defaultLookups
	}
	if x.young == nil || len(x.young) >= max(most/2, 1) {
		x.old, x.young = x.young, map[string]*lookup{}
	}
	if most == 1 {
		x.old = nil // there is no half to keep
	}
	delete(x.old, name)
	x.young[name] = l
}

// look looks a key up and shares the result.
func (x *Overrides) look(ctx context.Context, l *lookup, first bool, rule string, key []string) (o Override, ok bool) {
	err := errors.New("the function panicked")
	defer func() { // a panic of the function must not leave the others waiting
		x.mu.Lock()
		ttl := positive(x.TTL, defaultTTL)
		if err == nil {
			l.override, l.ok = o, ok
		} else {
			ttl /= 10
		}
		l.busy, l.until = false, time.Now().Add(ttl)
		o, ok = l.override, l.ok
		if first {
			close(l.turn)
		}
		x.mu.Unlock()
		if err != nil && x.OnError != nil {
			x.OnError(lineError{fmt.Errorf("rules: override of rule %s: %w", rule, err)})
		}
	}()
	o, ok, err = x.Find(ctx, rule, key)
	if what := o.flaw(); err == nil && ok && what != "" {
		err = errors.New(what)
	}
	return o, ok
}

// flaw returns what is wrong with an override that does not come from a file.
func (o *Override) flaw() string {
	for _, l := range o.Limits {
		if what := l.flaw(); what != "" {
			return what
		}
	}
	switch {
	case len(o.Limits) > maxLimits:
		return fmt.Sprintf("more than %d limits", maxLimits)
	case o.InFlight < 0:
		return "in_flight must be above zero"
	}
	return ""
}

// lookup returns what counts for the key at hand in place of a rule's terms, or
// nil.
func (q *question) lookup(ctx context.Context, r *rule) *terms {
	key := make([]string, len(r.parts))
	for i, part := range r.parts {
		if q.c.parts[part].kind == byAddress {
			key[i] = Network(q.address, q.c.bits.v4, q.c.bits.v6)
		} else {
			key[i], _ = q.value(part)
		}
	}
	o, ok := q.r.Override(ctx, r.name, key)
	if !ok || o.Ended(q.r.Now) || o.flaw() != "" {
		return nil
	}
	t := r.terms
	if len(o.Limits) > 0 {
		t.limits = make([]limit.Limit, len(o.Limits))
		for i, l := range o.Limits {
			t.limits[i] = limit.Limit(l)
		}
	}
	if o.InFlight > 0 {
		t.most = int64(o.InFlight)
	}
	return &t
}
