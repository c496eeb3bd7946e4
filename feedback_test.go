package throttle_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

var overloaded = throttle.Result{Report: pace.Report{Verdict: pace.Throttled}}

// rateOf makes calls for d and returns how many were made a second.
func rateOf(t *testing.T, th *throttle.Throttle, d time.Duration) float64 {
	n := 0
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
		if err := th.Do(t.Context(), func(context.Context) error { time.Sleep(time.Millisecond); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	return float64(n) / d.Seconds()
}

// A queue accepts every job at once; its consumer, who says later that it is
// overloaded, slows the calls down as throttled answers would: one says next to
// nothing of a rate that was served in full, a row of them far more.
func TestReportSlowsDown(t *testing.T) {
	for name, control := range map[string]func() pace.Controller{
		"adaptive": func() pace.Controller { return new(pace.Adaptive) },
		"all":      func() pace.Controller { return pace.All{new(pace.Adaptive), new(pace.Fixed)} },
	} {
		bubble.Test(t, func(t *testing.T) {
			th := throttle.Throttle{Control: control()}
			before := rateOf(t, &th, 5*time.Second)
			var after float64
			for range 50 {
				th.Report(time.Time{}, overloaded)
				after = rateOf(t, &th, 100*time.Millisecond)
			}
			if before < 990 || after > 0.6*before || after < 0.01*before {
				t.Errorf("%s: %v calls a second, and %v after 50 reports; want half of 1000 at most", name, before, after)
			}
			if th.InFlight() != 0 || th.Waiting() != 0 {
				t.Errorf("%s: %d in flight, %d wait; want none", name, th.InFlight(), th.Waiting())
			}
		})
	}
}

// Many reports of one overload slow down once: those of what was sent before
// the last slowdown, and those between two calls. And they take no turns.
func TestManyReportsCountAsOne(t *testing.T) {
	for _, sent := range []time.Duration{0, -time.Second} { // zero: not known
		bubble.Test(t, func(t *testing.T) {
			var th throttle.Throttle
			rateOf(t, &th, 5*time.Second)
			at := time.Time{}
			if sent != 0 {
				at = time.Now().Add(sent)
			}
			for range 1000 {
				th.Report(at, overloaded)
			}
			if after := rateOf(t, &th, 5*time.Second); after < 400 {
				t.Errorf("sent %v: %v calls a second after 1000 reports; want about 500", sent, after)
			}
			// Reports without an end, each a millisecond: of old work.
			began := time.Now().Add(-time.Minute)
			var flood sync.WaitGroup
			stop := make(chan struct{})
			flood.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						th.Report(began, overloaded)
					}
				}
			})
			if after := rateOf(t, &th, 5*time.Second); after < 400 {
				t.Errorf("%v calls a second while old work is reported; want about 500", after)
			}
			close(stop)
			flood.Wait()
		})
	}
}

// The wait that a report asks for holds back calls that wait already, and is
// believed as that of an answer is.
func TestReportHoldsBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := throttle.Throttle{Control: &pace.Adaptive{}, MaxInFlight: 1, MaxAfter: 10 * time.Second}
		end := make(chan struct{})
		go th.Do(t.Context(), func(context.Context) error { <-end; return nil })
		synctest.Wait()
		waiting := make(chan time.Duration)
		began := time.Now()
		go th.Do(t.Context(), func(context.Context) error { waiting <- time.Since(began); return nil })
		synctest.Wait()
		th.Report(time.Time{}, throttle.Result{Report: pace.Report{Verdict: pace.Throttled, After: time.Hour}})
		if th.InFlight() != 1 || th.Waiting() != 1 {
			t.Errorf("%d in flight, %d wait; want 1 and 1: a report gives nothing back", th.InFlight(), th.Waiting())
		}
		close(end)
		if took := <-waiting; took < 10*time.Second || took > 13*time.Second {
			t.Errorf("the call waited %v; want the 10 s of MaxAfter, and up to a tenth and a second more", took)
		}
	})
}

// A report that there is room again starts a call that waits, at once.
func TestReportStartsWaitingCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		th.Report(time.Time{}, throttle.Result{Report: pace.Report{Verdict: pace.Throttled, Crowded: true, After: time.Minute}})
		began := time.Now()
		var call sync.WaitGroup
		call.Go(func() {
			if err := th.Do(t.Context(), nothing); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		if th.Waiting() != 1 {
			t.Error("the call does not wait, although too many are said to be in flight")
		}
		th.Report(time.Time{}, throttle.Result{Report: pace.Report{Verdict: pace.Served}})
		call.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the call waited %v; want 1 s, until the report", took)
		}
	})
}

// A report that names a scope slows down that one alone; what is new is
// remembered until a call needs it.
func TestReportOfAScope(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := throttle.Throttle{MaxScopes: 5}
		r := throttle.ScopeResult{Need: throttle.Need{Scope: "orders"}, Report: pace.Report{Verdict: pace.Throttled, After: time.Minute}}
		th.Report(time.Time{}, throttle.Result{Report: pace.Report{Verdict: pace.Throttled}, Scopes: []throttle.ScopeResult{r}})
		waits := func(scope string) time.Duration {
			ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{Needs: []throttle.Need{{Scope: scope}}})
			began := time.Now()
			if err := th.Do(ctx, nothing); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		if w := waits("users"); w != 0 {
			t.Errorf("a call of another scope waited %v, want not at all", w)
		}
		if w := waits("orders"); w < time.Minute {
			t.Errorf("a call of the scope waited %v, want a minute", w)
		}
		for i := range 100 {
			r.Scope = fmt.Sprint(i)
			th.Report(time.Time{}, throttle.Result{Scopes: []throttle.ScopeResult{r}})
		}
		if _, flying, n := throttle.ScopesOf(&th); n > 5 || flying != 0 {
			t.Errorf("%d scopes, %d in flight in them; want at most 5, and none", n, flying)
		}
	})
}

// Reports come from many goroutines, beside calls.
func TestReportsRace(t *testing.T) {
	th := throttle.Throttle{Control: &pace.Fixed{Rate: 1e5}}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 200 {
				_ = th.Do(t.Context(), nothing)
			}
		})
		all.Go(func() {
			for range 200 {
				th.Report(time.Now(), throttle.Result{
					Report: pace.Report{Verdict: pace.Throttled, Crowded: i%2 == 0},
					Scopes: []throttle.ScopeResult{{Need: throttle.Need{Scope: fmt.Sprint(i)}, Report: pace.Report{Verdict: pace.Served}}},
				})
			}
		})
	}
	all.Wait()
	if th.InFlight() != 0 || th.Waiting() != 0 {
		t.Errorf("%d in flight, %d wait; want none", th.InFlight(), th.Waiting())
	}
}

// So do those of a scope that no call has named, and those before the first call.
func TestManyReportsBeforeAnyCallCountAsOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var rates [2]float64
		for i, reports := range []int{1, 100} {
			var th throttle.Throttle
			for range reports {
				r := overloaded
				r.Scopes = []throttle.ScopeResult{{Need: throttle.Need{Scope: "queue"}, Report: overloaded.Report}}
				th.Report(time.Time{}, overloaded)
				th.Report(time.Time{}, r)
				time.Sleep(10 * time.Millisecond)
			}
			s := th.Status()
			if rates[i] = s.Why.Rate; s.Scopes[0].Why.Rate != s.Why.Rate {
				t.Errorf("%d reports: the scope is paced at %v, all calls at %v; want the same", reports, s.Scopes[0].Why.Rate, s.Why.Rate)
			}
		}
		if rates[1] < 0.9*rates[0] {
			t.Errorf("paced at %.3g/s after one report, %.3g/s after 100; want the same", rates[0], rates[1])
		}
	})
}
