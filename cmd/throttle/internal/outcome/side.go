package outcome

import (
	"context"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
)

// side decides by one version of rules, with states of its own.
type side struct {
	rules *rules.Compiled
	store clocked

	requests, refused int64
	reasons           [rules.Away + 1]int64
	byRule            map[string]*ruleCount
	keys              top
	bins              bins

	newlyRefused, newlyAdmitted int64
	newKeys                     top // of those newly refused
}

// ruleCount counts for one rule.
type ruleCount struct {
	name          string
	asked         int64 // requests that its limits were asked about
	refused       int64 // of these, those that a limit of it refused
	shadowed      int64 // requests that it would have refused, as a shadow rule
	keys, touched *distinct
	last          int64 // the request that it was counted for
	said          int64 // the request that it refused
}

// clocked is a memory.Store at the time of the request at hand. It remembers what it
// was asked about it.
type clocked struct {
	memory.Store
	now     time.Time
	side    *side
	binding string // the key of the limit that refused the request at hand
}

// Take decides as the Store would have at that time.
func (c *clocked) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	ok, err = c.TakeAt(c.now, a, d)
	if err != nil {
		return ok, err
	}
	if !ok && c.binding == "" {
		c.binding = a[limit.Binding(d)].Key
	}
	for i := range a {
		c.side.asked(&a[i], d[i].OK)
	}
	return ok, nil
}

// asked counts one ask of the request at hand for its rule.
func (s *side) asked(a *limit.Ask, ok bool) {
	slash := strings.IndexByte(a.Key, '/')
	if slash < 0 || strings.HasPrefix(a.Key[slash:], "/s") { // a limit that is tried out beside others
		return
	}
	r := s.rule(a.Key[:slash])
	if r.last != s.requests { // not another limit of the same rule
		r.last = s.requests
		r.asked++
		if r.keys == nil {
			r.keys = new(distinct)
		}
		r.keys.add(Hash(tailOf(a.Key)))
	}
	if !ok && r.said != s.requests {
		r.said = s.requests
		r.refused++
		if r.touched == nil {
			r.touched = new(distinct)
		}
		r.touched.add(Hash(tailOf(a.Key)))
	}
}

// tailOf returns the parts of a key, without the rule and the number of the limit.
func tailOf(key string) string {
	_, key, _ = strings.Cut(key, "/")
	_, key, _ = strings.Cut(key, "/")
	return key
}

func (s *side) rule(name string) *ruleCount {
	r := s.byRule[name]
	if r == nil {
		name = strings.Clone(name)
		r = &ruleCount{name: name, last: -1, said: -1}
		s.byRule[name] = r
	}
	return r
}

// decide decides a request and counts it.
func (s *side) decide(ctx context.Context, r rules.Request) (rules.Answer, error) {
	s.requests++
	s.store.now, s.store.binding = r.Now, ""
	a, err := s.rules.Decide(ctx, &s.store, r)
	if err != nil {
		return a, err
	}
	s.reasons[a.Reason]++
	bin := s.bins.at(r.Now)
	bin.Requests++
	for _, name := range a.Shadow {
		s.rule(name).shadowed++
	}
	if a.OK {
		return a, nil
	}
	s.refused++
	bin.Refused++
	s.keys.add(s.by(&a), s.keyOf(&a), r.Now)
	return a, nil
}

// compare counts an answer that differs from that of the first version.
func (s *side) compare(first, a *rules.Answer) {
	switch {
	case a.OK == first.OK:
	case a.OK:
		s.newlyAdmitted++
	default:
		s.newlyRefused++
		s.newKeys.add(s.by(a), s.keyOf(a), s.store.now)
	}
}

// by names what refused: a rule, or an entry of the deny list.
func (s *side) by(a *rules.Answer) string {
	if a.Reason == rules.Denied {
		return "deny " + a.Entry
	}
	return a.Rule
}

// keyOf returns the values of the key that was refused; of other refusals than by a
// limit there are none.
func (s *side) keyOf(a *rules.Answer) string {
	if a.Reason != rules.Over {
		return ""
	}
	return tailOf(s.store.binding)
}
