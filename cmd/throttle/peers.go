package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/peers"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// peer is a policy of others that the library does not have. Some are told
// things of the scenario.
type peer struct {
	name, about string
	make        func(s sim.Scenario) sim.Policy
}

var peerList = []peer{
	{"cenkalti-backoff", "cenkalti/backoff v5: 500ms, half as much more each time up to 60s, ±50%", func(sim.Scenario) sim.Policy {
		return sim.Policy{PerWorker: true, New: func() pace.Controller { return peers.Cenkalti{} }}
	}},
	{"retryablehttp", "hashicorp/go-retryablehttp: 1s, doubling up to 30s, or Retry-After", func(sim.Scenario) sim.Policy {
		return sim.Policy{PerWorker: true, Hears: sim.Hints{RetryAfter: true}, New: func() pace.Controller { return peers.Retryable{} }}
	}},
	{"failsafe-throttler", "failsafe-go's adaptive throttler: rejects locally by the last minute's failures", func(sim.Scenario) sim.Policy {
		return sim.Policy{PerWorker: true, New: func() pace.Controller { return peers.NewFailsafe() }}
	}},
	{"sre-throttler", "the SRE book's client-side throttling, K=2 over two minutes", func(sim.Scenario) sim.Policy {
		return sim.Policy{PerWorker: true, New: func() pace.Controller { return peers.NewSRE() }}
	}},
	{"netflix-aimd", "AIMDLimit of Netflix's concurrency-limits: limits what is in flight", func(sim.Scenario) sim.Policy {
		return sim.Policy{New: func() pace.Controller { return new(peers.Netflix) }}
	}},
	{"x-time-rate", "golang.org/x/time/rate, told the limit at the start and its part of it", told},
	{"omniscient", "the bound: knows the limit, all its changes, and who is there when", omniscient},
}

// allPolicies is the policies of the library and the peers, for s.
func allPolicies(s sim.Scenario) (all []sim.Policy) {
	for _, info := range sim.Policies() {
		p, err := sim.ParsePolicy(info.Name)
		if err != nil {
			panic(err)
		}
		all = append(all, p)
	}
	for _, p := range peerList {
		all = append(all, p.policy(s))
	}
	return all
}

func (p peer) policy(s sim.Scenario) sim.Policy {
	q := p.make(s)
	q.Name = p.name
	return q
}

func findPeer(name string) (peer, bool) {
	i := slices.IndexFunc(peerList, func(p peer) bool { return p.name == name })
	if i < 0 {
		return peer{}, false
	}
	return peerList[i], true
}

// parsePolicy reads a policy of the library or a peer. A peer has yet to be
// told the scenario: policiesFor does.
func parsePolicy(text string) (sim.Policy, error) {
	name, settings, _ := strings.Cut(strings.TrimSpace(text), "(")
	name = strings.TrimSpace(name)
	if p, ok := findPeer(name); ok {
		if settings != "" {
			return sim.Policy{}, fmt.Errorf("policy %s: it has no settings", name)
		}
		return p.policy(sim.Scenario{}), nil
	}
	p, err := sim.ParsePolicy(text)
	known := func(info sim.PolicyInfo) bool { return info.Name == name }
	if err != nil && !slices.ContainsFunc(sim.Policies(), known) {
		return p, fmt.Errorf("%w, and the peers %s", err, strings.Join(peerNames(), ", "))
	}
	return p, err
}

func peerNames() []string {
	names := make([]string, len(peerList))
	for i, p := range peerList {
		names[i] = p.name
	}
	return names
}

// policiesFor is the policies with the peers among them told the scenario.
func policiesFor(s sim.Scenario, policies []sim.Policy) []sim.Policy {
	all := slices.Clone(policies)
	for i := range all {
		if p, ok := findPeer(all[i].Name); ok {
			all[i] = p.policy(s)
		}
	}
	return all
}
