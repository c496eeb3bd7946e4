package signal

import (
	"cmp"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// This file reads the RateLimit and RateLimit-Policy fields of
// draft-ietf-httpapi-ratelimit-headers in all their forms.

// readPolicies reads the RateLimit-Policy field.
func (r *reader) readPolicies() []member {
	text := r.field("RateLimit-Policy")
	policies := parse(text)
	if r.notes != nil && text != "" {
		r.notePolicies(text, len(policies))
	}
	return policies
}

// readDrafts reads the RateLimit field.
func (r *reader) readDrafts(policies []member) (found bool) {
	text := r.field("RateLimit")
	if text == "" {
		return false
	}
	current := parse(text)
	if r.notes != nil && current == nil {
		r.ignore("RateLimit", text, "not a structured field (RFC 9651)")
	}
	found = r.readItems(current, policies) || r.readDictionary(current, policies)
	if r.notes != nil && current != nil && !found {
		r.ignore("RateLimit", text, "says neither how many remain (r=50) nor a limit=100, remaining=99, reset=50")
	}
	return found
}

// readItems reads `"default";r=50;t=30`, the form since draft-08.
func (r *reader) readItems(items, policies []member) (found bool) {
	for _, m := range items {
		left := count(m.param("r"))
		if m.key != "" || !left.OK {
			continue
		}
		p := Policy{Name: cut(m.value), Remaining: left, Reset: seconds(m.param("t"))}
		q, _ := named(policies, m.value)
		p.Partition = cut(cmp.Or(m.param("pk"), q.param("pk"))) // either field may state it
		p.Unit = unitOf(q)
		p.Limit, p.Window = quota(q)
		p.Burst = count(q.param(burstParam))
		same, part := r.restates(p), share(m.param(shareParam))
		if r.add(p, "RateLimit") && (part.OK || !same) {
			r.Share = part
		}
		if r.notes != nil {
			r.notePolicy(p, "RateLimit")
			if t := m.param("t"); t != "" && !p.Reset.OK {
				r.ignore("RateLimit", "t="+t, "not a number of seconds")
			}
		}
		found = true
	}
	return found
}

// The parameters of our own, with the identifier of a vendor before their names
// as the draft asks.
const (
	burstParam = "throttle-burst" // of RateLimit-Policy
	shareParam = "throttle-share" // of RateLimit
)

// MaxShare bounds a Share, as a rate a second; a higher one is ignored.
const MaxShare = 1e9

// share reads the parameter of our own that Write adds.
func share(text string) pace.Opt[float64] {
	if x, ok := decimal(text); ok && x > 0 && x <= MaxShare {
		return pace.Some(x)
	}
	return pace.Opt[float64]{}
}

// named is the policy of that name. Servers exist whose names do not agree:
// where there is only one policy, that is the one.
func named(policies []member, name string) (p member, ok bool) {
	for _, p := range policies {
		if p.value == name {
			return p, true
		}
	}
	if len(policies) == 1 {
		return policies[0], true
	}
	return member{}, false
}

func unitOf(policy member) string {
	if unit := policy.param("qu"); unit != "" {
		return cut(unit)
	}
	return requests
}

// quota is how many in how long a policy allows: `"burst";q=100;w=60`, and
// `100;w=60` before draft-08.
func quota(policy member) (limit pace.Opt[int64], per pace.Opt[time.Duration]) {
	text := policy.param("q")
	if text == "" {
		text = policy.value
	}
	return count(text), window(policy.param("w"))
}

// readDictionary reads `limit=100, remaining=99, reset=50`, the form of
// draft-07.
func (r *reader) readDictionary(members, policies []member) (found bool) {
	p := Policy{Unit: requests}
	for _, m := range members {
		switch m.key {
		case "limit":
			p.Limit = count(m.value)
		case "remaining":
			p.Remaining = count(m.value)
		case "reset":
			p.Reset = seconds(m.value)
		}
	}
	if !p.complete(policies) {
		return false
	}
	r.add(p, "RateLimit")
	if r.notes != nil {
		r.notePolicy(p, "RateLimit")
	}
	return true
}

// complete reports whether anything was found, and if so finds the window of
// the limit, which had no name to go by then: the policy of the same limit, or
// the only one.
func (p *Policy) complete(policies []member) (found bool) {
	if !p.Limit.OK && !p.Remaining.OK && !p.Reset.OK {
		return false
	}
	for _, m := range policies {
		limit, per := quota(m)
		if unitOf(m) == requests && limit.OK && (limit == p.Limit && per.OK || !p.Limit.OK && len(policies) == 1) {
			p.Limit, p.Window = limit, per
			break
		}
	}
	return true
}
