package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/outcome"
	"github.com/throttle-go/throttle/cmd/throttle/internal/suggest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// keyed finds the key of each request, by the code of rules, and counts it.
type keyed struct {
	rules *rules.Compiled
	peaks suggest.Peaks
	key   string // of the request at hand
	none  int64  // requests that lack a part of the key, of those that match
}

// proposedBegins is how the file of a proposal begins, whatever its key is.
const proposedBegins = "{\n  \"rules\": [\n    {\n      \"name\": \"by-"

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
	r.Limits, r.Missing = []rules.Limit{{Count: 1, Period: suggest.Periods[0]}}, rules.Refuse // which tells them from others
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
	switch a, err := k.rules.Decide(ctx, k, r); {
	case err != nil:
		return err
	case a.Reason == rules.NoKey:
		k.none++
	case k.key != "":
		k.peaks.Add(outcome.Hash(k.key), r.Now)
	}
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

// nothing is why there is no limit in a proposal from a log that covers a time.
func (w *work) nothing(p *suggest.Proposal, covers time.Duration) string {
	switch {
	case p.Flooding > 0 && p.Honest == 0:
		return "each key is above -flood " + w.flood + ", which leaves none that is honest; raise it"
	case p.Honest > 0:
		return fmt.Sprintf("the log covers %s, and a limit by 10s needs 80 s", words.Lasting(covers.Truncate(time.Second)))
	case w.peaks.none > 0 && w.only != "":
		return fmt.Sprintf("no request that matches -only %s has a %s; -fields names what the log has", words.Quote(w.only), w.suggest)
	case w.peaks.none > 0:
		return "no request has a " + w.suggest + "; -fields names what the log has"
	}
	return "no request matches -only " + words.Quote(w.only)
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
