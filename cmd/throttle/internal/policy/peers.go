package policy

import (
	"slices"

	"github.com/influxdata/tdigest"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
	"github.com/throttle-go/throttle/sim"
)

// peer is a policy of others that the library does not have. Some know
// things of the scenario.
type peer struct {
	name, about string
	make        func(told) sim.Policy
}

var peerList = []peer{
	{"cenkalti-backoff", "cenkalti/backoff v5: 500ms, half as much more each time up to 60s, ±50%", func(told) sim.Policy {
		return sim.Policy{PerWorker: true, New: func() pace.Controller { return peers.Cenkalti{} }}
	}},
	{"retryablehttp", "hashicorp/go-retryablehttp: 1s, doubling up to 30s, or Retry-After", func(told) sim.Policy {
		return sim.Policy{PerWorker: true, Hears: sim.Hints{RetryAfter: true}, New: func() pace.Controller { return peers.Retryable{} }}
	}},
	{"failsafe-throttler", "failsafe-go's adaptive throttler: rejects locally by the last minute's failures", func(told) sim.Policy {
		return sim.Policy{PerWorker: true, New: func() pace.Controller { return peers.NewFailsafe() }}
	}},
	{"failsafe-limiter", "failsafe-go's adaptive limiter: limits what is in flight by how long calls take", func(told) sim.Policy {
		return sim.Policy{New: func() pace.Controller {
			return &peers.FailsafeLimiter{NewDigest: func() peers.Digest { return tdigest.NewWithCompression(100) }}
		}}
	}},
	{"sre-throttler", "the SRE book's client-side throttling, K=2 over two minutes", func(told) sim.Policy {
		return sim.Policy{PerWorker: true, New: func() pace.Controller { return peers.NewSRE() }}
	}},
	{"netflix-aimd", "AIMDLimit of Netflix's concurrency-limits: limits what is in flight", func(told) sim.Policy {
		return sim.Policy{New: func() pace.Controller { return new(peers.Netflix) }}
	}},
	{"x-time-rate", "golang.org/x/time/rate, given the limit at the start and its part of it", evenly},
	{"omniscient", "knows the limit, all its changes, and who is there when", omniscient},
}

func (p peer) policy(t told) sim.Policy {
	q := p.make(t)
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

// Peers returns the names of the peers, and what they are.
func Peers() []sim.PolicyInfo {
	all := make([]sim.PolicyInfo, len(peerList))
	for i, p := range peerList {
		all[i] = sim.PolicyInfo{Name: p.name, About: p.about}
	}
	return all
}

func peerNames() []string {
	names := make([]string, len(peerList))
	for i, p := range peerList {
		names[i] = p.name
	}
	return names
}

// For returns the policies, with the scenario given to the peers among them.
func For(s sim.Scenario, policies []sim.Policy) []sim.Policy {
	all := slices.Clone(policies)
	for i := range all {
		if p, ok := findPeer(all[i].Name); ok {
			all[i] = p.policy(tell(s))
		}
	}
	return all
}

// TellGroups gives the scenario to the peers that are a group's own policy.
func TellGroups(s *sim.Scenario) {
	t := tell(*s)
	s.Clients = slices.Clone(s.Clients)
	for i, g := range s.Clients {
		if g.Policy == nil {
			continue
		}
		if p, ok := findPeer(g.Policy.Name); ok {
			t.group = i
			q := p.policy(t)
			s.Clients[i].Policy = &q
		}
	}
}
