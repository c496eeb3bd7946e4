package sim

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// TestShares lets a server tell each process its part, whatever the level: it
// is found at once by all, and kept.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		scenario          string
		seeds             int
		jain, worse, busy float64
	}{{"dynamodb", 3, 0.998, 1, 0.995}, {"thousand", 1, 0.98, 2, 0.995}} {
		s, _ := Find(c.scenario)
		p, err := ParsePolicy("adaptive-informed")
		if err != nil {
			t.Fatal(err)
		}
		if c.scenario == "thousand" {
			s.Duration /= 2
		}
		s.Server.Hints = Hints{Remaining: true}
		without := runAll(s, p, c.seeds)
		s.Server.Hints.Share = true
		with := runAll(s, p, c.seeds)
		t.Logf("%s: throttled %.4f without, %.4f with; Jain %.4f, %.4f; utilisation %.4f, %.4f", c.scenario,
			without.RetryRate.V, with.RetryRate.V, without.Jain.V, with.Jain.V, without.Utilisation.V, with.Utilisation.V)
		if with.Jain.V < c.jain || with.Utilisation.V < c.busy || with.RetryRate.V > c.worse*without.RetryRate.V {
			t.Errorf("%s with shares told: Jain %.4f, utilisation %.4f, throttled %.4f; want at least %g, %g, at most %.4f",
				c.scenario, with.Jain.V, with.Utilisation.V, with.RetryRate.V, c.jain, c.busy, c.worse*without.RetryRate.V)
		}
	}
}

// runAll is the mean of a few runs.
func runAll(s Scenario, p Policy, seeds int) (mean Result) {
	for seed := range seeds {
		r := New(s, p, uint64(seed)+1)
		for !r.Step(1_000_000) {
		}
		res := r.Result()
		for _, m := range []struct{ to, from *pace.Opt[float64] }{
			{&mean.RetryRate, &res.RetryRate}, {&mean.Jain, &res.Jain}, {&mean.Utilisation, &res.Utilisation}, {&mean.MaxSleep, &res.MaxSleep},
		} {
			m.to.V += m.from.V / float64(seeds)
		}
	}
	return mean
}

// TestBursts spends a window of 5000 an hour in both ways, from its middle on,
// after the server has shown that it is one.
func TestBursts(t *testing.T) {
	s, _ := Find("hourly")
	s.Duration = 2 * time.Hour
	s.Clients[0].Work = 6000
	for _, c := range []struct {
		policy      string
		least, most float64 // seconds until 6000 calls are made
	}{{"adaptive-informed(windows=burst)", 3600, 3620}, {"adaptive-informed", 3700, 4500}} {
		p, err := ParsePolicy(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		r := New(s, p, 1)
		for !r.Step(1_000_000) {
		}
		res := r.Result()
		t.Logf("%s: finish %.1f s, %.4f throttled", c.policy, res.Finish.V, res.RetryRate.V)
		if got := res.Finish.V; got < c.least || got > c.most {
			t.Errorf("%s: 6000 calls took %.1f s, want %.0f to %.0f", c.policy, got, c.least, c.most)
		}
	}
}
