package admit

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// Control is admission control for a service: rate limits and bounds on the
// requests in flight, by one Limit or by Rules, and load shedding. It knows no
// transport: throttlehttp.Handler and throttlegrpc.Server put it in front of
// HTTP and gRPC, and a worker may ask it about its jobs.
//
//	a, err := control.Begin(ctx, admit.Request{Key: job.Customer})
//	defer a.Done()
//	switch {
//	case err != nil: // the Store could not decide
//	case !a.OK:      // refused: come again after a.RetryAfter
//	default:
//		do(job)
//	}
//
// The zero value admits everything. One Control may serve several transports.
// The fields must not change, nor a Control be copied, after first use. It is
// safe for concurrent use if what its fields hold is. It starts no goroutine.
type Control struct {
	// Store remembers how much each key has used. If nil, a memory.Store of
	// this Control's own.
	Store store.Store

	// Limit is how much each key may use, see [Request.Key]. If zero, there is
	// no limit. One with a Count and a Period below a microsecond, or none, is a
	// mistake, which bounds next to nothing: it is logged once, by [slog.Default].
	Limit limit.Limit
	// LimitFor returns the limit of one request, for callers on different
	// plans. The same key should always have the same limit. If nil, Limit.
	LimitFor func(Request) limit.Limit
	// MaxInFlight bounds the requests in flight for each key (a concurrency
	// limit). If zero or below, there is no bound.
	MaxInFlight int64
	// Name is the name of the Limit, for callers and, before a slash, at the
	// beginning of the keys in the Store: two limits in one Store need two
	// names. With slashes in it, the keys begin with a slash, and have %2F in
	// place of its own. If empty, "default".
	Name string

	// Rules replace Limit, LimitFor, MaxInFlight and Name. They may be swapped
	// at any time. If nil, there are none. Before a version is in use, as where Refresh
	// of its rules.Source was not called yet, nobody is limited: that is logged once, by
	// [slog.Default].
	Rules *rules.Live
	// Override returns the overrides of keys that have none in the Rules, for
	// rules that look them up: the method Override of a rules.Overrides. It is
	// for requests without one of their own. If nil, there are none.
	Override func(ctx context.Context, rule string, key []string) (o rules.Override, ok bool)
	// Phase is rules.Before for a Control in front of the authentication: it
	// asks only the rules of that phase, and [Admission.Context] records its
	// charges, see [Refund]. If rules.After, it asks the other rules; if empty,
	// all.
	Phase rules.Phase
	// InFlight counts the requests in flight. If nil, one of this Control's
	// own.
	InFlight *store.InFlight

	// Shed protects the service from overload: a request that does not fit
	// waits briefly, or is refused and not charged, the lowest priority first.
	// If nil, all requests within their limits are admitted at once. Put
	// streams behind another Control: they would teach it that requests take
	// long.
	Shed *Shedder
	// Spread is jitter on RetryAfter, against a thundering herd: it bounds how much
	// longer than necessary a refused caller is asked to wait. Each refused caller
	// gets a time of its own, one after the other at the rate of the limit; beyond
	// the bound, times start over from the earliest. If zero, a minute; below zero,
	// all get the earliest time.
	//
	// A caller that asks too early gets the same time again, unless that is now
	// beyond the bound, as where its limit was raised. It is recognised by
	// [Request.Caller]; if that is empty, by its address and the fields Forwarded,
	// X-Forwarded-For, X-Real-IP, Authorization and User-Agent. Several callers may
	// agree in all of these, so a request on another connection counts as the same
	// caller only a second or more after its latest refusal. Times are kept for at
	// most 10,000 keys and 10,000 callers; beyond that, those longest without a
	// refusal are forgotten.
	Spread time.Duration
	// Milliseconds computes RetryAfterWhole from RetryAfter, by rounding up:
	// for callers that all read milliseconds, as throttlehttp.Transport does and
	// the clients of Azure and OpenAI. If false, both are planned, each as if
	// all callers read it.
	Milliseconds bool

	// OnEvent is called with each decision, in the goroutine of the request,
	// before Begin returns. See [Counter] and [Log]. If nil, nothing is called.
	OnEvent func(Event)

	once     sync.Once
	unloaded sync.Once      // the first decision without a version of the Rules
	own      store.Store    // if there is no Store
	counting store.InFlight // if there is no InFlight
	seed     maphash.Seed
	slots    slots
	crowds   crowds
	policies policies
}

// Request is a request that a Control decides about.
type Request struct {
	// Request is what the Rules look at. Its Phase, if empty, is that of the
	// Control. Without Rules, only Address, Client and Cost decide; Cost is called
	// with an empty name.
	rules.Request
	// Key is the key that the Limit is charged to: a customer, an API key that
	// was checked. If empty, the Client; without one the Address, which is taken
	// as its /64 network if it is IPv6, as one caller usually has all of it;
	// without either, all such requests share one key. Beware of values that
	// callers may set freely: each new value is a new key with an unused limit.
	Key string
	// Priority is for the Shedder. If zero, that of the Rules, load.Normal if
	// there are none.
	Priority load.Priority
	// Caller distinguishes the callers that share a key, such as the processes
	// of one customer. The answer to each then states its fair share of the
	// rate, see [Admission.Share]. The latest 10,000 keys are remembered. If
	// empty, no share is stated.
	Caller string
	// Conn names the connection that the request came on if it carries one
	// request after the other, as in HTTP/1; it distinguishes callers that share
	// an address. If empty, it is unknown, or carries many at a time.
	Conn string
	// Shed is the Shedder of the service that the request is for, where one
	// Control stands in front of several services. If nil, that of the Control.
	Shed *Shedder
	// Version is the version of the Rules to decide by, where the transport has
	// used one already, see rules.Compiled.ClientAddress: so that all of one
	// decision is of one version. If nil, the one in use.
	Version *rules.Compiled
	// Degrades reports that requests above a limit, or for which there is no
	// room, are answered with less rather than refused. It is for Events only.
	Degrades bool
}

// Begin decides whether the request may start: it charges all its limits,
// counts it as in flight and waits briefly for room in the Shedder, or does
// none of that. A refusal is not an error: OK is false. The error is that of
// the Store, or of ctx: there was no decision, and OK is false too. To admit
// such requests, wrap the Store in store.FailOpen.
//
// The Admission is never nil. Done must be called when the request has ended,
// whatever the decision.
//
// If the request has a Client and the Phase is not rules.Before, the charges of
// Controls of that phase for ctx are refunded, see [Refund].
func (c *Control) Begin(ctx context.Context, q Request) (*Admission, error) {
	a := new(Admission)
	return a, c.BeginIn(ctx, q, a)
}

// BeginIn decides as Begin does and fills a, for transports that reuse their
// Admissions. Nothing else may still use a: neither the request before it, nor a
// context made by [Admission.Context].
func (c *Control) BeginIn(ctx context.Context, q Request, a *Admission) error {
	if ctx == nil {
		panic("admit: Control.Begin: the context is nil")
	}
	c.once.Do(c.setUp)
	return c.beginIn(ctx, q, a, c.store())
}

// beginIn is BeginIn, deciding by s.
func (c *Control) beginIn(ctx context.Context, q Request, a *Admission, s store.Store) error {
	*a = Admission{Event: Event{Request: q, Degraded: q.Degrades}, Binding: -1, control: c, ctx: ctx}
	a.charged.store = s
	if a.Request.Phase == "" {
		a.Request.Phase = c.Phase
	}
	if q.Client != "" && c.Phase != rules.Before {
		a.RefundErr = Refund(ctx)
	}
	var began time.Time
	if c.OnEvent != nil {
		began = time.Now()
	}
	begun := false
	defer func() {
		if !begun { // a function of the user's panicked
			a.Forget()
		}
	}()
	err := a.decide(ctx)
	a.charged.store = c.store() // that of refunds
	if err == nil && a.Answer.OK && a.shedder() != nil {
		a.shed(ctx)
	}
	a.conclude(err)
	if c.OnEvent != nil {
		a.Took = time.Since(began)
		c.OnEvent(a.Event)
	}
	begun = true
	return err
}

// setUp makes, once, the parts of a Control that are its own.
func (c *Control) setUp() {
	c.seed = maphash.MakeSeed()
	if c.Store == nil {
		c.own = store.InProcess()
	}
	if l := c.Limit; c.Rules == nil && c.LimitFor == nil && l.Count > 0 && l.Period < time.Microsecond {
		slog.Warn("admit: the Limit has next to no Period, so it limits nobody; set it, as in time.Minute", "name", c.name(), "count", l.Count, "period", l.Period)
	}
}

func (c *Control) store() store.Store {
	if c.Store != nil {
		return c.Store
	}
	return c.own
}

func (c *Control) inFlight() *store.InFlight {
	if c.InFlight != nil {
		return c.InFlight
	}
	return &c.counting
}

func (c *Control) name() string {
	if c.Name == "" {
		return "default"
	}
	return c.Name
}

// keyOf returns the key in the Store of a key of the Limit: another one for each
// pair of Name and key.
func (c *Control) keyOf(key string) string {
	name := c.name()
	if strings.Contains(name, "/") {
		name = "/" + strings.NewReplacer("%", "%25", "/", "%2F").Replace(name)
	}
	return name + "/" + key
}

// decide decides by the Rules or the Limit.
func (a *Admission) decide(ctx context.Context) (err error) {
	if a.control.Rules == nil {
		return a.decideLimit(ctx)
	}
	if a.Request.Override == nil {
		a.Request.Override = a.control.Override
	}
	version := a.Request.Version
	if version == nil {
		version = a.control.Rules.Load()
	}
	if version == nil {
		a.control.unloaded.Do(func() {
			slog.Warn("admit: the Rules hold no version yet, so they limit nobody; call Refresh of their rules.Source or rules.Stack before the first request, or Swap")
		})
	}
	a.Answer, a.hold, err = version.Admit(ctx, &a.charged, a.control.inFlight(), a.Request.Request)
	return err
}

// decideLimit decides by the Limit, where there are no rules.
func (a *Admission) decideLimit(ctx context.Context) error {
	c := a.control
	a.Answer = rules.Answer{OK: true, Priority: load.Normal}
	key := a.Request.key()
	ask := c.askOf(a.Request, key)
	l := ask.Limit
	if l.Unlimited() && c.MaxInFlight <= 0 {
		return nil
	}
	a.Answer.Common = key == ""
	busy, ok, err := a.take(ctx, ask)
	if err != nil {
		a.Answer.OK = false
		return err
	}
	a.Answer.OK, a.Answer.Rule, a.Answer.Reason = ok, c.name(), rules.Within
	switch {
	case busy:
		a.Answer.Reason = rules.Busy
		return nil
	case !ok:
		a.Answer.Reason = rules.Over
	}
	if len(a.charged.decisions) > 0 {
		a.Answer.Limit, a.Answer.Decision = l, a.charged.decisions[0]
	}
	return nil
}

// askOf is what a request with that key asks of the Limit.
func (c *Control) askOf(q Request, key string) limit.Ask {
	ask := limit.Ask{Key: c.keyOf(key), Limit: c.Limit, N: 1}
	if c.LimitFor != nil {
		ask.Limit = c.LimitFor(q)
	}
	if q.Cost != nil && !ask.Limit.Unlimited() {
		ask.N = max(q.Cost(""), 0)
	}
	return ask
}

// take takes ask from the Store and counts the request as in flight, or neither.
func (a *Admission) take(ctx context.Context, ask limit.Ask) (busy, ok bool, err error) {
	c := a.control
	if c.MaxInFlight <= 0 {
		a.one.ask[0] = ask
		ok, err = a.charged.Take(ctx, a.one.ask[:], a.one.decision[:])
		return false, ok, err
	}
	counts, refused := store.Count{Key: ask.Key, Max: c.MaxInFlight}, -1
	if ask.Limit.Unlimited() {
		a.counted, refused, ok = c.inFlight().Acquire(counts)
	} else {
		a.one.ask[0] = ask
		a.counted, refused, ok, err = c.inFlight().Admit(ctx, &a.charged, a.one.ask[:], a.one.decision[:], counts)
	}
	return refused >= 0, ok, err
}

// key returns the key of the Limit.
func (q *Request) key() string {
	switch {
	case q.Key != "":
		return q.Key
	case q.Client != "":
		return q.Client
	case q.Address.IsValid():
		return rules.Network(q.Address, 32, 64)
	}
	return ""
}

func (a *Admission) shedder() *Shedder {
	if a.Request.Shed != nil {
		return a.Request.Shed
	}
	return a.control.Shed
}

// shed waits for room, and refunds what was charged if there is none.
func (a *Admission) shed(ctx context.Context) {
	priority := a.Request.Priority
	if priority == 0 {
		priority = a.Answer.Priority
	}
	pass, err := a.shedder().Acquire(ctx, priority)
	if err == nil {
		a.pass = pass
		return
	}
	if !errors.As(err, &a.busy) { // all its errors are such
		a.busy = &store.Error{Reason: err}
	}
	a.RefundErr = errors.Join(a.RefundErr, a.refund(ctx))
}
