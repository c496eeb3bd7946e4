package peers

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Each test here is named after what users of other clients suffered.

// httpx 141: jitter, meant to spread retries, brought them before the time that
// the server had asked for.
func TestJitterNeverComesBelowRetryAfter(t *testing.T) {
	all := policies()
	for j := pace.NoJitter; j <= pace.UpwardJitter; j++ {
		all = append(all, policy{"backoff with jitter", func() pace.Controller { return &pace.Backoff{Jitter: j, Spread: 1} }})
	}
	for _, p := range all {
		for seed := range uint64(200) {
			g := &pace.Gate{Control: p.make(), Seed: seed}
			k := &pace.Ticket{Owner: "a"}
			if _, ok := g.Enter(at(0), k); !ok {
				t.Fatalf("%s: Enter refused", p.name)
			}
			now := startOf(t, g, 0)
			for _, after := range []time.Duration{time.Second / 10, 3 * time.Second, 0, 7 * time.Second} {
				now += 100 * ms
				if !g.Done(at(now), k, pace.Report{Verdict: pace.Throttled, After: after}) {
					break // some try three times only
				}
				next := startOf(t, g, now)
				if next < now+after {
					t.Fatalf("%s, seed %d: made again %v after the answer; the server asked for %v", p.name, seed, next-now, after)
				}
				now = next
			}
		}
	}
}

// startOf is when the next in line starts, from now on.
func startOf(t *testing.T, g *pace.Gate, now time.Duration) time.Duration {
	t.Helper()
	for range 1000 {
		started, again := g.Next(at(now))
		if started != nil {
			return now
		}
		now += again
	}
	t.Fatalf("none starts until %v", now)
	return 0
}
