package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// live returns the rules, which are kept fresh until ctx ends, and what they are
// in words.
func (o *options) live(ctx context.Context, log *slog.Logger) (live *rules.Live, what string, err error) {
	if o.rules != "" {
		return o.file(ctx, log)
	}
	set := rules.Set{Proxies: rules.Proxies{Trusted: o.trust}}
	var all []string
	for i, text := range o.limits {
		rule, err := ruleOf(text, o.Identity.Header != "", len(o.trust) > 0)
		if err != nil {
			return nil, "", err
		}
		rule.Name = fmt.Sprintf("limit-%d", i+1)
		set.Rules = append(set.Rules, rule)
		all = append(all, text)
	}
	compiled, err := rules.Compile(set)
	if flaw := (*rules.Error)(nil); errors.As(err, &flaw) && strings.HasPrefix(flaw.Path, "proxies.") {
		return nil, "", usage.Errorf("gateway: -trust: %s", flaw.What)
	}
	if err != nil {
		return nil, "", usage.Errorf("gateway: -limit: %v", err)
	}
	live = new(rules.Live)
	live.Swap(compiled)
	if len(all) == 0 {
		all = []string{"no limit by key"}
	}
	return live, strings.Join(all, ", "), nil
}

// ruleOf reads RATE by KEY; known says that there are clients, trusting that there are
// trusted proxies.
func ruleOf(text string, known, trusting bool) (r rules.Rule, err error) {
	rate, key, keyed := strings.Cut(text, " by ")
	l, err := limit.Parse(strings.TrimSpace(rate), time.LoadLocation)
	if err != nil {
		return r, usage.Errorf("gateway: -limit %s: %s", words.Quote(text), flawOf(err, rate))
	}
	r.Limits = []rules.Limit{rules.Limit(l)}
	if !keyed {
		return r, nil
	}
	for part := range strings.SplitSeq(key, "+") {
		part = strings.TrimSpace(part)
		if part == "client" && !known {
			return r, usage.Errorf("gateway: -limit %s: the gateway authenticates nobody, so there is no client; write -identity, or address or header:NAME", words.Quote(text))
		}
		name, _ := strings.CutPrefix(part, "header:")
		if why := Removes(name, false, trusting); name != part && why != "" {
			return r, usage.Errorf("gateway: -limit %s: no request has %s: %s; write another field, or address with -trust", words.Quote(text), words.Quote(name), why)
		}
		r.Key = append(r.Key, part)
	}
	if _, err := rules.Compile(rules.Set{Rules: []rules.Rule{{Name: "limit", Key: r.Key, Limits: r.Limits}}}); err != nil {
		var flaw *rules.Error
		if errors.As(err, &flaw) {
			err = errors.New(flaw.What)
		}
		return r, usage.Errorf("gateway: -limit %s: %v", words.Quote(text), err)
	}
	return r, nil
}

// flawOf is what an error of limit.Parse says, without the text that it quotes: the whole
// -limit stands before it.
func flawOf(err error, rate string) string {
	text := strings.TrimPrefix(err.Error(), "limit: ")
	return strings.TrimPrefix(text, fmt.Sprintf("%.60q: ", strings.TrimSpace(rate)))
}

// file reads a file of rules, now and then.
func (o *options) file(ctx context.Context, log *slog.Logger) (*rules.Live, string, error) {
	src := &rules.Source{Fetch: rules.FromFile(o.rules), Read: tree.Rules, Every: o.refresh}
	src.OnState = o.reporter(log)
	if err := src.Refresh(ctx); err != nil {
		if flaw := new(rules.Error); errors.As(err, &flaw) {
			place := o.rules
			if flaw.Line > 0 {
				place += fmt.Sprintf(":%d:%d", flaw.Line, flaw.Column)
			}
			return nil, "", usage.Errorf("gateway: -rules %s: %s%s", place, strings.TrimPrefix(flaw.Path+": ", ": "), flaw.What)
		}
		if unread := new(fs.PathError); errors.As(err, &unread) {
			return nil, "", usage.Errorf("gateway: -rules %s: %v", o.rules, unread.Err)
		}
		return nil, "", exit.Failf("gateway: -rules: %v", err)
	}
	o.reload = src.Refresh
	go src.Run(ctx) // until ctx ends
	return &src.Live, "rules " + src.Status().Version + " of " + o.rules, nil
}

// reporter returns the OnState of the file of rules, once it was read: it says that there
// are new ones, what is wrong with it, once, and that it is well again.
func (o *options) reporter(log *slog.Logger) func(rules.Status) {
	swaps, wrong := int64(0), ""
	return func(is rules.Status) {
		text := ""
		if is.Err != nil {
			text = is.Err.Error()
		}
		switch {
		case swaps == 0: // the first is told otherwise
		case is.Swaps > swaps:
			log.Info("new rules", "file", o.rules, "version", is.Version)
		case text == wrong:
		case text == "":
			log.Info("the rules can be read again", "file", o.rules, "version", is.Version)
		default:
			log.Error("the rules stay as they are", "file", o.rules, "version", is.Version, "err", text)
		}
		swaps, wrong = is.Swaps, text
	}
}
