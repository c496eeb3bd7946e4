package throttle_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// namingLimit is a limit that only its refusals name.
type namingLimit struct {
	limit limit.Limit
	scope string // empty: not even these do

	mu      sync.Mutex
	state   limit.State
	refused int
}

func (l *namingLimit) answer(context.Context) throttle.Result {
	time.Sleep(50 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	var d limit.Decision
	if l.state, d = limit.Take(l.state, time.Now(), limit.Ask{Limit: l.limit, N: 1}); d.OK {
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
			var th throttle.Throttle
			server := &namingLimit{limit: limit.Limit{Count: rate, Period: time.Second, Burst: 5}, scope: scope}
			took := service(t, 0.9*rate, 2*time.Minute, func(*rand.Rand) error { return server.do(t.Context(), &th) })
			p99 := took[len(took)*99/100]
			t.Logf("scope %q: of %d calls %d were refused, p99 %v", scope, len(took), server.refused, p99)
			if p99 > 2*time.Second || server.refused > len(took)/50 {
				t.Errorf("scope %q: of %d calls at 90%% of the limit %d were refused, p99 %v; want a fiftieth at most, and 2s", scope, len(took), server.refused, p99)
			}
		})
		bubble.Test(t, func(t *testing.T) {
			const calls, rate, burst = 600, 20, 40
			var th throttle.Throttle
			server := &namingLimit{limit: limit.Limit{Count: rate, Period: time.Second, Burst: burst}, scope: scope}
			took := job(t, calls, func() error { return server.do(t.Context(), &th) })
			least := (calls - burst) / rate * time.Second
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
		const users = 100
		var (
			th      throttle.Throttle
			servers [users]namingLimit
			refused int
		)
		for i := range servers {
			servers[i].limit, servers[i].scope = limit.Limit{Count: 1, Period: time.Second, Burst: 3}, strconv.Itoa(i)
		}
		took := service(t, 0.7*users, 3*time.Minute, func(r *rand.Rand) error { return servers[r.IntN(users)].do(t.Context(), &th) })
		for i := range servers {
			refused += servers[i].refused
		}
		p99 := took[len(took)*99/100]
		t.Logf("of %d calls %d were refused, p99 %v", len(took), refused, p99)
		if p99 > 10*time.Second || refused > len(took)/10 {
			t.Errorf("of %d calls %d were refused, p99 %v; want a tenth at most, and 10s", len(took), refused, p99)
		}
	})
}
