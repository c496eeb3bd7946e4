package admin

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// editWithin bounds one change of the overlay. It is made even if its caller goes.
const editWithin = 10 * time.Second

// edit changes the overlay, in all instances.
func (s *server) edit(ctx context.Context, note rules.Note, change func(*rules.Overlay) error) error {
	if s.c.Stack == nil || s.c.Stack.Shared == nil {
		return failf(http.StatusConflict, "this process has no overlay to write to: set rules.overlay in its file")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), editWithin)
	defer cancel()
	asked := false
	err := s.c.Stack.Edit(ctx, note, func(o *rules.Overlay) error { asked = true; return change(o) })
	if err != nil && !asked {
		return failf(http.StatusServiceUnavailable, "%v; nothing was changed: send it again once the overlay can be read", err)
	}
	return editProblem(err)
}

// editProblem says whose fault an error of the overlay is.
func editProblem(err error) error {
	var flaw *rules.Error
	var p *problem
	var known interface{ Unchanged() bool }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	case errors.As(err, &flaw):
		return failf(http.StatusBadRequest, "%s%s", strings.TrimPrefix(flaw.Path+": ", ": "), flaw.What)
	case errors.As(err, &known) && known.Unchanged():
		return failf(http.StatusServiceUnavailable, "%v; nothing was changed: send it again once the store takes writes", err)
	case unwritable(err):
		return failf(http.StatusServiceUnavailable, "%v; nothing was changed: let this process write to the folder of rules.overlay, and send it again", err)
	}
	return failf(http.StatusServiceUnavailable, "%v; whether it was changed is not known: look when the store is back, before you send it again", err)
}

// unwritable reports whether a file could not be made beside that of the overlay, or not
// written whole, as on a disk that is full: it would have replaced it after that.
func unwritable(err error) bool {
	e := (*fs.PathError)(nil)
	if errors.As(err, &e) && e.Op == "write" {
		return true
	}
	if e == nil || e.Op != "open" || !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, fs.ErrPermission) {
		return false
	}
	info, err := os.Stat(e.Path)
	return err != nil || !info.IsDir() // a folder is opened after the file was replaced
}

// overlay is GET /api/v1/overlay.
func (s *server) overlay(w http.ResponseWriter, _ *http.Request) error {
	if s.c.Stack == nil {
		return failf(http.StatusNotFound, "this process has no overlay: set rules.overlay in its file")
	}
	o, left := s.c.Stack.Overlay()
	reply(w, map[string]any{"overlay": o, "unused": list(left)})
	return nil
}

// note is what stands beside a change that ends at until; zero for never.
func (y *reason) note(until time.Time) rules.Note {
	return rules.Note{Until: until, At: time.Now().UTC().Truncate(time.Second), Why: y.Why, By: y.By}
}

// over is a note that has ended: what has it is removed.
func (y *reason) over() rules.Note { return y.note(time.Unix(1, 0).UTC()) }

// raising is the body of /api/v1/raise: other limits for a key of a rule.
type raising struct {
	Rule string `json:"rule"`
	// Key has a value for each part of the rule's key, or with Pattern a pattern.
	Key     parts `json:"key"`
	Pattern bool  `json:"pattern"`
	// Limits replace the rule's; or Times multiplies what the key has now.
	Limits   rates     `json:"limits"`
	Times    float64   `json:"times"`
	InFlight rules.Max `json:"in_flight"`
	lasting
}

// rates are limits in JSON, as rules have them: a list, or one text.
type rates []rules.Limit

// UnmarshalJSON reads text such as "100/s burst 20".
func (l *rates) UnmarshalJSON(data []byte) error {
	all, err := several[string](data)
	if err != nil {
		return errors.New(`limits: must be text, or a list of texts, as "limits": ["100/s burst 20"]`)
	}
	*l = nil
	for _, text := range all {
		read, err := limit.Parse(text, time.LoadLocation)
		if err != nil {
			return errors.New("limits: " + strings.TrimPrefix(err.Error(), "limit: "))
		}
		*l = append(*l, rules.Limit(read))
	}
	return nil
}

// maxTimes bounds a raise by a factor.
const maxTimes = 1000

// raise is PUT and DELETE /api/v1/raise.
func (s *server) raise(w http.ResponseWriter, r *http.Request) error {
	var ask raising
	if err := receive(r, &ask); err != nil {
		return err
	}
	remove := r.Method == http.MethodDelete
	v := rules.Override{Key: ask.Key, Limits: ask.Limits, InFlight: ask.InFlight}
	var until time.Time
	var err error
	if !remove {
		if until, err = ask.ends(time.Now()); err != nil {
			return err
		}
		if err := cmp.Or(short(ask.Key), meant("key", ask.Pattern, ask.Key...), s.terms(&ask, &v)); err != nil {
			return err
		}
	}
	return s.audited(w, r, name(remove, "raise"), s.target(ask.Rule, ask.Key), &ask.reason, func(ctx context.Context) (any, error) {
		if v.Note = ask.note(until); remove {
			v.Note = ask.over()
		}
		err := s.edit(ctx, ask.note(until), func(o *rules.Overlay) error {
			had := slices.ContainsFunc(o.Overrides[ask.Rule], func(x rules.Override) bool { return slices.Equal(x.Key, ask.Key) })
			if remove && !had {
				return failf(http.StatusNotFound, "the overlay raises no such key of rule %.64q", ask.Rule)
			}
			o.PutOverride(ask.Rule, v)
			return nil
		})
		return ending(map[string]any{"rule": ask.Rule, "limits": v.Limits, "in_flight": v.InFlight}, until), err
	})
}

// maxPart bounds a part of the key of an override, as the rules do.
const maxPart = 256

// short refuses a key that no override can have.
func short(key []string) error {
	for _, part := range key {
		if len(part) > maxPart {
			return failf(http.StatusBadRequest, "key: %.40q has %d bytes; a key that is raised has at most %d in each part", part, len(part), maxPart)
		}
	}
	return nil
}

// meant refuses values with a '*', which the overlay takes for any text, unless the
// caller says that they are patterns: a client may have chosen such a name.
func meant(field string, pattern bool, values ...string) error {
	if pattern || !strings.Contains(strings.Join(values, ""), "*") {
		return nil
	}
	return failf(http.StatusBadRequest, `%s: '*' stands for any text; if that is meant, add "pattern": true`, field)
}

// terms checks what is asked for, and works out what Times means.
func (s *server) terms(ask *raising, v *rules.Override) error {
	asks, rule, err := s.asksOf(ask.Rule, ask.Key)
	if rule.Name == "" || len(ask.Key) != len(rule.Key) {
		return err // other errors are of a key of patterns, which need not be one
	}
	switch {
	case len(rule.Key) == 0:
		return failf(http.StatusBadRequest, "rule: %q has no key to raise; its limits are for all requests together, and stand in the rules", rule.Name)
	case !ask.Pattern && err != nil:
		return err
	case ask.InFlight < 0:
		return failf(http.StatusBadRequest, "in_flight: must be above zero")
	case ask.Times == 0 && len(ask.Limits) == 0 && ask.InFlight == 0:
		return failf(http.StatusBadRequest, `limits: are missing; write "limits": ["100/s"], "in_flight": 50, or "times": 10`)
	case ask.Times == 0:
		return nil
	case len(ask.Limits) > 0 || !(ask.Times > 0 && ask.Times <= maxTimes):
		return failf(http.StatusBadRequest, "times: must be above zero and at most %d, without limits", maxTimes)
	case err != nil:
		return err
	case len(asks) == 0:
		return failf(http.StatusBadRequest, `times: the key has no limit now; write "limits": ["100/s"] in its place`)
	}
	for _, a := range asks {
		v.Limits = append(v.Limits, rules.Limit(multiplied(a.Limit, ask.Times)))
	}
	return nil
}

// multiplied is a limit of times as many, at least one, and at most what there can be.
func multiplied(l limit.Limit, times float64) limit.Limit {
	of := func(n int64) int64 {
		if many := float64(n) * times; many < math.MaxInt64 {
			return max(int64(math.Round(many)), 1)
		}
		return math.MaxInt64
	}
	l.Count = of(l.Count)
	if l.Burst > 0 {
		l.Burst = of(l.Burst)
	}
	return l
}

// name is the name of an operation, or of its end.
func name(remove bool, what string) string {
	if remove {
		return "end " + what
	}
	return what
}

// listed is PUT and DELETE of an entry of the deny or the allow list.
func (s *server) listed(what string, put func(*rules.Overlay, rules.Entry), in func(*rules.Overlay) []rules.Entry) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var ask struct {
			Entry   string `json:"entry"`
			Pattern bool   `json:"pattern"`
			lasting
		}
		if err := receive(r, &ask); err != nil {
			return err
		}
		remove := r.Method == http.MethodDelete
		var until time.Time
		if !remove {
			var err error
			until, err = ask.ends(time.Now())
			if err = cmp.Or(err, meant("entry", ask.Pattern, ask.Entry)); err != nil {
				return err
			}
		}
		on := ask.Entry
		if !s.c.ShowKeys {
			on = keyID(ask.Entry)
		}
		return s.audited(w, r, name(remove, what), on, &ask.reason, func(ctx context.Context) (any, error) {
			e := rules.Entry{Text: ask.Entry, Note: ask.note(until)}
			if remove {
				e.Note = ask.over()
			}
			return ending(map[string]any{"entry": e.Text}, until), s.edit(ctx, ask.note(until), func(o *rules.Overlay) error {
				had := slices.ContainsFunc(in(o), func(x rules.Entry) bool { return x.Text == e.Text })
				if remove && !had {
					return failf(http.StatusNotFound, "the overlay has no such entry; one of a file ends there")
				}
				put(o, e)
				return nil
			})
		})
	}
}

// kill is PUT and DELETE /api/v1/kill: nothing is refused, all is counted.
func (s *server) kill(w http.ResponseWriter, r *http.Request) error {
	var ask lasting
	if err := receive(r, &ask); err != nil {
		return err
	}
	remove := r.Method == http.MethodDelete
	until, err := ask.ends(time.Now())
	if err != nil && !remove {
		return err
	}
	return s.audited(w, r, name(remove, "kill"), "", &ask.reason, func(ctx context.Context) (any, error) {
		k := rules.Kill{On: true, Note: ask.note(until)}
		if remove {
			k = rules.Kill{}
		}
		err := s.edit(ctx, ask.note(until), func(o *rules.Overlay) error {
			if remove && !o.Kill.On {
				return failf(http.StatusNotFound, "the kill switch of the overlay is off; one of a file is switched off there")
			}
			o.Kill = k
			return nil
		})
		return ending(map[string]any{"kill": k.On}, k.Until), err
	})
}
