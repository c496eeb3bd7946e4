package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// medianOf runs a policy in a scenario, and returns a measure's median.
func medianOf(t *testing.T, s sim.Scenario, policy, measure string) float64 {
	t.Helper()
	p, err := parsePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	r := runAll(t.Context(), s, []sim.Policy{p}, 2, 1, nil)
	return r.Rows[0].Summary.Stats[measureAt(measure)].V.Median
}

func TestAllPoliciesAreThoseOfTheLibraryAndThePeers(t *testing.T) {
	s := builtin(t, "emr")
	var names []string
	for _, p := range allPolicies(s) {
		names = append(names, p.Name)
		if q, err := parsePolicy(p.Name); err != nil || q.Name != p.Name {
			t.Errorf("parsePolicy(%q) = %q, %v", p.Name, q.Name, err)
		}
		if about(p.Name) == "" {
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
	if want := len(sim.Policies()) + len(peerList); len(names) != want || different != want {
		t.Errorf("all policies are %q, want %d different ones", names, want)
	}
}

func TestPeersByName(t *testing.T) {
	stdout, stderr, code := play(t.Context(), "sim", "-seeds=1", "-policy= omniscient ,adaptive", "-assert=omniscient.retry_rate<0.01", "emr")
	if code != 0 || !strings.Contains(stdout, "\nomniscient ") || !strings.Contains(stdout, "\nadaptive ") {
		t.Errorf("code %d, stderr %q, stdout %q; want rows of both", code, stderr, stdout)
	}
	for _, c := range []struct{ policy, says string }{
		{"cenkalti", "peers cenkalti-backoff, retryablehttp"},
		{"omniscient(rate=4)", "no settings"},
		{"backoff(rate=4)", "known are base"},
	} {
		_, stderr, code := play(t.Context(), "sim", "-policy="+c.policy)
		if code != 2 || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") > 1 {
			t.Errorf("-policy=%s: code %d, stderr %q; want 2 and a line with %q", c.policy, code, stderr, c.says)
		}
	}
}

// The bound is one: never refused, everything used, all alike.
func TestOmniscientIsTheBound(t *testing.T) {
	for _, name := range []string{"heroku", "emr", "dynamodb", "drop", "rise", "far", "fixed-window", "sliding", "tight"} {
		s := builtin(t, name)
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

// Each process has its part of what there is, at each time. The whole tokens
// of all together are what the server has at the start, not more.
func TestPartsAreOfWhatThereIs(t *testing.T) {
	s := sim.Scenario{
		Server: sim.Server{
			Limit: limit.Limit{Count: 6, Period: time.Second, Burst: 20}, Start: pace.Some[int64](7),
			Changes: []sim.Change{{At: 10 * time.Second, Count: 12, Period: time.Second}},
		},
		Network: sim.Network{Latency: time.Millisecond},
		Clients: []sim.Group{
			{Processes: 3, Workers: 1},
			{Processes: 1, Workers: 1, Join: 5 * time.Second, Leave: 20 * time.Second},
		},
	}
	whole := 0
	for _, b := range parts(s)[0] {
		whole += int(b.Level)
	}
	if whole != 7 {
		t.Errorf("three processes may send %d at once, want the 7 that are there", whole)
	}
	late := parts(s)[1][0]
	if !late.Since.Equal(time.Unix(5, 0)) || late.Level > 0 {
		t.Errorf("the late one begins at %v with %v, want 5 s and nothing", late.Since, late.Level)
	}
	var got []float64
	for _, r := range late.Rates {
		got = append(got, r.From.Sub(time.Unix(0, 0)).Seconds(), r.Second)
	}
	if want := []float64{0, 2, 5, 1.5, 10, 3, 20, 4}; !slices.Equal(got, want) {
		t.Errorf("times and rates %v, want %v", got, want)
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
		s, err := parseScenario("some.yaml", fmt.Appendf(nil, text, c.policy))
		if err != nil {
			t.Errorf("policy: %s: %v", c.policy, err)
			continue
		}
		if words := groupInWords(s.Clients[1]); !strings.Contains(words, "always with "+c.name+" (rivals") {
			t.Errorf("policy: %s: in words %q", c.policy, words)
		}
		p, err := parsePolicy("omniscient")
		if err != nil {
			t.Fatal(err)
		}
		r := runAll(t.Context(), s, []sim.Policy{p}, 2, 1, nil)
		g := r.Rows[0].Summary.Groups[1]
		if got := g.Served.V.Median / 600; g.Policy != c.name || got < c.least || got > c.most {
			t.Errorf("policy: %s: %s is served %v a second, want %s and %v to %v", c.policy, g.Policy, got, c.name, c.least, c.most)
		}
	}
}

// Where nothing comes in, a peer that is told the rate is told what there is.
func TestToldWhatThereIs(t *testing.T) {
	s := builtin(t, "heroku-clear")
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
			got := medianOf(t, builtin(t, c.scenario), name, "throughput")
			if got < 0.98*c.want || got > 1.02*c.want {
				t.Errorf("%s under %s: %v a second, want %v", c.scenario, name, got, c.want)
			}
		}
	}
}
