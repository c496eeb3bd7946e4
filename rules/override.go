package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/internal/glob"
)

// overrides are the overrides of a rule, indexed for look-up.
type overrides struct {
	// exact finds limits by the tail of a key, which has the values in it.
	exact map[string]*terms
	other []override
}

type override struct {
	values []valuePattern
	terms  terms
}

// A valuePattern is a glob, or, if it is valid, a network.
type valuePattern struct {
	net  netip.Prefix
	glob glob.Pattern
}

// find returns the limits for the request whose key ends in tail, or nil if they are
// the rule's. No part of the key is missing.
func (o *overrides) find(q *question, parts []int, tail []byte) *terms {
	for t := o.exact[string(tail)]; t != nil; t = t.next {
		if !ended(t.until, q.r.Now) {
			return t
		}
	}
	for i := range o.other {
		if v := &o.other[i]; !ended(v.terms.until, q.r.Now) && v.match(q, parts) {
			return &v.terms
		}
	}
	return nil
}

func (o *override) match(q *question, parts []int) bool {
	for i, p := range o.values {
		if p.net.IsValid() {
			if !p.net.Contains(q.address) {
				return false
			}
			continue
		}
		if value, _ := q.value(parts[i]); !p.glob.Match(value) {
			return false
		}
	}
	return true
}

func (k *compiler) overrides(path string, r *Rule, parts []int, base terms) (o overrides) {
	if len(r.Overrides) > maxEntries {
		k.fail(path+".overrides", "more than %d overrides", maxEntries)
	}
	o.exact = make(map[string]*terms, len(r.Overrides))
	stars := 0
	for i := range r.Overrides {
		v, at := &r.Overrides[i], item(path+".overrides", i)
		other := terms{limits: k.limits(at+".limits", v.Limits), most: int64(v.InFlight), until: v.Until}
		k.note(at, v.Note)
		if strings.Contains(strings.Join(v.Key, ""), "*") {
			stars++
		}
		switch {
		case len(r.Key) == 0:
			k.fail(at, "the rule has no key; nothing can be overridden")
		case len(v.Key) != len(r.Key):
			k.fail(at+".key", "the rule's key has %d parts, so write %d patterns", len(r.Key), len(r.Key))
		case v.InFlight < 0:
			k.fail(at+".in_flight", "must be above zero")
		case len(v.Limits) == 0 && v.InFlight == 0:
			k.fail(at, "neither limits nor in_flight; to limit nothing, write \"limits\": \"unlimited\"")
		case stars > maxPatterns:
			k.fail(at, "more than %d overrides with '*'", maxPatterns)
		case len(o.other) >= maxNetworks:
			k.fail(at, "more than %d overrides with '*' or a network", maxNetworks)
		}
		if k.err != nil {
			return o
		}
		if len(v.Limits) == 0 {
			other.limits = base.limits
		}
		if v.InFlight == 0 {
			other.most = base.most
		}
		k.override(at, v.Key, parts, other, &o)
	}
	return o
}

// override adds one, which has as many patterns as there are parts.
func (k *compiler) override(path string, key []string, parts []int, t terms, o *overrides) {
	var tail []byte
	exact := true
	values := make([]valuePattern, len(key))
	for i, pattern := range key {
		p := k.c.parts[parts[i]]
		at := item(path+".key", i)
		tail = appendPart(tail, p)
		v := valuePattern{glob: k.pattern(at, p, pattern)}
		switch {
		case p.kind != byAddress:
			exact = exact && v.glob.Exact()
			tail = appendValue(tail, p, v.glob[0])
		case pattern == "*":
			exact = false
		default:
			v.net = k.network(at, pattern)
			whole := v.net.IsValid() && v.net.Bits() == k.c.bits.of(v.net.Addr())
			exact = exact && whole
			tail = appendAddress(tail, v.net.Addr(), k.c.bits)
		}
		values[i] = v
	}
	switch first := o.exact[string(tail)]; {
	case k.err != nil:
	case !exact:
		o.other = append(o.other, override{values, t})
	case first == nil:
		o.exact[string(tail)] = &t
	case !first.then(t):
		k.fail(path+".key", "another override has the same key, and does not end; or more than %d of them do", mostTwins)
	}
}

// mostTwins bounds the overrides of one key, which end one after the other.
const mostTwins = 8

// then makes other count when t and those that follow it have ended; not ok if
// they do not end, or are too many.
func (t *terms) then(other terms) (ok bool) {
	n := 1
	for ; t.next != nil; t = t.next {
		n++
	}
	if n >= mostTwins {
		return false
	}
	if t.until.IsZero() {
		return false
	}
	t.next = &other
	return true
}

// network returns a network that is not smaller than what makes one key.
func (k *compiler) network(path, pattern string) netip.Prefix {
	p, what := parseNetwork(pattern)
	switch {
	case what != "":
		k.fail(path, "%s, or \"*\"", what)
	case p.Bits() > k.c.bits.of(p.Addr()):
		larger, _ := p.Addr().Prefix(k.c.bits.of(p.Addr()))
		k.fail(path, "all of %v is one client, see ipv4_prefix and ipv6_prefix; write that", larger)
	}
	return p
}

// fitting returns the overrides of a rule by hand that compile with those of the
// rule, and says of each other one why it does not.
func (o *Overlay) fitting(name string, r Rule, bits addressBits) (fit []Override, left []string) {
	all := o.Overrides[name]
	f := fitter{key: r.Key, bits: bits, known: map[string]bool{}, chains: map[string]int{}}
	for _, part := range r.Key {
		f.known[part] = true // as far as it matters here
	}
	// What comes first must let what follows count, so the last is tried first.
	for _, v := range slices.Backward(without(r.Overrides, endless(all), sameOverride)) {
		_ = f.add(v) // the rule is checked by itself
	}
	for _, v := range slices.Backward(all) {
		if what := f.add(v); what != "" {
			left = append(left, leftOut(name, v, what))
			continue
		}
		fit = append(fit, v)
	}
	slices.Reverse(fit)
	slices.Reverse(left)
	return fit, left
}

// leftOut is the line about an override that is left out.
func leftOut(rule string, v Override, why string) string {
	return fmt.Sprintf("override of rule %q for %s: %s", rule, keyWords(v.Key), why)
}

// endless returns the overrides that do not end.
func endless(all []Override) []Override {
	return slices.DeleteFunc(slices.Clone(all), func(v Override) bool { return !v.Until.IsZero() })
}

// fitter checks overrides of one rule, each in front of those before, with the
// bounds of the compiler.
type fitter struct {
	key                 []string
	bits                addressBits
	known               map[string]bool
	chains              map[string]int // how many have one key
	count, stars, other int
}

// add adds an override, or says why it does not fit.
func (f *fitter) add(v Override) (what string) {
	if len(v.Key) != len(f.key) || len(f.key) == 0 {
		return fmt.Sprintf("the rule's key has %d parts", len(f.key))
	}
	k := &compiler{c: &Compiled{bits: f.bits}, known: f.known}
	parts := k.key("", &Rule{Key: f.key})
	if k.err != nil {
		return "" // which is the rule's fault
	}
	one := overrides{exact: map[string]*terms{}}
	k.override("", v.Key, parts, terms{}, &one)
	star := 0
	if strings.Contains(strings.Join(v.Key, ""), "*") {
		star = 1
	}
	n := 0
	for tail := range one.exact {
		n = f.chains[tail]
	}
	switch {
	case k.err != nil:
		return k.err.What
	case n > 0 && v.Until.IsZero():
		return "one of the rule has the same key"
	case n >= mostTwins:
		return fmt.Sprintf("more than %d have the same key", mostTwins)
	case f.count >= maxEntries, f.stars+star > maxPatterns, f.other+len(one.other) > maxNetworks:
		return fmt.Sprintf("more than %d overrides, %d with '*', or %d with '*' or a network", maxEntries, maxPatterns, maxNetworks)
	}
	for tail := range one.exact {
		f.chains[tail]++
	}
	f.count, f.stars, f.other = f.count+1, f.stars+star, f.other+len(one.other)
	return ""
}
