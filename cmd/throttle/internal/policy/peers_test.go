package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/sim"
)

// medianOf runs a policy in a scenario, and returns a measure's median.
func medianOf(t *testing.T, s sim.Scenario, name, measure string) float64 {
	t.Helper()
	p, err := policy.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	r := batch.Run(t.Context(), s, []sim.Policy{p}, 2, 1, nil)
	return r.Rows[0].Summary.Stats[measures.At(measure)].V.Median
}

func TestAllPoliciesAreThoseOfTheLibraryAndThePeers(t *testing.T) {
	s := clitest.Builtin(t, "emr")
	var names []string
	for _, p := range policy.All(s) {
		names = append(names, p.Name)
		if q, err := policy.Parse(p.Name); err != nil || q.Name != p.Name {
			t.Errorf("policy.Parse(%q) = %q, %v", p.Name, q.Name, err)
		}
		if policy.About(p.Name) == "" {
			t.Errorf("nothing is said about %s", p.Name)
		}
		r := sim.New(s, p, 1)
		for !r.Step(1 << 20) {
		}
		if got := r.Result(); got.Served < 1000 {
			t.Errorf("emr under %s: %d served, want all 1000", p.Name, got.Served)
		}
	}
	different := len(slices.Compact(slices.Sorted(slices.Values(names))))
	if want := len(sim.Policies()) + len(policy.Peers()); len(names) != want || different != want {
		t.Errorf("all policies are %q, want %d different ones", names, want)
	}
}

// The bound is one: never refused, everything used, all alike.
func TestOmniscientIsTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("arithmetic, for a run without the race detector")
	}
	for _, name := range []string{"heroku", "emr", "dynamodb", "drop", "rise", "far", "fixed-window", "sliding", "tight"} {
		s := clitest.Builtin(t, name)
		if got := medianOf(t, s, "omniscient", "retry_rate"); got != 0 {
			t.Errorf("%s: retry rate %v, want 0", name, got)
		}
		least := 0.99
		if name == "tight" { // calls are up to 20 ms closer than they were sent, 50 ms apart
			least = 0.71
		}
		if got := medianOf(t, s, "omniscient", "utilisation"); got < least {
			t.Errorf("%s: utilisation %v, want %v or more", name, got, least)
		}
		if got := medianOf(t, s, "omniscient", "jain"); got < 0.999 {
			t.Errorf("%s: jain %v, want 0.999 or more", name, got)
		}
	}
}

// A group in a file may have any policy for its own, and is told its part.
func TestPeersOfAGroup(t *testing.T) {
	const text = `
duration: 10m
server: {rate: 8/s, hints: [remaining]}
clients:
  - {processes: 1, workers: 2, policy: fixed(rate=2)}
  - {processes: 2, workers: 2, policy: %s}
  - {processes: 1, workers: 2}
`
	for _, c := range []struct {
		policy      string
		name        string
		least, most float64 // served a second
	}{
		{"omniscient", "omniscient", 3.9, 4.1},
		{"{name: omniscient}", "omniscient", 3.9, 4.1},
		{"x-time-rate", "x-time-rate", 3.9, 4.1},
		{"retryablehttp", "retryablehttp", 2, 6},
		{"{name: failsafe-limiter}", "failsafe-limiter", 2, 6},
		{"fixed(rate=0.5)", "fixed(rate=0.5)", 0.98, 1.02},
	} {
		s, err := scenario.Parse("some.yaml", fmt.Appendf(nil, text, c.policy))
		if err != nil {
			t.Errorf("policy: %s: %v", c.policy, err)
			continue
		}
		if words := strings.Join(scenario.Describe(s)[2].Text, " "); !strings.Contains(words, "always with "+c.name+" (rivals") {
			t.Errorf("policy: %s: in words %q", c.policy, words)
		}
		p, err := policy.Parse("omniscient")
		if err != nil {
			t.Fatal(err)
		}
		r := batch.Run(t.Context(), s, []sim.Policy{p}, 2, 1, nil)
		g := r.Rows[0].Summary.Groups[1]
		if got := g.Served.V.Median / 600; g.Policy != c.name || got < c.least || got > c.most {
			t.Errorf("policy: %s: %s is served %v a second, want %s and %v to %v", c.policy, g.Policy, got, c.name, c.least, c.most)
		}
	}
}

// Where nothing comes in, a peer that is told the rate is told what there is.
func TestToldWhatThereIs(t *testing.T) {
	s := clitest.Builtin(t, "heroku-clear")
	for _, name := range []string{"x-time-rate", "omniscient"} {
		if got := medianOf(t, s, name, "finish_s"); got < 70 || got > 80 {
			t.Errorf("heroku-clear under %s: clear after %v s, want as soon as ten workers can, some 74 s", name, got)
		}
		if got := medianOf(t, s, name, "throttled"); got != 0 {
			t.Errorf("heroku-clear under %s: %v throttled, want none", name, got)
		}
	}
}

// What a peer is told is of the scenario that it runs in.
func TestPeersAreToldTheScenario(t *testing.T) {
	for _, c := range []struct {
		scenario string
		want     float64 // requests a second
	}{{"emr", 4}, {"heroku", 1.25}, {"fixed-window", 10}} {
		for _, name := range []string{"x-time-rate", "omniscient"} {
			got := medianOf(t, clitest.Builtin(t, c.scenario), name, "throughput")
			if got < 0.98*c.want || got > 1.02*c.want {
				t.Errorf("%s under %s: %v a second, want %v", c.scenario, name, got, c.want)
			}
		}
	}
}
