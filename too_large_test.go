package throttle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// A call that costs more than the limit ever allows is sent once, as the estimate may be wrong. Its
// refusal is final and its Retry-After holds up no other call, in a scope and in the Throttle's own limit.
func TestCallThatCostsMoreThanTheLimit(t *testing.T) {
	for name, scope := range map[string]string{"own limit": "", "scope": "tokens"} {
		bubble.Test(t, func(t *testing.T) {
			var api throttle.Throttle
			call := func(cost, left int64) error {
				opts := throttle.CallOptions{Cost: cost}
				if scope != "" {
					opts = throttle.CallOptions{Needs: []throttle.Need{{Scope: scope, Cost: cost}}}
				}
				return api.DoResult(throttle.WithOptions(t.Context(), opts), func(context.Context) throttle.Result {
					r := throttle.Result{Report: pace.Report{Verdict: pace.Served}}
					if cost > left {
						r = throttle.Result{Report: pace.Report{Verdict: pace.Throttled, After: time.Minute}, Err: errors.New("429")}
					}
					of := r.Report
					of.Hints = pace.Hints{Limit: pace.Some(int64(1000)), Remaining: pace.Some(left)}
					if scope == "" {
						r.Report = of
					} else {
						r.Scopes = []throttle.ScopeResult{{Need: throttle.Need{Scope: scope}, Report: of}}
					}
					return r
				})
			}
			began := time.Now()
			if err := call(100, 900); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			err := call(5000, 900)
			var e *throttle.Error
			if !errors.As(err, &e) || e.Reason != throttle.ErrTooLarge || e.Tries != 1 || e.Scope != scope || e.MayHaveRun {
				t.Errorf("%s: a call of 5000 where 1000 are allowed: %v; want ErrTooLarge after one try, in scope %q", name, err, scope)
			}
			if err := call(100, 800); err != nil || time.Since(began) > 10*time.Second {
				t.Errorf("%s: the next call ends after %v, %v; want soon", name, time.Since(began), err)
			}
		})
	}
}
