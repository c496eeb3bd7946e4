package rules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/store"
)

// Request describes a request to the rules. The functions may be nil. They are
// called while Decide runs: Header and Value at most once for each name that the
// rules use, Cost once for each rule that names one.
type Request struct {
	// Now is the time of the request, by which what has an Until ends. If zero,
	// Decide reads the clock, if the rules have an Until.
	Now time.Time
	// Phase selects the rules that are asked: those of the phase, or, if empty,
	// all, where one decision is made for each request.
	Phase Phase
	// Method is the method, in capitals.
	Method string
	// Host is the host, with or without its port.
	Host string
	// Path is the path, decoded. It must be the one by which the request is
	// served.
	Path string
	// RawPath is the path as it was sent, still encoded, where the service does
	// not read an encoded slash in it as a slash: the RawPath of a url.URL. If
	// empty, Path is all there is.
	RawPath string
	// Address is the client's, see [ClientAddress]. If invalid, there is none.
	Address netip.Addr
	// Client is the authenticated identity. If empty, it is unknown.
	Client string
	// Domain and Descriptor describe a descriptor as Envoy sends it, if either is
	// not empty: only rules for descriptors are asked then, see [Match].
	Domain     string
	Descriptor []Pair
	// Header returns a field of the header by its canonical name (X-Tenant);
	// empty if there is none.
	Header func(name string) string
	// Value returns other properties of the request that the program knows, such
	// as its customer, by the names given to Parse.
	Value func(name string) (value string, ok bool)
	// Cost returns the cost of the request for a rule whose Cost has a name.
	// Below zero counts as zero, which passes unless the key owes something. If
	// nil, 1.
	Cost func(name string) int64
	// Override returns the override of a key that has none in the file, for rules
	// with [Rule.Lookup]: key has the value of each part, of an address its
	// network. One with limits that Compile would refuse does not count, nor does
	// its Key. See [Overrides]. If nil, there are none.
	Override func(ctx context.Context, rule string, key []string) (o Override, ok bool)
}

// Reason says why a request passed or was refused.
type Reason uint8

const (
	// Unlimited passed, as no rule limits it.
	Unlimited Reason = iota
	// Within passed, as all limits had room.
	Within
	// Allowed passed by the allow list.
	Allowed
	// Denied was refused by the deny list.
	Denied
	// NoKey was refused by a rule that refuses requests without a whole key.
	NoKey
	// Over was refused by a limit.
	Over
	// Busy was refused as too many requests of the key are in flight. The time
	// to come again is unknown: the RetryAfter is zero.
	Busy
	// Killed passed by [Set.Kill] and would have been refused otherwise. Rule,
	// Entry, Limit and Decision are those of the refusal. It is charged only where the deny
	// list or the lack of a key would have refused it, and its limits have room.
	Killed
	// Away passed without a charge, as the Store could not decide and its rules
	// say so, see [Rule.Away].
	Away
)

var reasons = [...]string{"unlimited", "within", "allowed", "denied", "no-key", "over", "busy", "killed", "away"}

// String returns the reason in a word, such as "no-key".
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown"
}

// Answer says whether a request may pass, and why.
type Answer struct {
	// OK reports whether it may pass.
	OK bool
	// Reason says why it passes or not.
	Reason Reason
	// Rule is the rule that decided, see [limit.Binding]: of several that
	// refuse, the one that does so for the longest time; of those that admit,
	// the one with the least part left. Empty if none did.
	Rule string
	// Common reports that the Rule has no key, so that all requests share it:
	// the service had no room, rather than the caller having used up its own
	// limit.
	Common bool
	// Entry is, for Allowed and Denied, the entry of the list.
	Entry string
	// Limit is the limit that decided. Zero where none did.
	Limit limit.Limit
	// Decision is the decision of the Limit. Zero where no limit decided, except
	// that for Denied and NoKey, where waiting does not help, the RetryAfter is
	// [limit.Never].
	Decision limit.Decision
	// Priority is that of the first rule in the file that is for the request
	// and sets one. If there is none, load.Normal.
	Priority load.Priority
	// Version is the version of the rules that decided.
	Version string
	// StoreErr is the error of the Store, where the request passed nevertheless:
	// for Away and Killed. Nil otherwise.
	StoreErr error
	// Shadow names the shadow rules, and the rules with shadow limits, that would
	// have refused the request. They are asked about requests that pass, each by
	// itself, and charged if they have room. Nil if there are none.
	Shadow []string
	// ShadowErr is the last error of the Store about a shadow rule.
	ShadowErr error

	key  string
	hold Hold
}

// KeyID returns 16 hexadecimal digits for the key of the limit that decided, to
// be logged: always the same for a key, of bounded length, and not the key
// itself, which may be a secret. It can be found again in a list of known keys.
// Empty if there is no such limit.
func (a *Answer) KeyID() string {
	if a.key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(a.key))
	return hex.EncodeToString(sum[:8])
}

// Key returns the key of the limit that decided, as the Store has it. It may name
// a person or hold a path: log its KeyID instead. Empty if there is no such limit.
func (a *Answer) Key() string { return a.key }

// Decide asks s whether r may pass. All rules for r are charged, or none: a
// refused request uses up nothing. A refusal is not an error; an error means
// that s could not decide, see [store.FailOpen], and comes with an Answer that
// has only Priority and Version. It costs one call of s, or none if no rule
// limits the request, and one more for each shadow rule for it.
//
// Requests in flight are not counted, see Admit. It is safe for concurrent use.
// A nil Compiled admits everything.
func (c *Compiled) Decide(ctx context.Context, s store.Store, r Request) (Answer, error) {
	return c.decide(ctx, s, nil, r)
}

// Admit decides as Decide does, and counts requests in flight in f for rules
// with InFlight: everything is charged and counted, or nothing. The Hold must be
// released when the request is done, whatever the answer; it includes the counts
// of shadow rules. f.MaxAge bounds how long it counts.
func (c *Compiled) Admit(ctx context.Context, s store.Store, f *store.InFlight, r Request) (Answer, Hold, error) {
	a, err := c.decide(ctx, s, f, r)
	h := a.hold
	a.hold = Hold{}
	return a, h, err
}

func (c *Compiled) decide(ctx context.Context, s store.Store, f *store.InFlight, r Request) (a Answer, err error) {
	if c == nil {
		return Answer{OK: true, Priority: load.Normal}, nil
	}
	if c.timed && r.Now.IsZero() {
		r.Now = time.Now()
	}
	q := c.pool.Get().(*question)
	defer q.done()
	q.begin(c, r, f)
	a.Version = c.version
	refused := q.collect(ctx, &a)
	if a.Priority == 0 {
		a.Priority = load.Normal
	}
	if refused || a.OK {
		return a, nil
	}
	if err := q.decide(ctx, s, &a); err != nil {
		if !q.goOn(ctx) {
			return Answer{Version: a.Version, Priority: a.Priority}, fmt.Errorf("rules: %w", err)
		}
		a.OK, a.Reason, a.StoreErr = true, Away, fmt.Errorf("rules: %w", err)
		if q.kill {
			a.Reason = Killed
		}
	}
	if q.kill {
		q.pass(&a)
	}
	if a.OK && len(q.shadows) > 0 {
		whole := false
		defer func() {
			if !whole { // a Store panics; what is held must not be lost
				a.hold.Release()
			}
		}()
		q.askShadows(ctx, s, &a)
		whole = true
	}
	return a, nil
}

// Refund gives back the charge of a Decide of r, which must have passed by the same
// version: for a request that was not served in the end, or that was limited by
// address before its caller was authenticated. Charges of shadow rules are not
// refunded. Do not refund an Answer that was Away or Killed: it may not have been
// charged.
func (c *Compiled) Refund(ctx context.Context, s store.Store, r Request) error {
	if c == nil {
		return nil
	}
	q := c.pool.Get().(*question)
	defer q.done()
	if c.timed && r.Now.IsZero() {
		r.Now = time.Now()
	}
	q.begin(c, r, nil)
	if q.collect(ctx, new(Answer)) || len(q.asks) == 0 {
		return nil
	}
	for i := range q.asks {
		q.asks[i].N = -q.asks[i].N
	}
	if _, _, _, err := q.take(ctx, s); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	return nil
}

// collect finds the rules for the request and adds their asks. It is refused if
// that is settled before the Store is asked, and a.OK if the Store need not be
// asked.
func (q *question) collect(ctx context.Context, a *Answer) (refused bool) {
	var allowed, denied bool
	if a.Entry, denied = q.c.deny.find(q); denied {
		refused = q.refuse(a, Denied, "")
	} else if a.Entry, allowed = q.c.allow.find(q); allowed {
		a.OK, a.Reason = true, Allowed
	}
	candidates := q.c.plain
	if q.described {
		candidates = q.c.described.find(q)
	}
	for _, i := range candidates {
		rule := &q.c.rules[i]
		if !rule.applies(q) {
			continue
		}
		if a.Priority == 0 {
			a.Priority = rule.priority
		}
		switch {
		case refused || allowed:
		case rule.shadow:
			q.shadows = append(q.shadows, i)
		case !q.ask(ctx, i):
			refused = q.refuse(a, NoKey, rule.name)
		}
	}
	return refused
}

// refuse refuses the request before the Store is asked, unless nothing is refused.
func (q *question) refuse(a *Answer, reason Reason, rule string) (refused bool) {
	if q.kill {
		if !q.killed {
			q.killed, q.killedBy = true, rule
		}
		return false
	}
	a.Reason, a.Rule = reason, rule
	a.Decision.RetryAfter = limit.Never
	return true
}

// pass admits what would have been refused.
func (q *question) pass(a *Answer) {
	if q.killed {
		a.Rule, a.Common, a.Limit, a.Decision, a.key = q.killedBy, false, limit.Limit{}, limit.Decision{}, ""
	}
	if q.killed || !a.OK {
		a.OK, a.Reason = true, Killed
	}
}

// goOn reports whether the request passes although the Store failed: the caller
// has not gone, and nothing is refused or all rules that were asked say so.
func (q *question) goOn(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	strict := func(i int) bool { return q.c.rules[i].away != Pass }
	return q.kill || !slices.ContainsFunc(q.owners, strict) && !slices.ContainsFunc(q.holders, strict)
}

// decide asks the Store.
func (q *question) decide(ctx context.Context, s store.Store, a *Answer) error {
	if len(q.asks) == 0 && len(q.counts) == 0 {
		a.OK = true
		return nil
	}
	h, refused, ok, err := q.take(ctx, s)
	if err != nil {
		return err
	}
	a.hold.real = h
	switch {
	case refused >= 0:
		a.Reason, a.key = Busy, q.counts[refused].Key
		a.ruledBy(&q.c.rules[q.holders[refused]])
		return nil
	case len(q.asks) == 0:
		a.OK, a.Reason = true, Within
		return nil
	}
	i := limit.Binding(q.answers)
	a.OK, a.Reason = ok, Within
	if !ok {
		a.Reason = Over
	}
	a.ruledBy(&q.c.rules[q.owners[i]])
	a.Limit, a.Decision, a.key = q.asks[i].Limit, q.answers[i], q.asks[i].Key
	return nil
}

func (a *Answer) ruledBy(r *rule) { a.Rule, a.Common = r.name, len(r.parts) == 0 }

// askShadows asks each shadow rule by itself: one that would refuse must not
// keep another from being charged.
func (q *question) askShadows(ctx context.Context, s store.Store, a *Answer) {
	for _, i := range q.shadows {
		q.again()
		passed := q.ask(ctx, i)
		if passed && len(q.asks)+len(q.counts) > 0 {
			h, _, ok, err := q.take(ctx, s)
			if err != nil {
				a.ShadowErr = fmt.Errorf("rules: shadow rule %s: %w", q.c.rules[i].name, err)
				continue
			}
			passed = ok
			if len(q.counts) > 0 && ok {
				a.hold.shadow = append(a.hold.shadow, h)
			}
		}
		if !passed {
			a.Shadow = append(a.Shadow, q.c.rules[i].name)
		}
	}
}

// applies reports whether the rule is for the request.
func (r *rule) applies(q *question) bool {
	if q.r.Phase != "" && (q.r.Phase == Before) != (r.phase == Before) {
		return false
	}
	return r.match.matches(q)
}

func (m *matcher) matches(q *question) bool {
	if q.described || m.described {
		return q.described && m.described && m.describes(&q.r)
	}
	switch {
	case m.client != "" && (m.client == Known) != (q.r.Client != ""),
		!anyMethod(m.methods, q.r.Method),
		len(m.paths) > 0 && !q.pathMatches(m.paths),
		len(m.hosts) > 0 && !anyOf(m.hosts, q.hostname()):
		return false
	}
	for i := range m.headers {
		if value, ok := q.value(m.headers[i].part); !ok || !m.headers[i].value.Match(value) {
			return false
		}
	}
	return true
}
