package signal

import (
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// readLimit reads one limit of a preset, whose numbers stand in fields of their
// own or together in one, and reports whether anything was there.
func (r *reader) readLimit(l *limits, policies []member) (found bool) {
	if l.From != "" {
		text := r.text(l.From)
		if text == "" {
			return false
		}
		before := r.policies
		r.readShape(l, text)
		if r.notes != nil && before == r.policies {
			r.ignore(l.From, text, "not of the form %s", l.Shape)
		}
		return r.policies > before
	}
	p := Policy{Name: l.Name, Unit: l.Unit}
	if p.Unit == "" {
		p.Unit = requests
	}
	if r.readLists(p, l) {
		return true
	}
	by := r.readNumbers(&p, l, policies)
	if by == "" {
		return false
	}
	if l.NameFrom != "" {
		if name := cut(r.text(l.NameFrom)); name != "" {
			p.Name = name
			if r.notes != nil {
				r.note(l.NameFrom, "name of the limit")
			}
		}
	}
	r.complete(&p, l)
	if l.Zero != "" && p.Limit.OK && p.Limit.V == 0 {
		p = Policy{Name: p.Name, Unit: l.Zero, Remaining: p.Remaining}
	}
	if l.Max > 0 && !p.Limit.OK {
		p.Limit = pace.Some(l.Max)
		if r.notes != nil {
			r.note("default", "limit %d in %v, as the vendor documents", l.Max, p.Window.V)
		}
	}
	if r.knows(p) || p.Name == "" && r.fill(p, by) {
		return true
	}
	if l.Refills && p.Remaining.OK {
		r.refills(&p, by)
	}
	r.take(l, p, by)
	return true
}

// knows reports whether a policy of that name has been read: some servers tell
// of the same limit twice.
func (r *reader) knows(p Policy) bool {
	if p.Name == "" {
		return false
	}
	if r.policies == 1 && r.one.Name == p.Name && r.one.Unit == p.Unit {
		return true
	}
	for _, q := range r.Policies {
		if q.Name == p.Name && q.Unit == p.Unit {
			return true
		}
	}
	return false
}

// fill gives the reset of p, which has no name, to the policy of a name and a window that it
// tells again, as Kong does, and reports whether there is one. Of several it is the shortest that
// lasts until then.
func (r *reader) fill(p Policy, by string) bool {
	if !p.Limit.OK || !p.Remaining.OK || !p.Reset.OK {
		return false
	}
	tells := func(q *Policy) bool {
		return q.Name != "" && q.Limit == p.Limit && q.Remaining == p.Remaining && q.Unit == p.Unit &&
			!q.Reset.OK && q.Window.V >= p.Reset.V
	}
	var is *Policy
	if r.policies == 1 && tells(&r.one) {
		is = &r.one
	}
	for i := range r.Policies {
		if q := &r.Policies[i]; tells(q) && (is == nil || q.Window.V < is.Window.V) {
			is = q
		}
	}
	if is == nil {
		return false
	}
	if is.Reset = p.Reset; is.isEmpty() {
		r.exhausted(is.Reset, by)
	}
	r.bind(*is)
	return true
}

// take adds a policy, and notes what the limit is about: of several, the first that is used up,
// else the one that binds, whose numbers are those of the Signal. Of a limit of each route a
// name of the preset's own says nothing, as it is the same for all routes.
func (r *reader) take(l *limits, p Policy, by string) {
	before := r.none
	binds := r.add(p, by)
	if l.Scope == "" || before || r.limitScope != ScopeUnknown && !binds && !p.isEmpty() {
		return
	}
	r.limitScope, r.limitName = scopeNamed(l.Scope), p.Name
	if r.limitScope == ScopeRoute && p.Name == l.Name {
		r.limitName = ""
	}
}

// readNumbers reads what is there of a limit, and names the field that tells
// most, or nothing if none is there.
func (r *reader) readNumbers(p *Policy, l *limits, policies []member) (by string) {
	if text := r.there(l.Limit); text != "" {
		// Early drafts put policies behind the limit: "12, 12;w=1".
		if all := parse(text); len(all) > 0 {
			p.Limit, p.Window = count(all[0].value), window(all[0].param("w"))
			policies = append(all[1:], policies...)
		}
		if r.notes != nil {
			r.noteCount(l.Limit, text, "limit", p.Limit)
		}
	}
	p.Remaining = r.number(p, l.Remaining, "remaining")
	used := r.number(p, l.Used, "used")
	switch {
	case used.OK && p.Limit.OK && !p.Remaining.OK:
		p.Remaining = pace.Some(max(p.Limit.V-used.V, 0))
	case used.OK && p.Remaining.OK && !p.Limit.OK:
		p.Limit = pace.Some(min(used.V+p.Remaining.V, maxCount))
	}
	if text := r.there(l.Reset); text != "" {
		p.Reset = r.span(text, l.Is)
		if r.notes != nil {
			r.noteSpan(l.Reset, text, l.Is, "reset", p.Reset)
		}
	}
	switch {
	case !p.complete(policies):
		return ""
	case p.Reset.OK && (!p.Remaining.OK || p.isEmpty()):
		return l.Reset
	case p.Remaining.OK && l.Remaining != "":
		return l.Remaining
	}
	return l.Limit
}

// there is the text at a place that may not be named.
func (r *reader) there(from string) string {
	if from == "" {
		return ""
	}
	return r.text(from)
}

// number reads a count at a place that may not be named, perhaps with the
// window that it is of, as in "0;w=21600".
func (r *reader) number(p *Policy, from, what string) pace.Opt[int64] {
	text := r.there(from)
	n := count(text)
	if !n.OK && strings.IndexByte(text, ';') > 0 {
		if all := parse(text); len(all) == 1 {
			n, p.Window = count(all[0].value), or(p.Window, window(all[0].param("w")))
		}
	}
	if r.notes != nil && text != "" {
		r.noteCount(from, text, what, n)
	}
	return n
}

// complete fills in what a preset knows of the window and the reset.
func (r *reader) complete(p *Policy, l *limits) {
	if text := r.there(l.WindowFrom); text != "" {
		if d := r.ahead(text, l.WindowIs); d.OK && d.V > 0 && d.V <= maxWindow {
			p.Window = d
		}
		if r.notes != nil {
			r.noteSpan(l.WindowFrom, text, l.WindowIs, "window", p.Window)
		}
	}
	if l.Window > 0 && !p.Window.OK {
		p.Window = pace.Some(time.Duration(l.Window) * time.Second)
	}
	if l.Aligned && p.Window.OK && !p.Reset.OK {
		p.Reset = believed(pace.Some(untilMultiple(r.clock(), p.Window.V)))
	}
}

// refills reads a limit whose reset is when a token bucket is full again. Nothing ends then, so
// it is no reset: a bucket of a day that is used up has a request long before. A refusal waits
// until then at most.
func (r *reader) refills(p *Policy, by string) {
	if p.isEmpty() {
		r.exhausted(p.Reset, by)
	}
	p.Full, p.Reset = p.Reset, pace.Opt[time.Duration]{}
}
