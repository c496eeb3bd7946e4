package pace

import (
	"testing"
	"time"
)

// Each test here is named after what users of other clients suffered.

// httpx 141: jitter, meant to spread retries, brought them before the time that
// the server had asked for.
func TestJitterNeverComesBelowRetryAfter(t *testing.T) {
	all := policies()
	for j := NoJitter; j <= UpwardJitter; j++ {
		all = append(all, policy{"backoff with jitter", func() Controller { return &Backoff{Jitter: j, Spread: 1} }})
	}
	for _, p := range all {
		for seed := range uint64(200) {
			g := &Gate{Control: p.make(), Seed: seed}
			k := enter(t, g, 0, "a")
			now := startOf(t, g, 0)
			for _, after := range []time.Duration{second / 10, 3 * second, 0, 7 * second} {
				now += trip
				if !g.Done(at(now), k, Report{Verdict: Throttled, After: after}) {
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
func startOf(t *testing.T, g *Gate, now time.Duration) time.Duration {
	t.Helper()
	for range 1000 {
		started, again := g.Next(at(now))
		if started != nil {
			return now
		}
		now += again
	}
	t.Fatalf("nobody starts until %v", now)
	return 0
}

// snyk go-application-framework 649: where the cap is checked first, jitter goes
// beyond it. UpwardJitter alone may, by its Spread: with it, those who have
// reached the Cap stay apart.
func TestJitterComesBeforeTheCap(t *testing.T) {
	const longest = 5 * time.Second
	for j := NoJitter; j <= UpwardJitter; j++ {
		most := longest
		if j == UpwardJitter {
			most += longest / 2
		}
		b := Backoff{Cap: longest, Jitter: j, Spread: 0.5}
		prev := time.Duration(0)
		for try := range 2000 {
			prev = b.Delay(try%20, prev, luckOf(1, uint64(try), try))
			if prev > most {
				t.Fatalf("jitter %d: retry %d rests %v; want at most %v", j, try%20, prev, most)
			}
		}
	}
}
