package throttle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// Calls that were in line before an answer named their scope are refused in rounds,
// which that scope did not pace: it does not fall with each of them.
func TestAScopeIsNamedToManyInLine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		l := limit.Limit{Count: 10, Period: time.Second}
		const calls = 150
		var th throttle.Throttle
		one := func(context.Context) throttle.Result {
			time.Sleep(24 * time.Millisecond)
			d, _ := store.Take(context.Background(), &m, "user", l, 1)
			r := pace.Report{Verdict: pace.Served}
			r.Hints.Limit, r.Hints.Window = pace.Some(l.Count), pace.Some(l.Period)
			r.Hints.Remaining, r.Hints.Reset = pace.Some(d.Remaining), pace.Some(d.ResetAfter)
			var err error
			if !d.OK {
				r.Verdict, err = pace.Throttled, errors.New("too many")
			}
			named := throttle.ScopeResult{Need: throttle.Need{Scope: "user"}, Report: r}
			return throttle.Result{Report: pace.Report{Verdict: r.Verdict}, Scopes: []throttle.ScopeResult{named}, Err: err}
		}
		began := time.Now()
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				if err := th.DoResult(t.Context(), one); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 2*calls/10*time.Second {
			t.Errorf("%d calls at 10 a second took %v", calls, took)
		}
	})
}

// A refusal that takes longer than the window of the limit that it names stops nothing but
// the calls that are above that limit.
func TestASlowRefusalNamesAScope(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		tries := 0
		began := time.Now()
		err := th.DoResult(t.Context(), func(context.Context) throttle.Result {
			time.Sleep(2 * time.Second)
			if tries++; tries > 1 {
				return throttle.Result{Report: pace.Report{Verdict: pace.Served}}
			}
			r := pace.Report{Verdict: pace.Throttled}
			r.Hints.Limit, r.Hints.Window = pace.Some(int64(5)), pace.Some(time.Second)
			named := throttle.ScopeResult{Need: throttle.Need{Scope: "route"}, Report: r}
			return throttle.Result{Report: r, Scopes: []throttle.ScopeResult{named}, Err: errors.New("too many")}
		})
		if took := time.Since(began); err != nil || took > 7*time.Second {
			t.Errorf("%v after %v; want served within 7s, by the second try", err, took)
		}
	})
}

// Calls that report a scope and do not name it are not paced by it, but their retries are:
// they get what is left of it, however many of the calls are refused.
func TestAScopeThatNoCallNames(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		l := limit.Limit{Count: 2, Period: 10 * time.Second}
		th := throttle.Throttle{MaxWait: -1, OnEvent: func(throttle.Event) {}}
		one := func(context.Context) throttle.Result {
			time.Sleep(30 * time.Millisecond)
			d, _ := store.Take(context.Background(), &m, "user", l, 1)
			r := pace.Report{Verdict: pace.Served}
			var err error
			if !d.OK {
				r.Verdict, err = pace.Throttled, errors.New("too many")
			}
			named := throttle.ScopeResult{Need: throttle.Need{Scope: "user"}, Report: r}
			return throttle.Result{Report: r, Scopes: []throttle.ScopeResult{named}, Err: err}
		}
		began := time.Now()
		const workers, each = 10, 40
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range each {
					if err := th.DoResult(t.Context(), one); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		least := workers * each * l.Period / time.Duration(l.Count)
		if took := time.Since(began); took > 2*least {
			t.Errorf("%d calls took %v; want little more than the %v that the limit takes", workers*each, took, least)
		}
	})
}
