package throttle

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// CallOptions are what one call wishes for. Zero fields ask for nothing.
type CallOptions struct {
	// Priority says how important the call is: which of the [Throttle.Weights]
	// counts while it waits. Zero counts as Normal.
	Priority load.Priority
	// MaxWait is the longest it will wait in line and between tries, from when
	// Do is called: when its turn, or that of a retry, is foreseen to come
	// later, or does, it is given up with context.DeadlineExceeded. A function
	// that runs is not interrupted.
	MaxWait time.Duration
	// Once makes no retry, however the call ends.
	Once bool
	// Key is whose call it is: those of one priority take turns by key, so that
	// one with many calls does not keep out one with few. Beyond 1000 keys that
	// wait with one priority, the newest share one turn.
	Key string
	// Cost is the estimated cost, in the unit of the limit, such as tokens. If
	// zero, 1. The actual cost is in the Report of its [Result], see
	// [Throttle.DoResult].
	Cost int64
	// Needs are limits that the call comes under besides the Throttle's own.
	Needs []Need
}

// Need is what a call takes of a limit that only some of the calls of a Throttle
// come under: that of a route, a table or a token, or another dimension of the
// same limit, such as tokens a minute beside requests a minute. A call starts
// when the Throttle's own limit and all that it needs let it, and takes of all
// of them or of none.
type Need struct {
	// Scope is the name of the limit. It is seen by logs: hash what is secret.
	Scope string
	// Cost is what the call is estimated to cost there. If zero, 1.
	Cost int64
}

type termsKey struct{}

// WithOptions is ctx for calls on these terms, instead of those that ctx had. They hold
// for whatever Throttle a call comes to, through a throttlehttp.Transport too.
func WithOptions(ctx context.Context, t CallOptions) context.Context {
	return context.WithValue(ctx, termsKey{}, t)
}

// OptionsOf are those of the calls that are made with ctx.
func OptionsOf(ctx context.Context) CallOptions {
	t, _ := ctx.Value(termsKey{}).(CallOptions)
	return t
}

// scopeOf finds or makes the scope of that name, for w until it is done. Caller
// holds mu.
func (t *Throttle) scopeOf(w *waiter, name string) *pace.Scope {
	for _, s := range w.scopes {
		if s.name == name {
			return &s.of
		}
	}
	s, _ := t.scopes.use(name, t.MaxScopes)
	w.scopes = append(w.scopes, s)
	if s.of.Control == nil { // new, or NewScope has panicked
		s.of.Name = name
		if t.NewScope != nil {
			s.of.Control = t.NewScope(name)
		}
		if s.of.Control == nil {
			s.of.Control = new(pace.Adaptive)
		}
	}
	return &s.of
}

// need makes the ticket of w take of these scopes. Caller holds mu.
func (t *Throttle) need(w *waiter, needs []Need) {
	for _, n := range needs {
		w.needs = addNeed(w.needs, pace.Need{Scope: t.scopeOf(w, n.Scope), Cost: n.Cost})
	}
	w.ticket.Needs = w.needs
}

// addNeed adds n to needs, which are in the order of their names, unless it is
// there.
func addNeed(needs []pace.Need, n pace.Need) []pace.Need {
	i, found := slices.BinarySearchFunc(needs, n, func(a, b pace.Need) int {
		return strings.Compare(a.Scope.Name, b.Scope.Name)
	})
	if found {
		return needs
	}
	return slices.Insert(needs, i, n)
}

// mostTold is how many scopes besides those that it named one call learns of.
const mostTold = 16

// mayHeed reports whether w is subject to that scope already, or may become so.
func (w *waiter) mayHeed(scope string) bool {
	return len(w.scopes) < len(w.needs)+mostTold ||
		slices.ContainsFunc(w.scopes, func(s *named[pace.Scope]) bool { return s.name == scope })
}

// heed teaches scopes what the answer to w said of them, and returns the report
// for the gate. A retry is subject to all of them, and no earlier than any of
// them said. Caller holds mu.
func (t *Throttle) heed(now time.Time, w *waiter) pace.Report {
	r, retry := w.last.Report, w.ticket.Needs
	for _, s := range w.last.Scopes {
		refused := s.Report.Verdict == pace.Throttled
		if r.Verdict == pace.Throttled && refused {
			r.After = max(r.After, s.Report.After)
		}
		if s.Scope == "" {
			w.ticket.Elsewhere = w.ticket.Elsewhere || refused
			continue
		}
		if !w.mayHeed(s.Scope) {
			continue
		}
		n := pace.Need{Scope: t.scopeOf(w, s.Scope), Cost: s.Cost}
		i := slices.IndexFunc(w.ticket.Needs, func(have pace.Need) bool { return have.Scope == n.Scope })
		if i >= 0 {
			w.ticket.Needs[i].Said = pace.Some(s.Report)
			continue
		}
		w.ticket.Elsewhere = w.ticket.Elsewhere || refused
		n.Scope.Learn(now, n, w.sent, s.Report)
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

// leaveScopes lets go of the scopes of w. Caller holds mu.
func (w *waiter) leaveScopes(t *Throttle) {
	for _, s := range w.scopes {
		t.scopes.leave(s, t.MaxScopes)
	}
	clear(w.scopes)
	clear(w.needs)
	w.scopes, w.needs = w.scopes[:0], w.needs[:0]
	w.ticket.Needs, w.ticket.Retry = nil, nil
}
