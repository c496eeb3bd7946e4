// Package dryrun says what rules would decide about a request, and why, without
// charging anything. It decides by package rules itself: each rule alone, and all
// together.
package dryrun

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
)

// A Report states the decision of rules about a request.
type Report struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason"` // as of rules.Reason
	Rule    string `json:"rule,omitempty"`
	Entry   string `json:"entry,omitempty"` // of the list that decided
	Version string `json:"version"`
	// Way names what would make a refused request pass.
	Way   string `json:"way,omitempty"`
	Rules []Rule `json:"rules"`
}

// A Rule states the decision of one rule.
type Rule struct {
	Name    string `json:"name"`
	Applies bool   `json:"applies"`
	// Why is, of a rule that does not apply, what keeps it from it; of another
	// one, what else there is to say.
	Why    string `json:"why,omitempty"`
	Shadow bool   `json:"shadow,omitempty"`
	OK     bool   `json:"ok"`
	// Key is that of the request: PART=VALUE for each part, where long
	// values and those of header fields are digests.
	Key      string  `json:"key,omitempty"`
	Limits   []Limit `json:"limits,omitempty"`
	Tried    []Limit `json:"tried,omitempty"`     // shadow limits beside them
	InFlight int64   `json:"in_flight,omitempty"` // at most
}

// A Limit states the decision of one limit.
type Limit struct {
	Limit    string        `json:"limit"`
	Override bool          `json:"override,omitempty"` // in place of the rule's own
	Cost     int64         `json:"cost"`
	OK       bool          `json:"ok"`
	Left     int64         `json:"left"` // after the request, if it passes
	Wait     time.Duration `json:"-"`    // until it would pass; limit.Never if it cannot
	AtMost   bool          `json:"-"`    // Wait is a bound
	WaitText string        `json:"wait,omitempty"`
}

// Of decides about a request by c, compiled with the names in known. What is left
// of each limit is read from s, and nothing is charged. Where s is private, nothing
// else charges it meanwhile, so that waits are exact; otherwise they are bounds.
func Of(ctx context.Context, c *rules.Compiled, known []string, s store.Store, private bool, r rules.Request) (*Report, error) {
	set, err := setOf(c)
	if err != nil {
		return nil, err
	}
	p := &peeker{Store: s, private: private}
	a, err := c.Decide(ctx, p, r)
	if err != nil {
		return nil, err
	}
	report := &Report{OK: a.OK, Reason: a.Reason.String(), Rule: a.Rule, Entry: a.Entry, Version: a.Version}
	for i := range set.Rules {
		one, err := ruleOf(ctx, set, i, known, p, r)
		if err != nil {
			return nil, err
		}
		report.Rules = append(report.Rules, one)
	}
	report.Way = report.way(&a, r)
	return report, nil
}

func setOf(c *rules.Compiled) (s rules.Set, err error) {
	text, err := c.MarshalJSON()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

// ruleOf decides by one rule alone.
func ruleOf(ctx context.Context, set rules.Set, i int, known []string, p *peeker, r rules.Request) (Rule, error) {
	from := set.Rules[i]
	one := Rule{Name: from.Name, Shadow: from.Shadow.Rule, OK: true}
	if from.Off {
		one.Why = "it is off"
		return one, nil
	}
	alone := func(rule rules.Rule) (rules.Answer, error) {
		rule.Shadow.Rule = false
		c, err := rules.Compile(rules.Set{IPv4Prefix: set.IPv4Prefix, IPv6Prefix: set.IPv6Prefix, Rules: []rules.Rule{rule}}, known...)
		if err != nil {
			return rules.Answer{}, err
		}
		p.calls = nil
		return c.Decide(ctx, p, r)
	}
	why, err := mismatch(from, r, alone)
	if err != nil || why != "" {
		one.Why = why
		return one, err
	}
	a, err := alone(from)
	if err != nil {
		return one, err
	}
	one.Applies, one.OK, one.InFlight = true, a.OK, int64(from.InFlight)
	p.describe(&one, from)
	switch {
	case a.Reason == rules.NoKey:
		one.Why = "a part of its key is missing: " + strings.Join(from.Key, "+")
	case len(one.Limits) == 0 && len(from.Limits) > 0 && from.Missing == rules.Pass && len(from.Key) > 0:
		one.Why = "nothing to count: unlimited for this key, or a part of it is missing"
	case len(one.Limits) == 0 && len(from.Limits) > 0:
		one.Why = "unlimited for this key"
	}
	return one, nil
}

// mismatch is what keeps a rule from applying, or "": each condition is tried alone.
func mismatch(from rules.Rule, r rules.Request, decide func(rules.Rule) (rules.Answer, error)) (string, error) {
	fails := func(m rules.Match) (bool, error) {
		a, err := decide(rules.Rule{Name: "probe", Match: m, Limits: []rules.Limit{{Count: 1, Period: time.Second}}})
		return a.Reason == rules.Unlimited, err
	}
	described := r.Domain != "" || len(r.Descriptor) > 0
	switch forThem := len(from.Match.Domains) > 0 || len(from.Match.Descriptor) > 0; {
	case described && !forThem:
		return "it is for requests, not for descriptors", nil
	case forThem && !described:
		return "it is for descriptors only", nil
	}
	conditions := []struct {
		given bool
		match rules.Match
		why   string
	}{
		{described && len(from.Match.Domains) > 0, rules.Match{Domains: from.Match.Domains}, "domain " + r.Domain + " is not " + either(from.Match.Domains)},
		{described && len(from.Match.Descriptor) > 0, rules.Match{Descriptor: from.Match.Descriptor}, "the descriptor is not " + pairWords(from.Match.Descriptor)},
		{from.Match.Methods != nil, rules.Match{Methods: from.Match.Methods}, "method " + r.Method + " is not " + either(from.Match.Methods)},
		{from.Match.Hosts != nil, rules.Match{Hosts: from.Match.Hosts}, hostOf(r) + " is not " + either(from.Match.Hosts)},
		{from.Match.Paths != nil, rules.Match{Paths: from.Match.Paths}, "path " + r.Path + " is not " + either(from.Match.Paths)},
		{from.Match.Client == rules.Known, rules.Match{Client: from.Match.Client}, "no client is known"},
		{from.Match.Client == rules.Unknown, rules.Match{Client: from.Match.Client}, "the client is known"},
	}
	for _, c := range conditions {
		if !c.given {
			continue
		}
		if no, err := fails(c.match); no || err != nil {
			return c.why, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from.Match.Headers)) {
		pattern := from.Match.Headers[name]
		if no, err := fails(rules.Match{Headers: map[string]string{name: pattern}}); no || err != nil {
			return "header " + name + " is not " + pattern, err
		}
	}
	return "", nil
}

// pairWords writes the patterns of a descriptor.
func pairWords(all []rules.PairPattern) string {
	var words []string
	for _, p := range all {
		text := p.Key
		if p.Value != "" {
			text += "=" + p.Value
		}
		if len(p.Not) > 0 {
			text += " (not " + either(p.Not) + ")"
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

func hostOf(r rules.Request) string {
	if r.Host == "" {
		return "no host, which"
	}
	return "host " + r.Host
}

func either(all []string) string {
	if len(all) > 5 {
		all = append(slices.Clone(all[:5]), "...")
	}
	return strings.Join(all, " or ")
}

// describe adds what was asked and said to a rule: its limits first, and then those
// that it tries out.
func (p *peeker) describe(one *Rule, from rules.Rule) {
	own := len(from.Limits) > 0 || len(from.Overrides) > 0
	for n, c := range p.calls {
		for i, ask := range c.asks {
			d := c.said[i]
			_, rest, _ := strings.Cut(strings.TrimPrefix(ask.Key, from.Name+"/"), "/") // RULE/N/KEY
			l := Limit{Limit: ask.Limit.String(), Cost: ask.N, OK: d.OK, Left: d.Remaining, Wait: d.RetryAfter, AtMost: !p.private, WaitText: waitText(d, p.private)}
			if n > 0 || !own {
				one.Tried = append(one.Tried, l)
				continue
			}
			one.Key = rest
			l.Override = !slices.ContainsFunc(from.Limits, func(l rules.Limit) bool { return limit.Limit(l).String() == ask.Limit.String() })
			one.Limits = append(one.Limits, l)
		}
	}
}

func waitText(d limit.Decision, exact bool) string {
	switch {
	case d.OK:
		return ""
	case d.RetryAfter == limit.Never:
		return "never"
	case exact:
		return lasting(d.RetryAfter)
	}
	return "at most " + lasting(d.RetryAfter)
}

// peeker is a Store that charges nothing.
type peeker struct {
	store.Store
	private bool
	calls   []call
}

// call is one call of the Store.
type call struct {
	asks []limit.Ask
	said []limit.Decision
}

// Take decides as the Store would.
func (p *peeker) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	looks := slices.Clone(a)
	for i := range looks {
		looks[i].N, looks[i].Min = 0, 0
	}
	if _, err := p.Store.Take(ctx, looks, d); err != nil {
		return false, err
	}
	ok = true
	for i, ask := range a {
		switch {
		case ask.Debt || d[i].Remaining >= ask.N && d[i].OK:
			d[i].Remaining, d[i].OK = max(d[i].Remaining-ask.N, 0), true
			d[i].N = ask.N
			continue
		case ask.N > d[i].Max:
			d[i].RetryAfter = limit.Never
		case p.private: // it will refuse, and so charge nothing
			if _, err := p.Store.Take(ctx, a[i:i+1], d[i:i+1]); err != nil {
				return false, err
			}
		default:
			d[i].RetryAfter = d[i].ResetAfter
		}
		ok, d[i].OK = false, false
	}
	p.calls = append(p.calls, call{slices.Clone(a), slices.Clone(d)})
	return ok, nil
}
