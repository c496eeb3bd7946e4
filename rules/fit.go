package rules

import (
	"fmt"
	"slices"
	"strings"
)

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
			left = append(left, fmt.Sprintf("override of rule %q for %s: %s", name, keyWords(v.Key), what))
			continue
		}
		fit = append(fit, v)
	}
	slices.Reverse(fit)
	slices.Reverse(left)
	return fit, left
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
