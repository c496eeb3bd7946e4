package throttle_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// A service states a quota of an hour of which 99 % remain, and refuses by another limit, of 50
// a second, which it does not state: a refusal that says that 99,000 remain is none of the quota,
// and does not stop calls until the quota's window ends.
func TestSecondLimitBesideAStatedQuota(t *testing.T) {
	for _, policy := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			const quota, window = 100_000, time.Hour
			var (
				th           throttle.Throttle
				mu           sync.Mutex
				all          sync.WaitGroup
				began        = time.Now()
				tokens, at   = 26.0, began
				used, served int
				refused      int
			)
			answer := func(context.Context) throttle.Result {
				time.Sleep(50 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				now := time.Now()
				tokens, at = min(26, tokens+50*now.Sub(at).Seconds()), now
				r := pace.Report{Verdict: pace.Throttled}
				if tokens >= 1 {
					tokens, used, r.Verdict = tokens-1, used+1, pace.Served
				} else {
					refused++
				}
				r.Hints = pace.Hints{Remaining: pace.Some(int64(quota - used)), Reset: pace.Some(window - now.Sub(began))}
				if policy {
					r.Hints.Limit, r.Hints.Window = pace.Some(int64(quota)), pace.Some(window)
				}
				return throttle.Result{Report: r}
			}
			random := rand.New(rand.NewPCG(1, 1))
			for time.Since(began) < 5*time.Minute {
				time.Sleep(time.Duration(random.ExpFloat64() / 49 * 1e9))
				all.Go(func() {
					c := throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: 10 * time.Second})
					if th.DoResult(c, answer) == nil && time.Since(began) > 2*time.Minute {
						mu.Lock()
						served++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			t.Logf("policy stated: %v: %d served in the last three minutes of 5, %d refused in all", policy, served, refused)
			want := 7000 // of 8820 that come
			if policy {
				want = 4500 // of 5000 that it grants
			}
			if served < want || refused > served/20 {
				t.Errorf("policy stated: %v: %d served in three minutes, %d refused in five; want %d at least, and a twentieth at most", policy, served, refused, want)
			}
		})
	}
}
