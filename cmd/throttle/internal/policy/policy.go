// Package policy reads policies from text: those of the library, and the peers,
// which are models of other libraries.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/internal/near"
	"github.com/throttle-go/throttle/sim"
)

// maxPolicies is how many one command compares.
const maxPolicies = 100

// Read reads what -policy was given; nothing means all of the library.
func Read(texts []string) (policies []sim.Policy, err error) {
	var items []string
	for _, text := range texts {
		items = append(items, Split(text)...)
	}
	if len(texts) == 0 {
		items = familyNames()
	}
	if len(items) > maxPolicies {
		return nil, usage.Errorf("-policy: %d policies; at most %d", len(items), maxPolicies)
	}
	for _, item := range items {
		p, err := Parse(item)
		if err != nil {
			return nil, usage.Errorf("-policy: %v", err)
		}
		if slices.ContainsFunc(policies, func(q sim.Policy) bool { return Same(p, q) }) {
			return nil, usage.Errorf("-policy: %s occurs twice; write it once", p.Name)
		}
		policies = append(policies, p)
	}
	return policies, nil
}

// Same reports whether two policies are written alike, but for spaces.
func Same(p, q sim.Policy) bool {
	return strings.ReplaceAll(p.Name, " ", "") == strings.ReplaceAll(q.Name, " ", "")
}

// Split splits text at the commas that are not inside parentheses.
func Split(text string) (items []string) {
	depth, from := 0, 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth <= 0:
			items = append(items, text[from:i])
			from = i + 1
		}
	}
	return append(items, text[from:])
}

// Parse reads a policy of the library or a peer. A peer does not know the
// scenario yet: see For and TellGroups.
func Parse(text string) (sim.Policy, error) {
	name, settings, open := strings.Cut(strings.TrimSpace(text), "(")
	name = strings.TrimSpace(name)
	if p, ok := findPeer(name); ok {
		if open && strings.TrimSpace(settings) != ")" {
			return sim.Policy{}, fmt.Errorf("policy %s: it has no settings; write %s", name, name)
		}
		return p.policy(tell(sim.Scenario{})), nil
	}
	p, err := sim.ParsePolicy(text)
	if families := familyNames(); err != nil && !slices.Contains(families, name) {
		if likely := near.Of(name, slices.Concat(families, peerNames())); likely != "" {
			return p, fmt.Errorf("policy %q is not known; did you mean %s?", name, likely)
		}
		return p, fmt.Errorf("%w, and the peers %s", err, strings.Join(peerNames(), ", "))
	}
	return p, err
}

// familyNames are the policies of the library.
func familyNames() (names []string) {
	for _, info := range sim.Policies() {
		names = append(names, info.Name)
	}
	return names
}

// All returns the policies of the library and the peers, for s.
func All(s sim.Scenario) (all []sim.Policy) {
	for _, info := range sim.Policies() {
		p, err := sim.ParsePolicy(info.Name)
		if err != nil {
			panic(err)
		}
		all = append(all, p)
	}
	for _, p := range peerList {
		all = append(all, p.policy(tell(s)))
	}
	return all
}

// About returns what is known of a policy; settings in its name do not matter.
func About(name string) string {
	family, _, _ := strings.Cut(name, "(")
	for _, info := range sim.Policies() {
		if info.Name == family {
			return info.About
		}
	}
	p, _ := findPeer(family)
	return p.about
}
