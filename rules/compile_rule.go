package rules

import (
	"cmp"
	"net/textproto"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
)

func (k *compiler) rules(all []Rule) {
	if len(all) > maxRules {
		k.fail("rules", "more than %d rules", maxRules)
	}
	names := map[string]bool{}
	for i := range all {
		if k.err != nil {
			return
		}
		r, path := &all[i], item("rules", i)
		switch {
		case !isName(r.Name):
			k.fail(path+".name", "a rule needs a name: letters, digits, '-', '_' and '.', at most %d", maxName)
		case names[r.Name]:
			k.fail(path+".name", "another rule has the name %q", r.Name)
		}
		names[r.Name] = true
		done := k.rule(path, r)
		tried := k.tried(path+".shadow", r, done)
		switch { // what is off is checked all the same
		case r.Off:
		case r.Shadow.tried():
			k.c.rules = append(k.c.rules, done, tried)
		default:
			k.c.rules = append(k.c.rules, done)
		}
	}
}

func (k *compiler) rule(path string, r *Rule) rule {
	done := rule{
		name: r.Name, shadow: r.Shadow.Rule, phase: r.Phase, missing: r.Missing, away: r.Away, lookup: r.Lookup, debt: r.Debt, priority: r.Priority, cost: r.Cost,
		match: k.match(path+".match", &r.Match),
		terms: terms{limits: k.limits(path+".limits", r.Limits), most: int64(r.InFlight)},
	}
	done.parts = k.key(path+".key", r)
	k.descriptorRule(path, r, done.parts)
	k.words(path, r)
	if done.match.described && r.Cost == (Cost{}) {
		done.cost.Name = HitsAddend
	}
	if done.cost.N == 0 {
		done.cost.N = 1
	}
	switch {
	case r.Cost.N < 0:
		k.fail(path+".cost", "must be above zero")
	case r.Cost.Name != "" && !k.known[r.Cost.Name] && !(done.match.described && r.Cost.Name == HitsAddend):
		right := "write a number"
		if len(k.known) > 0 {
			right += ", or one of: " + strings.Join(sortedNames(k.known), ", ")
		}
		k.fail(path+".cost", "the program knows no %.40q; %s", r.Cost.Name, right)
	case r.Debt && done.cost.Name == "":
		k.fail(path+".debt", "is for a cost that the program names: with a number, the rule would refuse nothing")
	case r.InFlight < 0:
		k.fail(path+".in_flight", "must be above zero")
	case len(r.Limits) == 0 && r.InFlight == 0 && r.Priority == 0:
		k.fail(path, "neither limits, in_flight nor priority: the rule does nothing; write one of them, as limits: 10/s")
	}
	if k.err == nil {
		done.byPath = slices.ContainsFunc(done.parts, func(i int) bool { return k.c.parts[i].ofPath() })
		done.other = k.overrides(path, r, done.parts, done.terms)
	}
	return done
}

// tried is the shadow rule that tries out other limits beside those of a rule.
func (k *compiler) tried(path string, r *Rule, real rule) rule {
	if r.Shadow.InFlight < 0 {
		k.fail(path+".in_flight", "must be above zero")
	}
	if r.Shadow.Rule && r.Shadow.tried() {
		k.fail(path, "either the rule is a shadow rule, or limits are tried out beside its own")
	}
	real.shadow, real.tried, real.priority = true, true, 0
	real.terms = terms{limits: k.limits(path+".limits", r.Shadow.Limits), most: int64(r.Shadow.InFlight)}
	return real
}

// words checks the fields that have a few values, and those that exclude each
// other.
func (k *compiler) words(path string, r *Rule) {
	switch {
	case r.Phase != "" && r.Phase != Before && r.Phase != After:
		k.fail(path+".phase", "must be before or after")
	case !r.Missing.valid():
		k.fail(path+".missing", "must be share, pass or refuse")
	case !r.Away.valid():
		k.fail(path+".away", "must be share, pass or refuse")
	case r.Lookup && len(r.Key) == 0:
		k.fail(path+".lookup", "the rule has no key; nothing can be looked up")
	case r.Missing != "" && len(r.Key) == 0:
		k.fail(path+".missing", "the rule has no key, so no part can be missing; leave it out")
	case r.Priority > load.Critical:
		k.fail(path+".priority", "must be low, normal, high or critical")
	case r.Priority != 0 && r.Shadow.Rule:
		k.fail(path+".priority", "a shadow rule gives no priority; leave it out")
	case r.Phase == Before && r.Match.Client == Known:
		k.fail(path+".match.client", "before authentication no client is known")
	case r.Phase == Before && slices.Contains(r.Key, "client"):
		k.fail(path+".key", "before authentication no client is known")
	}
}

func (c Choice) valid() bool { return c == "" || c == Share || c == Pass || c == Refuse }

func (k *compiler) limits(path string, all []Limit) []limit.Limit {
	if len(all) > maxLimits {
		k.fail(path, "more than %d limits", maxLimits)
	}
	done := make([]limit.Limit, len(all))
	for i, l := range all {
		if what := cmp.Or(l.flaw(), l.zoneFlaw()); what != "" {
			k.fail(item(path, i), "%s", what)
		}
		done[i] = limit.Limit(l)
	}
	return done
}

func (k *compiler) key(path string, r *Rule) (parts []int) {
	if len(r.Key) > maxParts {
		k.fail(path, "more than %d parts", maxParts)
	}
	for i, text := range r.Key {
		n := k.part(item(path, i), text)
		if slices.Contains(parts, n) && n >= 0 {
			k.fail(item(path, i), "the part occurs twice")
		}
		parts = append(parts, n)
	}
	return parts
}

func (k *compiler) match(path string, m *Match) matcher {
	done := matcher{methods: slices.Clone(m.Methods), client: m.Client}
	for i, method := range m.Methods {
		k.method(item(path+".methods", i), method)
	}
	for i, h := range m.Hosts {
		done.hosts = append(done.hosts, k.host(item(path+".hosts", i), h))
	}
	for i, p := range m.Paths {
		done.paths = append(done.paths, k.path(item(path+".paths", i), p))
	}
	done.headers = k.headers(path+".headers", m.Headers)
	k.described(path, m, &done)
	if len(m.Methods) > maxMatch || len(m.Hosts) > maxMatch || len(m.Paths) > maxMatch || len(m.Headers) > maxMatch {
		k.fail(path, "more than %d of a kind", maxMatch)
	}
	if m.Client != "" && m.Client != Known && m.Client != Unknown {
		k.fail(path+".client", "must be known or unknown")
	}
	return done
}

func (k *compiler) headers(path string, m map[string]string) (done []headerMatch) {
	seen := map[string]bool{}
	for _, name := range sorted(m) {
		at := join(path, name)
		if usual := textproto.CanonicalMIMEHeaderKey(name); seen[usual] {
			k.fail(at, "the field occurs twice, in different case")
		} else {
			seen[usual] = true
		}
		if !isToken(name) {
			k.fail(at, "not the name of a header field")
			return nil
		}
		done = append(done, headerMatch{k.part(at, "header:"+name), k.glob(at, m[name])})
	}
	return done
}
