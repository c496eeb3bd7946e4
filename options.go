package throttle

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// CallOptions are the options of one call, carried by its context: see
// [WithOptions]. The zero value changes nothing.
type CallOptions struct {
	// Priority selects the weight, of [Throttle.Weights], that the call waits
	// with. If zero, Normal.
	Priority load.Priority
	// MaxWait bounds the time that the call spends in line and between tries,
	// from when Do is called: when its turn, or that of a retry, comes later,
	// or is forecast to, the call is given up with context.DeadlineExceeded. A
	// running function is not interrupted. If zero, [Throttle.MaxWait]; below
	// zero, only the deadline of the context counts.
	MaxWait time.Duration
	// Once makes the call once, without a retry, however it ends.
	Once bool
	// Key is the key by which calls of one priority take turns (fair queueing),
	// so that one with many calls does not keep out one with few. Calls
	// without one share the empty key. Beyond 1000 keys that wait with one
	// priority, the newest share one turn.
	Key string
	// Cost is the estimated cost, in the unit of the limit, such as tokens. If
	// zero or below, 1. The actual cost is in the Report of its [Result], see
	// [Throttle.DoResult].
	Cost int64
	// Needs are the scopes that the call is subject to besides the Throttle's
	// own limit. If empty, none. While calls wait with many different sets of them,
	// each call and each start takes time in proportion: about 20 µs for a
	// thousand.
	Needs []Need
}

// Need makes a call subject to a scope: a limit that only some calls of a
// Throttle share, such as that of a route, a table or a token, or another
// dimension of the same limit, such as tokens a minute beside requests a
// minute. A call starts when the Throttle's own limit and all its scopes admit
// it, and is charged to all of them or to none.
type Need struct {
	// Scope is the name of the scope. It appears in logs: hash what is secret.
	Scope string
	// Cost is the estimated cost of the call in this scope. If zero or below, 1.
	Cost int64
}

type optionsKey struct{}

// WithOptions returns a copy of ctx that carries o, replacing any options that
// ctx had. They apply to each Throttle that a call with it passes, also through
// a throttlehttp.Transport.
func WithOptions(ctx context.Context, o CallOptions) context.Context {
	return context.WithValue(ctx, optionsKey{}, o)
}

// OptionsOf returns the options that ctx carries, zero if there are none.
func OptionsOf(ctx context.Context) CallOptions {
	o, _ := ctx.Value(optionsKey{}).(CallOptions)
	return o
}

// scopeOf finds or makes the scope of that name, and keeps it until w is done.
// Caller holds mu.
func (t *Throttle) scopeOf(w *waiter, name string) *pace.Scope {
	for _, s := range w.scopes {
		if s.name == name {
			return &s.of
		}
	}
	s, _ := t.scopes.use(name, t.MaxScopes)
	w.scopes = append(w.scopes, s)
	t.makeScope(s)
	return &s.of
}

// makeScope makes the Control of s, unless it has one. Caller holds mu.
func (t *Throttle) makeScope(s *named[pace.Scope]) {
	if s.of.Control != nil {
		return
	}
	s.of.Name = s.name // it is new, or NewScope has panicked
	if t.NewScope != nil {
		s.of.Control = t.NewScope(s.name)
	}
	if s.of.Control == nil {
		s.of.Control = new(pace.Adaptive)
	}
}

// need makes the ticket of w subject to these scopes. Caller holds mu.
func (t *Throttle) need(w *waiter, needs []Need) {
	for _, n := range needs {
		w.needs = addNeed(w.needs, pace.Need{Scope: t.scopeOf(w, n.Scope), Cost: n.Cost})
	}
	w.ticket.Needs = w.needs
}

// addNeed inserts n into needs, which are sorted by name, unless it is there.
func addNeed(needs []pace.Need, n pace.Need) []pace.Need {
	i, found := slices.BinarySearchFunc(needs, n, func(a, b pace.Need) int {
		return strings.Compare(a.Scope.Name, b.Scope.Name)
	})
	if found {
		return needs
	}
	return slices.Insert(needs, i, n)
}

// maxTold bounds the scopes that one call learns of besides those that it
// named.
const maxTold = 16

// mayLearn reports whether w is subject to that scope already, or may become
// so.
func (w *waiter) mayLearn(scope string) bool {
	return len(w.scopes) < len(w.needs)+maxTold ||
		slices.ContainsFunc(w.scopes, func(s *named[pace.Scope]) bool { return s.name == scope })
}

// learnScopes teaches scopes what the answer to w said of them, and returns the
// report for the gate. A retry is subject to all of them, and starts no earlier
// than each of them said. Caller holds mu.
func (t *Throttle) learnScopes(now time.Time, w *waiter, r pace.Report) pace.Report {
	retry := w.ticket.Needs
	for _, s := range binding(w.last.Scopes) {
		s.Report = t.believe(s.Report)
		refused := s.Report.Verdict == pace.Throttled
		if r.Verdict == pace.Throttled && refused {
			r.After = max(r.After, s.Report.After)
		}
		if s.Scope == "" {
			w.ticket.Elsewhere = w.ticket.Elsewhere || refused
			continue
		}
		if !w.mayLearn(s.Scope) {
			continue
		}
		n := pace.Need{Scope: t.scopeOf(w, s.Scope), Cost: s.Cost}
		i := slices.IndexFunc(w.ticket.Needs, func(have pace.Need) bool { return have.Scope == n.Scope })
		if i >= 0 {
			w.ticket.Needs[i].Said = pace.Some(s.Report)
			continue
		}
		w.ticket.Elsewhere = w.ticket.Elsewhere || refused
		t.gate.Learn(now, n, w.sent, s.Report)
		if len(retry) == len(w.ticket.Needs) {
			retry = slices.Clone(retry)
		}
		retry = addNeed(retry, n)
	}
	if len(retry) > len(w.ticket.Needs) {
		for i := range retry {
			retry[i].Said = pace.Opt[pace.Report]{}
		}
		w.ticket.Retry = retry
	}
	return r
}

// binding returns one result for each scope: of several, as of the tokens of a
// minute and of a day, that which refused, or else leaves least. It does not
// change all.
func binding(all []ScopeResult) []ScopeResult {
	if len(all) < 2 {
		return all
	}
	kept := make([]ScopeResult, 0, len(all))
	for _, s := range all {
		i := slices.IndexFunc(kept, func(k ScopeResult) bool { return k.Scope == s.Scope })
		if i < 0 {
			kept = append(kept, s)
			continue
		}
		cost := cmp.Or(kept[i].Report.Cost, s.Report.Cost)
		if tighter(s.Report, kept[i].Report) {
			kept[i] = s
		}
		kept[i].Report.Cost = cost
	}
	return kept
}

// tighter reports whether a binds more than b, of the same answer.
func tighter(a, b pace.Report) bool {
	if refused := a.Verdict == pace.Throttled; refused != (b.Verdict == pace.Throttled) {
		return refused
	}
	if a.After != b.After {
		return a.After > b.After
	}
	left, other := a.Hints.Remaining, b.Hints.Remaining
	return left.OK && (!other.OK || left.V < other.V)
}

// leaveScopes releases the scopes of w. Caller holds mu.
func (w *waiter) leaveScopes(t *Throttle) {
	for _, s := range w.scopes {
		t.scopes.leave(s, t.MaxScopes)
	}
	clear(w.scopes)
	clear(w.needs)
	w.scopes, w.needs = w.scopes[:0], w.needs[:0]
	w.ticket.Needs, w.ticket.Retry = nil, nil
}
