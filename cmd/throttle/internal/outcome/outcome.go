// Package outcome says what rules would have done to requests of the past: to those
// of a log, or to a ring of recent ones. It decides as the same rules over a
// memory.Store would have decided live at the times of the requests, reads no clock
// and draws no random number.
//
//	result, err := outcome.Compare(ctx, before, after, requests, outcome.Options{})
//	// result.Sides[1].NewlyRefused of result.Requests pass before, and not after
package outcome

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/rules"
)

// Options are bounds, and how keys are named.
type Options struct {
	// MaxKeys bounds the keys that each version of the rules remembers, see
	// memory.Store. If zero, 1,000,000.
	MaxKeys int
	// MaxCounted bounds the refused keys that are counted each by itself; beyond it
	// the counts of the rarest are too high, as Key.Extra says. If zero, 10,000.
	MaxCounted int
	// Top is how many keys are named. If zero, 10.
	Top int
	// Name returns what stands for the values of a key, such as address=192.0.2.1. If
	// nil, Digest.
	Name func(values string) string
}

// Digest returns 16 hexadecimal digits for a text, always the same. It hides nothing
// from a reader that tries all texts there are, such as all IPv4 addresses.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Replay decides requests by one or more versions of rules, each with states of its
// own. It is not safe for concurrent use.
type Replay struct {
	sides    []*side
	options  Options
	from, to time.Time
	late     int64
}

// New returns a Replay of at least one version of rules; nil admits everything. The
// first is what the others are compared with.
func New(o Options, versions ...*rules.Compiled) *Replay {
	if o.MaxCounted <= 0 {
		o.MaxCounted = 10_000
	}
	if o.Top <= 0 {
		o.Top = 10
	}
	if o.Name == nil {
		o.Name = Digest
	}
	p := &Replay{options: o}
	for _, c := range versions {
		s := &side{rules: c, byRule: map[string]*ruleCount{}, keys: top{room: o.MaxCounted}, newKeys: top{room: o.MaxCounted}}
		s.store.MaxKeys, s.store.side = o.MaxKeys, s
		p.sides = append(p.sides, s)
	}
	return p
}

// Add decides a request at its time r.Now, which must be set. One that is earlier
// than the request before is decided at the time of that. The answers are those of
// the versions in their order, valid until the next call. The error is that of a
// decision: the ctx has ended, or a rule has a limit that cannot be asked.
func (p *Replay) Add(ctx context.Context, r rules.Request, answers []rules.Answer) ([]rules.Answer, error) {
	if r.Now.IsZero() {
		return nil, errors.New("outcome: a request without a time: set Now")
	}
	switch {
	case p.from.IsZero():
		p.from = r.Now
	case r.Now.Before(p.to):
		r.Now = p.to
		p.late++
	}
	p.to = r.Now
	answers = answers[:0]
	for i, s := range p.sides {
		a, err := s.decide(ctx, r)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
		if i > 0 {
			s.compare(&answers[0], &a)
		}
	}
	return answers, nil
}

// Compare decides all requests by two versions of rules. Each request has its time in
// Now, its cost by its function Cost, as live; times should rise. Both versions
// begin with unused limits.
func Compare(ctx context.Context, before, after *rules.Compiled, requests iter.Seq[rules.Request], o Options) (*Result, error) {
	p := New(o, before, after)
	var answers []rules.Answer
	for r := range requests {
		var err error
		if answers, err = p.Add(ctx, r, answers); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return p.Result(), nil
}

// Result holds the counts of a Replay.
type Result struct {
	// Requests counts all, and Late those that came before an earlier one.
	Requests int64 `json:"requests"`
	Late     int64 `json:"late"`
	// From and To are the times of the first and the last request.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Sides are those of the versions, in their order.
	Sides []Side `json:"sides"`
}

// Side holds the counts of one version of the rules.
type Side struct {
	Version string `json:"version"`
	Refused int64  `json:"refused"`
	// Reasons counts requests by rules.Reason.
	Reasons map[string]int64 `json:"reasons"`
	// NewlyRefused passed by the first version and not by this one, NewlyAdmitted the
	// other way round.
	NewlyRefused  int64 `json:"newly_refused"`
	NewlyAdmitted int64 `json:"newly_admitted"`
	// Rules are those that were asked, or would refuse, in the order of the file.
	Rules []Rule `json:"rules"`
	// Keys are those refused most often, and NewKeys those newly refused most often.
	Keys    []Key `json:"keys"`
	NewKeys []Key `json:"new_keys,omitempty"`
	// Forgotten counts keys that were displaced in the full store, where later
	// decisions may be too lenient.
	Forgotten int64 `json:"forgotten"`
	// Bins are parts of the time from Start, each Width long.
	Start time.Time     `json:"start"`
	Width time.Duration `json:"width_ns"`
	Bins  []Bin         `json:"bins"`
}

// Rule holds the counts of one rule.
type Rule struct {
	Name string `json:"name"`
	// Asked counts the requests that its limits were asked about, and Refused those of
	// them that were over one of its limits, whatever other rules said.
	Asked   int64 `json:"asked"`
	Refused int64 `json:"refused"`
	// Shadowed counts what it would have refused as a shadow rule.
	Shadowed int64 `json:"shadowed"`
	// Keys and Touched are how many keys it was asked about, and refused: above 512, an
	// estimate off by 0.8% in the standard deviation.
	Keys    int64 `json:"keys"`
	Touched int64 `json:"touched"`
}

// Key is a key that was refused.
type Key struct {
	// Rule is the rule that refused it, or "deny" and the entry of the list.
	Rule string `json:"rule"`
	// Name stands for its values, see Options.Name; empty if all requests share it.
	Name string `json:"name"`
	// Refused counts its refusals; at most Extra of them are of other keys.
	Refused int64     `json:"refused"`
	Extra   int64     `json:"extra,omitempty"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
}

// Result returns what came out so far.
func (p *Replay) Result() *Result {
	result := &Result{From: p.from, To: p.to, Late: p.late}
	for _, s := range p.sides {
		result.Requests = s.requests
		one := Side{
			Version: version(s.rules), Refused: s.refused, Reasons: map[string]int64{},
			NewlyRefused: s.newlyRefused, NewlyAdmitted: s.newlyAdmitted,
			Rules: s.ruled(), Keys: p.named(&s.keys), NewKeys: p.named(&s.newKeys),
			Forgotten: s.store.Forgotten(), Start: s.bins.start, Width: s.bins.width, Bins: slices.Clone(s.bins.all),
		}
		for reason, n := range s.reasons {
			if n > 0 {
				one.Reasons[rules.Reason(reason).String()] = n
			}
		}
		result.Sides = append(result.Sides, one)
	}
	return result
}

func version(c *rules.Compiled) string {
	if c == nil {
		return ""
	}
	return c.Version()
}

// ruled returns the counts by rule, in the order of the file.
func (s *side) ruled() (all []Rule) {
	if s.rules == nil {
		return nil
	}
	for _, r := range s.rules.Set().Rules {
		c := s.byRule[r.Name]
		if c == nil {
			c = &ruleCount{}
		}
		one := Rule{Name: r.Name, Asked: c.asked, Refused: c.refused, Shadowed: c.shadowed}
		if c.keys != nil {
			one.Keys = c.keys.count()
		}
		if c.touched != nil {
			one.Touched = c.touched.count()
		}
		all = append(all, one)
	}
	return all
}

// named returns the keys that were counted most often.
func (p *Replay) named(t *top) (all []Key) {
	for _, c := range t.most(p.options.Top) {
		k := Key{Rule: c.rule, Refused: c.n, Extra: c.extra, First: c.first, Last: c.last}
		if _, values, _ := strings.Cut(c.key, "\x00"); values != "" {
			k.Name = p.options.Name(values)
		}
		all = append(all, k)
	}
	return all
}
