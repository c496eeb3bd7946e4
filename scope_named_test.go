package throttle_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// namingLimit is a token bucket that only its refusals name.
type namingLimit struct {
	rate, burst float64 // tokens a second
	rtt         time.Duration
	scope       string // empty: not even these do

	mu      sync.Mutex
	spent   float64 // tokens that are missing, at
	at      time.Time
	refused int
}

func (l *namingLimit) answer(context.Context) throttle.Result {
	time.Sleep(l.rtt)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.at.IsZero() {
		l.spent = max(l.spent-l.rate*now.Sub(l.at).Seconds(), 0)
	}
	l.at = now
	if l.spent+1 <= l.burst {
		l.spent++
		return throttle.Result{Report: pace.Report{Verdict: pace.Served}}
	}
	l.refused++
	r := throttle.Result{Report: pace.Report{Verdict: pace.Throttled}}
	if l.scope != "" {
		r.Scopes = []throttle.ScopeResult{{Need: throttle.Need{Scope: l.scope}, Report: r.Report}}
	}
	return r
}

// do makes a call of th, and again if a refusal has named the limit while it was in line.
func (l *namingLimit) do(ctx context.Context, th *throttle.Throttle) error {
	for again := false; ; again = true {
		l.mu.Lock()
		named := l.refused > 0 && l.scope != ""
		l.mu.Unlock()
		var o throttle.CallOptions
		if named {
			o.Needs = []throttle.Need{{Scope: l.scope}}
		}
		outdated := false
		err := th.DoResult(throttle.WithOptions(ctx, o), func(ctx context.Context) throttle.Result {
			l.mu.Lock()
			outdated = !again && !named && l.refused > 0 && l.scope != ""
			l.mu.Unlock()
			if outdated {
				return throttle.Result{}
			}
			return l.answer(ctx)
		})
		if !outdated {
			return err
		}
	}
}

// A limit that is first named by a refusal has served calls before. They are what its pace begins
// with, as that of a limit without a name does: not a call or so a second.
func TestScopeFirstNamedByARefusal(t *testing.T) {
	for _, scope := range []string{"", "user"} {
		bubble.Test(t, func(t *testing.T) {
			const rate = 20
			var (
				th     throttle.Throttle
				mu     sync.Mutex
				all    sync.WaitGroup
				waits  []time.Duration
				began  = time.Now()
				server = &namingLimit{rate: rate, burst: 5, rtt: 50 * time.Millisecond, scope: scope}
				random = rand.New(rand.NewPCG(1, 1))
			)
			for time.Since(began) < 2*time.Minute {
				time.Sleep(time.Duration(random.ExpFloat64() / rate / 0.9 * 1e9))
				all.Go(func() {
					came := time.Now()
					if err := server.do(t.Context(), &th); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					waits = append(waits, time.Since(came))
				})
			}
			all.Wait()
			slices.Sort(waits)
			p99 := waits[len(waits)*99/100]
			t.Logf("scope %q: of %d calls %d were refused, p99 %v", scope, len(waits), server.refused, p99)
			if p99 > 2*time.Second || server.refused > len(waits)/50 {
				t.Errorf("scope %q: of %d calls at 90%% of the limit %d were refused, p99 %v; want a fiftieth at most, and 2s", scope, len(waits), server.refused, p99)
			}
		})
		bubble.Test(t, func(t *testing.T) {
			const calls, rate, burst = 600, 20, 40
			var (
				th     throttle.Throttle
				all    sync.WaitGroup
				began  = time.Now()
				server = &namingLimit{rate: rate, burst: burst, rtt: 50 * time.Millisecond, scope: scope}
			)
			for range calls {
				all.Go(func() {
					if err := server.do(t.Context(), &th); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			took, least := time.Since(began), (calls-burst)/rate*time.Second
			t.Logf("scope %q: a job took %v, at least %v, %d refused", scope, took, least, server.refused)
			if took > least*12/10 || server.refused > calls/8 {
				t.Errorf("scope %q: a job took %v and %d were refused, want a fifth more than %v at most, and %d", scope, took, server.refused, least, calls/8)
			}
		})
	}
}

// Each of many users has a limit of its own, which a refusal names: what all of them were served
// says little of it, and less of each further one.
func TestScopesOfManyUsers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const users, each = 100, 1.0
		var (
			th      throttle.Throttle
			mu      sync.Mutex
			all     sync.WaitGroup
			waits   []time.Duration
			began   = time.Now()
			servers [users]*namingLimit
			random  = rand.New(rand.NewPCG(1, 1))
		)
		for i := range servers {
			servers[i] = &namingLimit{rate: each, burst: 3, rtt: 50 * time.Millisecond, scope: string(rune('A' + i))}
		}
		for time.Since(began) < 3*time.Minute {
			time.Sleep(time.Duration(random.ExpFloat64() / users / each / 0.7 * 1e9))
			server := servers[random.IntN(users)]
			all.Go(func() {
				came := time.Now()
				if err := server.do(t.Context(), &th); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, time.Since(came))
			})
		}
		all.Wait()
		slices.Sort(waits)
		refused := 0
		for _, s := range servers {
			refused += s.refused
		}
		p99 := waits[len(waits)*99/100]
		t.Logf("of %d calls %d were refused, p99 %v", len(waits), refused, p99)
		if p99 > 10*time.Second || refused > len(waits)/10 {
			t.Errorf("of %d calls %d were refused, p99 %v; want a tenth at most, and 10s", len(waits), refused, p99)
		}
	})
}
