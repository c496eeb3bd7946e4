package replay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/outcome"
	"github.com/throttle-go/throttle/cmd/throttle/internal/suggest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// keyed finds the key of each request, by the code of rules, and counts it.
type keyed struct {
	rules *rules.Compiled
	peaks suggest.Peaks
	key   string // of the request at hand
	none  int64  // requests that lack a part of the key
}

// proposed is the rule of a proposal.
func (o *options) proposed() rules.Rule {
	name := "by-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, o.suggest)
	r := rules.Rule{Name: name[:min(len(name), 64)], Key: strings.Split(o.suggest, "+"), Missing: rules.Pass}
	if o.only != "" {
		method, path, both := strings.Cut(o.only, " ")
		if both {
			r.Match.Methods = []string{method}
		} else {
			path = o.only
		}
		r.Match.Paths = []string{strings.TrimSpace(path)}
	}
	return r
}

func newKeyed(o *options) (*keyed, error) {
	r := o.proposed()
	r.Limits = []rules.Limit{{Count: 1, Period: suggest.Periods[0]}}
	c, err := rules.Compile(rules.Set{Rules: []rules.Rule{r}}, o.known()...)
	if err != nil {
		if e := (*rules.Error)(nil); errors.As(err, &e) && strings.Contains(e.Path, "match") {
			return nil, usage.Errorf("replay: -only %q: %s", o.only, e.What)
		}
		return nil, usage.Errorf("replay: -suggest %q: %s; join several by +", o.suggest, flaw(err))
	}
	return &keyed{rules: c}, nil
}

// flaw is what is wrong with a rule, without its place.
func flaw(err error) string {
	if e := (*rules.Error)(nil); errors.As(err, &e) {
		return e.What
	}
	return err.Error()
}

// Take notes the key.
func (k *keyed) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	k.key = a[0].Key
	d[0] = limit.Decision{OK: true}
	return true, nil
}

func (k *keyed) add(ctx context.Context, r rules.Request) error {
	k.key = ""
	if _, err := k.rules.Decide(ctx, k, r); err != nil {
		return err
	}
	if k.key == "" {
		k.none++
		return nil
	}
	k.peaks.Add(outcome.Hash(k.key), r.Now)
	return nil
}

// propose returns the proposal.
func (w *work) propose() *suggest.Proposal {
	flood, err := w.floodLimit()
	if w.peaks == nil || err != nil { // it was checked
		return nil
	}
	p := w.peaks.peaks.Propose(suggest.Options{Touch: w.touch, Flood: flood})
	return &p
}

// writeRules writes the proposal as a file of rules.
func (w *work) writeRules(to io.Writer, p *suggest.Proposal) error {
	r := w.proposed()
	for _, l := range p.Limits {
		r.Limits = append(r.Limits, rules.Limit(l.Limit))
	}
	data, err := json.MarshalIndent(rules.Set{Rules: []rules.Rule{r}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(data, '\n'))
	return err
}
