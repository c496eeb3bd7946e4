package admit

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// Admission is the decision of a [Control] about one request, and what the
// request holds until Done.
type Admission struct {
	// Event is the decision.
	Event
	// OK reports whether the request may start.
	OK bool
	// Binding is the index of the limit that decided, -1 if none did, or if it
	// was refunded.
	Binding int

	control *Control
	ctx     context.Context
	charged charged
	hold    rules.Hold
	counted store.Hold
	pass    Pass
	busy    *store.Error // why there was no pass
	given   atomic.Bool  // what was charged is refunded
	one     struct {
		ask      [1]limit.Ask
		decision [1]limit.Decision
	}
}

// charged is a Store that records what it charged. Shadow rules are asked after
// the rules that count.
type charged struct {
	store     store.Store
	asks      []limit.Ask
	decisions []limit.Decision
	shadows   []limit.Ask // of the shadow rules that admitted it
	few       struct {    // the first of them, in one allocation with the Admission
		asks      [2]limit.Ask
		decisions [2]limit.Decision
	}
}

// Take charges a and records it.
func (c *charged) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	if ctx.Err() != nil { // the caller has gone: charge nothing
		return false, store.Ended(ctx, nil)
	}
	ok, err := c.store.Take(ctx, a, d)
	switch {
	case err != nil:
	case len(c.asks) == 0: // if there are only shadow rules, the first stands here
		c.asks, c.decisions = append(c.few.asks[:0], a...), append(c.few.decisions[:0], d...)
	case ok:
		for i, ask := range a {
			ask.N = d[i].N
			c.shadows = append(c.shadows, ask)
		}
	}
	return ok, err
}

// Done ends the request: it no longer counts as in flight, and the Shedder
// learns from how long it took. Further calls do nothing. It may be called from
// any goroutine.
func (a *Admission) Done() {
	a.release()
	if a.ctx.Err() == nil {
		a.pass.Release()
	} else { // it was cut short
		a.pass.Forget()
	}
}

// Forget ends the request as Done does, but teaches the Shedder nothing: for a
// request that panicked, or took long for a reason of its own, such as a stream.
func (a *Admission) Forget() {
	a.release()
	a.pass.Forget()
}

// Pass returns the permit of the Shedder that the request holds; the zero Pass if there is
// no Shedder. To Forget it before the request ends is for what follows and is no work of the
// service: a stream, or a wait for a slow caller.
func (a *Admission) Pass() Pass { return a.pass }

func (a *Admission) release() {
	a.hold.Release()
	a.counted.Release()
}

// GiveBack ends a request that was not served in the end: it is Done with a
// refund of what the request was charged, even if its context has ended. Further
// calls do nothing. The error is that of the Store; the tokens stay charged
// then.
func (a *Admission) GiveBack() error {
	a.Forget()
	return a.refund(a.ctx)
}

// refund no longer counts the request as in flight, and refunds what it was
// charged.
func (a *Admission) refund(ctx context.Context) error {
	if a.given.Swap(true) {
		return nil
	}
	a.release()
	var refunds []limit.Ask
	for i, ask := range a.charged.asks {
		if n := a.charged.decisions[i].N; n > 0 {
			ask.N = -n
			refunds = append(refunds, ask)
		}
	}
	for _, ask := range a.charged.shadows {
		if ask.N > 0 {
			ask.N = -ask.N
			refunds = append(refunds, ask)
		}
	}
	if len(refunds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, err := a.charged.store.Take(ctx, refunds, make([]limit.Decision, len(refunds)))
	return err
}

// patience bounds a refund, as the context of the request may have ended.
const patience = 5 * time.Second

// Context returns a copy of ctx that carries the charges of the Admission, for
// [Refund].
func (a *Admission) Context(ctx context.Context) context.Context {
	before, _ := ctx.Value(chargedKey{}).(*link)
	return context.WithValue(ctx, chargedKey{}, &link{a, before})
}

// chargedKey is the context key of a *link.
type chargedKey struct{}

// link is an Admission in a context, and those before it.
type link struct {
	*Admission
	before *link
}

// Refund gives back the charges of Controls of the Phase rules.Before for the
// request with ctx, see [Admission.Context], and no longer counts it as in
// flight there: for a caller that was limited by address and then authenticated.
// Further calls do nothing. Begin calls it for requests with a Client; call it
// yourself where no Control stands behind the authentication. The error is that
// of the Store. It is safe for concurrent use.
func Refund(ctx context.Context) error {
	l, _ := ctx.Value(chargedKey{}).(*link)
	var err error
	for ; l != nil; l = l.before {
		err = errors.Join(err, l.refund(ctx))
	}
	return err
}

// Refund gives back what a request like q is charged by its Cost, where there is no Admission of
// it any more: as where what was used is known afterwards, in another process. A key gets back
// at most what it has used. Shadow rules give nothing back, and no Event tells of it. The error is that of
// the Store; the tokens stay charged then.
func (c *Control) Refund(ctx context.Context, q Request) error {
	c.once.Do(c.setUp)
	if c.Rules == nil {
		ask := c.askOf(q, q.key())
		ask.N = -ask.N
		_, err := c.store().Take(ctx, []limit.Ask{ask}, make([]limit.Decision, 1))
		return err
	}
	version := q.Version
	if version == nil {
		version = c.Rules.Load()
	}
	if q.Request.Phase == "" {
		q.Request.Phase = c.Phase
	}
	if q.Override == nil {
		q.Override = c.Override
	}
	return version.Refund(ctx, c.store(), q.Request)
}

// LimitName returns the name of the limit of Asks[i]: that of its rule, with its
// number if it is not the first.
func (a *Admission) LimitName(i int) string {
	if a.control.Rules == nil {
		return a.control.name()
	}
	key := a.Asks[i].Key
	rule, rest, _ := strings.Cut(key, "/") // RULE/N/PART=VALUE
	n, _, _ := strings.Cut(rest, "/")
	if n == "0" {
		return rule
	}
	return key[:len(rule)+1+len(n)]
}

// Share returns the fair share of the caller in the limit that decided, in
// tokens a second. Zero if the Request has no Caller, or no limit decided. The
// callers who share it are those for whom Share or RateLimit was called in the last
// half minute, or minute: so call it for each answer, or for none.
func (a *Admission) Share() float64 {
	if a.Binding < 0 || a.Request.Caller == "" {
		return 0
	}
	c, l := a.control, a.Asks[a.Binding].Limit
	rate := float64(max(l.Count, 0)) / periodOf(l).Seconds()
	crowd := c.crowds.size(c.hash(a.Asks[a.Binding].Key), c.hash(a.Request.Caller), a.At())
	return rate / crowd
}

// At returns the time of the decision, by the clock that decided.
func (a *Admission) At() time.Time {
	if at := a.Answer.Decision.At; !at.IsZero() {
		return at
	}
	return time.Now()
}
