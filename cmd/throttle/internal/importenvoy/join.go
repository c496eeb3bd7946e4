package importenvoy

import (
	"slices"
	"strings"

	"github.com/throttle-go/throttle/internal/glob"
	"github.com/throttle-go/throttle/rules"
)

// group are rules that differ in the value of the last entry alone.
type group struct {
	rest  int   // the rule of all other values; below zero: they have no limit
	exact []int // those of single values
}

// join makes the rules of single values of a key overrides of one rule. The requests of
// each value have a count of their own, as before.
func (t *translation) join() {
	groups, gone := map[string]*group{}, map[int]bool{}
	var order []*group
	for i := range t.set.Rules {
		sign, single, ok := signOf(&t.set.Rules[i])
		if !ok {
			continue
		}
		g := groups[sign]
		if g == nil {
			g = &group{rest: -1}
			groups[sign], order = g, append(order, g)
		}
		if single {
			g.exact = append(g.exact, i)
		} else {
			g.rest = i
		}
	}
	for _, g := range order {
		g.exact = slices.DeleteFunc(g.exact, func(i int) bool { return g.rest >= 0 && t.apart(i, g.rest) })
		if n := len(g.exact); n == 0 || g.rest < 0 && (n == 1 || t.set.Rules[g.exact[0]].Shadow.Rule) {
			continue
		}
		t.override(g)
		for _, i := range g.exact {
			gone[i] = i != g.rest
		}
	}
	t.drop(gone)
}

// apart reports whether the value of a rule matches a pattern that the rule of the rest
// leaves out: that is never asked about it.
func (t *translation) apart(single, rest int) bool {
	value := lastOf(&t.set.Rules[single]).Value
	return slices.ContainsFunc(lastOf(&t.set.Rules[rest]).Not, func(pattern string) bool {
		return strings.Contains(pattern, "*") && glob.Of(pattern).Match(value)
	})
}

// lastOf is what a rule wants of the last entry.
func lastOf(r *rules.Rule) *rules.PairPattern { return &r.Match.Descriptor[len(r.Match.Descriptor)-1] }

// signOf returns what the rules of a group have in common, and whether r is for a single
// value. It is not ok if r can be in none: an override is by the whole descriptor.
func signOf(r *rules.Rule) (sign string, single, ok bool) {
	if !slices.Equal(r.Key, rules.Key{"descriptor"}) || len(textOf(r)) > mostText {
		return "", false, false
	}
	last := len(r.Match.Descriptor) - 1
	sign = r.Match.Domains[0]
	for i, p := range r.Match.Descriptor {
		if strings.Contains(p.Value, "*") || i < last && p.Value == "" {
			return "", false, false
		}
		if sign += "\n" + p.Key; i < last {
			sign += "\t" + p.Value
		}
	}
	if r.Shadow.Rule {
		sign += "\nshadow"
	}
	return sign, lastOf(r).Value != "", true
}

// textOf is the descriptor of a rule for a single value, as in the key of an override.
func textOf(r *rules.Rule) string {
	var q rules.Request
	for _, p := range r.Match.Descriptor {
		q.Descriptor = append(q.Descriptor, rules.Pair{Key: p.Key, Value: p.Value})
	}
	return q.DescriptorText()
}

// override makes the rules of single values overrides of that of the rest, which is
// unlimited if there is none.
func (t *translation) override(g *group) {
	singles := map[string]bool{}
	var overrides []rules.Override
	for _, i := range g.exact {
		r := &t.set.Rules[i]
		singles[lastOf(r).Value] = true
		overrides = append(overrides, rules.Override{Key: []string{textOf(r)}, Limits: r.Limits})
	}
	if g.rest < 0 {
		g.rest = g.exact[0]
		r := &t.set.Rules[g.rest]
		lastOf(r).Value = ""
		r.Name, r.Limits = t.name(r.Match.Domains[0], pathOf(r)), []rules.Limit{{}}
	}
	r := &t.set.Rules[g.rest]
	last := lastOf(r)
	last.Not = slices.DeleteFunc(slices.Clone(last.Not), func(value string) bool { return singles[value] })
	r.Overrides = overrides
}

// pathOf is the way to a rule for all values of its last entry.
func pathOf(r *rules.Rule) (path []step) {
	for _, p := range r.Match.Descriptor {
		to := &node{key: p.Key, value: p.Value, text: p.Key}
		if p.Value != "" {
			to.text += "_" + p.Value
		}
		path = append(path, step{way: newWay(p.Key, p.Value, to)})
	}
	return path
}

// drop removes rules.
func (t *translation) drop(gone map[int]bool) {
	kept, places := t.set.Rules[:0], t.places[:0]
	for i := range t.set.Rules {
		if !gone[i] {
			kept, places = append(kept, t.set.Rules[i]), append(places, t.places[i])
		}
	}
	t.set.Rules, t.places = kept, places
}
