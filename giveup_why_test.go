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

// A call that has waited in vain says what it waited for in the end, not what was
// known when it began to wait.
func TestACallThatWaitedInVainSaysWhy(t *testing.T) {
	for _, scope := range []string{"", "search"} {
		for _, o := range []throttle.CallOptions{{MaxWait: 3 * time.Second}, {}} {
			bubble.Test(t, func(t *testing.T) {
				if scope != "" {
					o.Needs = []throttle.Need{{Scope: scope}}
				}
				var api throttle.Throttle
				refused := pace.Report{Verdict: pace.Throttled, After: 30 * time.Minute}
				r := throttle.Result{Report: refused, Err: errors.New("429")}
				if scope != "" {
					r.Scopes = []throttle.ScopeResult{{Need: o.Needs[0], Report: refused}}
				}
				first, cancel := context.WithCancel(throttle.WithOptions(t.Context(), throttle.CallOptions{Needs: o.Needs}))
				defer cancel()
				go api.DoResult(first, func(context.Context) throttle.Result {
					time.Sleep(100 * time.Millisecond)
					return r
				})
				time.Sleep(time.Millisecond) // it is in flight, and nothing is known
				ctx, stop := context.WithTimeout(throttle.WithOptions(t.Context(), o), 4*time.Second)
				defer stop()
				err := api.Do(ctx, func(context.Context) error { return nil })
				var e *throttle.Error
				if !errors.As(err, &e) || e.Scope != scope || time.Until(e.Why.Until) < 29*time.Minute {
					t.Errorf("scope %q, MaxWait %v: %v; want an Error with that scope, until half an hour from now", scope, o.MaxWait, err)
				}
			})
		}
	}
}
