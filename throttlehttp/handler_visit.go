package throttlehttp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// visit is one request at a Handler. It is reused.
type visit struct {
	h               *Handler
	r               *http.Request
	rules           *rules.Compiled
	client          string
	answer          rules.Answer
	hold            rules.Hold
	pass            admit.Pass
	busy            *store.Error // why there was no pass
	whole           bool         // Next has returned
	undecided, lost error        // of the Store: of asking, of giving back

	// What the Store was asked and decided: for the rules that count, and for the
	// shadow rules that admitted it.
	asks    []limit.Ask
	answers []limit.Decision
	shadows []limit.Ask

	// The functions by which rules read the header, made once.
	header func(name string) string
	values func(name string) []string
	// one is the ask about a Limit.
	one struct {
		a [1]limit.Ask
		d [1]limit.Decision
	}
}

func (h *Handler) begin(r *http.Request) *visit {
	v, ok := h.visits.Get().(*visit)
	if !ok {
		v = new(visit)
		v.header = func(name string) string { return v.r.Header.Get(name) }
		v.values = func(name string) []string { return v.r.Header.Values(name) }
	}
	v.h, v.r = h, r
	return v
}

// end releases what the visit holds, also after a panic, and returns it to the
// pool.
func (v *visit) end() {
	v.hold.Release()
	if v.whole && v.r.Context().Err() == nil {
		v.pass.Release()
	} else { // it says nothing about how long a request takes
		v.pass.Forget()
	}
	clear(v.asks)
	clear(v.shadows)
	h := v.h
	*v = visit{
		asks: v.asks[:0], answers: v.answers[:0], shadows: v.shadows[:0],
		header: v.header, values: v.values,
	}
	h.visits.Put(v)
}

// known reports whether the request was authenticated and this Handler is
// behind the authentication.
func (v *visit) known() bool {
	if v.h.Client != nil {
		v.client = v.h.Client(v.r)
	}
	return v.client != "" && v.h.Phase != rules.Before
}

// Take calls the Store of the Handler and records what it charged: the rules
// use the visit as their Store.
func (v *visit) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	ok, err := v.h.store().Take(ctx, a, d)
	switch {
	case err != nil:
	case len(v.asks) == 0: // shadow rules are asked later, and if there are none else, first
		v.asks, v.answers = append(v.asks, a...), append(v.answers, d...)
	case ok:
		v.shadows = append(v.shadows, a...)
	}
	return ok, err
}

func (v *visit) decide() (err error) {
	if v.h.Rules == nil {
		return v.decideLimit()
	}
	v.rules = v.h.Rules.Load()
	v.answer, v.hold, err = v.rules.Admit(v.r.Context(), v, v.h.inFlight(), v.request())
	v.client = "" // no more needed
	return err
}

// request returns what the rules see of the request.
func (v *visit) request() rules.Request {
	q := rules.Request{
		Phase: v.h.Phase, Method: v.r.Method, Host: v.r.Host, Path: v.r.URL.Path, RawPath: v.r.URL.RawPath,
		Client: v.client, Header: v.header,
	}
	if from, ok := remote(v.r); ok {
		q.Address = v.rules.ClientAddress(from, v.values)
	}
	if v.h.Fill != nil {
		q = v.h.Fill(v.r, q)
	}
	return q
}

// decideLimit decides by the Limit, where there are no rules.
func (v *visit) decideLimit() error {
	h := v.h
	l := h.Limit
	if h.LimitFor != nil {
		l = h.LimitFor(v.r)
	}
	v.answer = rules.Answer{OK: true, Priority: load.Normal}
	if l.Unlimited() {
		return nil
	}
	key, n := "", int64(1)
	if h.Key != nil {
		key = h.Key(v.r)
	}
	if h.Cost != nil {
		n = max(h.Cost(v.r), 0)
	}
	v.one.a[0] = limit.Ask{Key: h.name() + "/" + key, Limit: l, N: n}
	ok, err := v.Take(v.r.Context(), v.one.a[:], v.one.d[:])
	if err != nil {
		return err
	}
	v.answer.OK, v.answer.Reason = ok, rules.Within
	if !ok {
		v.answer.Reason = rules.Over
	}
	v.answer.Rule, v.answer.Limit, v.answer.Decision = h.name(), l, v.one.d[0]
	return nil
}

// shed waits for room, and refunds what was charged if there is none.
func (v *visit) shed() {
	priority := v.answer.Priority
	if v.h.Priority != nil {
		priority = v.h.Priority(v.r)
	}
	pass, err := v.h.Shed.Acquire(v.r.Context(), priority)
	if err == nil {
		v.pass = pass
		return
	}
	if !errors.As(err, &v.busy) { // all its errors are such
		v.busy = &store.Error{Reason: err}
	}
	v.lost = errors.Join(v.lost, v.taken().giveBack(v.r.Context()))
}

// passes reports whether the request goes to Next.
func (v *visit) passes() bool { return v.answer.OK && v.busy == nil }

// decided returns the index of the ask that decided, or -1.
func (v *visit) decided() int {
	if v.answer.Limit.Unlimited() { // none did
		return -1
	}
	return limit.Binding(v.answers)
}

// capacity reports whether the service had no room, rather than the caller
// having used up its own limit.
func (v *visit) capacity() bool {
	return v.busy != nil || v.answer.Reason == rules.Busy && v.answer.Common
}

// at returns the time of the decision, by the clock that decided.
func (v *visit) at() time.Time {
	if at := v.answer.Decision.At; !at.IsZero() {
		return at
	}
	return time.Now()
}

// policyName returns the name of a limit: that of its rule, with its number if
// it is not the first.
func (v *visit) policyName(key string) string {
	if v.h.Rules == nil {
		return v.h.name()
	}
	rule, rest, _ := strings.Cut(key, "/") // RULE/N/PART=VALUE
	n, _, _ := strings.Cut(rest, "/")
	if n == "0" {
		return rule
	}
	return key[:len(rule)+1+len(n)]
}
