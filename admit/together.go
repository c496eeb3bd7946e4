package admit

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// BeginAll decides about several requests as one, each as Begin does: all of them are
// charged, or none. It fills the Admission of each, on which Done must be called
// whatever the decision. The requests may start if all are OK; if one is refused, the
// others say by OK whether they alone would pass.
//
// It costs one call of the Store for all, besides those for shadow rules, and one more where
// a refusal does not count, as by rules.Set.Kill. A Store that cannot decide about their keys
// together ([limit.ErrAsks]) is called for each request in turn: where two requests are about
// one key, or keys are in several slots of Redis. If one is refused then, those before it are
// charged, until GiveBack is called on them, and those behind it are not.
//
// The error is the first of those of Begin. All requests should have the same Version.
// Functions of the caller's, such as OnEvent, are called in coroutines ([iter.Pull]), one at a
// time, which end before BeginAll returns; if one of them panics, the Admissions are ended.
func (c *Control) BeginAll(ctx context.Context, q []Request, a []*Admission) error {
	switch {
	case ctx == nil:
		panic("admit: Control.BeginAll: the context is nil")
	case len(q) != len(a):
		panic("admit: Control.BeginAll: requests and Admissions differ in number")
	case len(q) == 1:
		return c.BeginIn(ctx, q[0], a[0])
	}
	c.once.Do(c.setUp)
	t := together{store: c.store(), parts: make([]part, len(q))}
	defer t.end()
	for i := range t.parts {
		p := &t.parts[i]
		p.of, p.Admission = &t, a[i]
		p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
			p.yield = yield
			p.failed = c.beginIn(ctx, q[i], p.Admission, p)
		})
		p.goOn()
	}
	return t.decide()
}

// together is several decisions that share a call of the Store. Each runs in a coroutine
// up to its first Take, waits there for the others, and goes on with its part of the
// answer: so it is the code of one decision that decides.
type together struct {
	store   store.Store
	parts   []part
	refused bool  // one of them is: nothing is charged any more
	failed  error // the first error of one of them
	whole   bool  // all have ended
}

// part is one of the decisions, and the Store by which it decides.
type part struct {
	*Admission
	of     *together
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool // waits for the others
	waits  bool                // in its first Take
	asked  bool                // that has begun
	failed error               // the error of the Admission

	ctx       context.Context // of the first Take, as are those below
	asks      []limit.Ask
	decisions []limit.Decision
	ok        bool
	err       error
}

var errCutShort = errors.New("admit: another request of the same decision panicked")

// Take waits for the Takes of the others and returns the answer to all of them. Further
// Takes, of shadow rules, go to the Store.
func (p *part) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	if p.asked {
		return p.of.take(ctx, a, d)
	}
	p.asked, p.ctx, p.asks, p.decisions = true, ctx, a, d
	if !p.yield(struct{}{}) {
		return false, errCutShort
	}
	return p.ok, p.err
}

// goOn runs p up to its first Take, or from there to its end.
func (p *part) goOn() {
	if _, p.waits = p.next(); p.waits {
		return
	}
	p.of.failed = cmp.Or(p.of.failed, p.failed)
	p.of.refused = p.of.refused || p.failed == nil && !p.OK
}

// end ends the coroutines, which have ended but after a panic.
func (t *together) end() {
	for i := range t.parts {
		if p := &t.parts[i]; p.stop != nil && !t.whole {
			p.stop()
			p.Forget()
		}
	}
}

// decide asks the Store for all parts that wait, and lets them go on.
func (t *together) decide() error {
	for t.ask() {
	}
	t.whole = true
	return t.failed
}

// ask asks the Store once, and reports whether some parts still wait: those that would
// pass, and were not charged because of others, none of which is refused for it, as by a
// shadow rule, or where nothing is (see rules.Set.Kill).
func (t *together) ask() (again bool) {
	var asks []limit.Ask
	var ctx context.Context // all have the values of one version of the Rules
	for i := range t.parts {
		if p := &t.parts[i]; p.waits {
			asks, ctx = append(asks, p.asks...), p.ctx
		}
	}
	if len(asks) == 0 {
		return false
	}
	decisions := make([]limit.Decision, len(asks))
	ok, err := false, limit.CheckAsks(asks, decisions)
	if err == nil {
		ok, err = t.take(ctx, asks, decisions)
	}
	if errors.Is(err, limit.ErrAsks) {
		t.askApart()
		return false
	}
	refused := t.tell(decisions, err)
	if !ok && err == nil && refused > 0 && !t.refused {
		return true
	}
	t.goOn(func(*part) bool { return true })
	return false
}

// askApart asks the Store about each part alone.
func (t *together) askApart() {
	t.goOn(func(p *part) bool {
		if t.failed != nil { // it has been waited for long enough
			p.err = t.failed
		} else {
			p.ok, p.err = t.take(p.ctx, p.asks, p.decisions)
		}
		return true
	})
}

// tell gives each part its decisions, and lets those go on, and returns their number, that
// are refused by them.
func (t *together) tell(decisions []limit.Decision, err error) (refused int) {
	return t.goOn(func(p *part) bool {
		decisions = decisions[copy(p.decisions, decisions):]
		p.ok, p.err = err == nil && !slices.ContainsFunc(p.decisions, refuses), err
		return !p.ok
	})
}

// goOn lets the parts go on that wait, and for which may is true, and returns their number.
func (t *together) goOn(may func(*part) bool) (n int) {
	for i := range t.parts {
		if p := &t.parts[i]; p.waits && may(p) {
			p.goOn()
			n++
		}
	}
	return n
}

func refuses(d limit.Decision) bool { return !d.OK }

// take asks the Store. Where the decision is a refusal already, it asks about a limit
// that allows nothing as well, so that nothing is charged.
func (t *together) take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	if !t.refused {
		return t.store.Take(ctx, a, d)
	}
	all := make([]limit.Decision, len(a)+1)
	_, err := t.store.Take(ctx, append(slices.Clone(a), limit.Ask{Limit: nothing, N: 1}), all)
	copy(d, all)
	return err == nil && !slices.ContainsFunc(d, refuses), err
}

// nothing is a limit that allows nothing.
var nothing = limit.Limit{Period: time.Second}
