package throttle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// seen is a Controller without a limit that keeps what it observed.
type seen struct{ outcomes []pace.Outcome }

func (s *seen) Wait(time.Time, pace.Request) time.Duration { return 0 }
func (s *seen) Start(time.Time, pace.Request)              {}
func (s *seen) Observe(_ time.Time, o pace.Outcome) time.Duration {
	s.outcomes = append(s.outcomes, o)
	return 0
}

// reports are those that it observed.
func (s *seen) reports() (all []pace.Report) {
	for _, o := range s.outcomes {
		all = append(all, o.Report)
	}
	return all
}

func TestDoResultReturns(t *testing.T) {
	wrapped := fmt.Errorf("layer: %w", Permanent(errBoom))
	hints := pace.Hints{Remaining: pace.Some[int64](7)}
	for name, c := range map[string]struct {
		result Result
		want   error
	}{
		"success":            {Result{Report: pace.Report{Verdict: pace.Served}}, nil},
		"success with hints": {Result{Report: pace.Report{Verdict: pace.Served, Hints: hints}}, nil},
		"served, an error":   {Result{Report: pace.Report{Verdict: pace.Served}, Err: errBoom}, errBoom},
		"ignored":            {Result{Err: errBoom}, errBoom},
		"zero":               {Result{}, nil},
		"marked":             {Result{Err: Throttled(errBoom, time.Hour)}, errBoom},
		"marked, wrapped":    {Result{Err: wrapped}, wrapped},
	} {
		control, tries := new(seen), 0
		th := &Throttle{Control: control, Classify: func(error) pace.Report {
			t.Errorf("%s: DoResult calls Classify", name)
			return pace.Report{}
		}}
		err := th.DoResult(t.Context(), func(context.Context) Result { tries++; return c.result })
		if err != c.want || tries != 1 {
			t.Errorf("%s: DoResult = %#v after %d tries, want %#v after 1", name, err, tries, c.want)
		}
		got := control.reports()
		if len(got) == 1 && got[0].Cost == 1 { // as estimated
			got[0].Cost = 0
		}
		if len(got) != 1 || got[0] != c.result.Report {
			t.Errorf("%s: the Control observed %+v, want %+v", name, got, c.result.Report)
		}
	}
}

// The hints and the cost of a success reach the Control, and pace the next call.
func TestDoResultTeaches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &pace.Fixed{Rate: 100}}
		began := time.Now()
		for range 2 {
			err := th.DoResult(t.Context(), func(context.Context) Result {
				return Result{Report: pace.Report{Verdict: pace.Served, Cost: 300}}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("the call after one that has cost 300 of 100/s started after %v, want 3s", got)
		}

		th = new(Throttle)
		err := th.DoResult(t.Context(), func(context.Context) Result {
			r := pace.Report{Verdict: pace.Served, After: 10 * time.Second}
			r.Hints.Limit, r.Hints.Remaining = pace.Some[int64](5000), pace.Some[int64](3)
			return Result{Report: r}
		})
		if err != nil {
			t.Fatal(err)
		}
		var e *Error
		if err := th.Try(t.Context(), served); !errors.As(err, &e) || e.Wait < 10*time.Second || !strings.Contains(err.Error(), "3 of 5000 remaining") {
			t.Errorf("after a success that asked for 10s and left 3 of 5000: %v, want an Error that says so", err)
		}
	})
}

// A throttled Result is retried, never before its After, a failed one Retries
// times, and a Final one not at all.
func TestDoResultRetries(t *testing.T) {
	for _, c := range []struct {
		name   string
		report pace.Report // of all tries but the fourth, which is served
		tries  int
		took   time.Duration
		reason error
	}{
		{"throttled", pace.Report{Verdict: pace.Throttled}, 4, 0, nil},
		{"throttled, after a second", pace.Report{Verdict: pace.Throttled, After: time.Second}, 4, 3 * time.Second, nil},
		{"failed", pace.Report{Verdict: pace.Failed}, 3, 30 * time.Millisecond, ErrTries},
		{"final", pace.Report{Verdict: pace.Throttled, Final: true}, 1, 0, ErrTries},
	} {
		bubble.Test(t, func(t *testing.T) {
			th := &Throttle{Control: pace.All(nil), Retries: 2, Backoff: pace.Backoff{Base: 10 * time.Millisecond, Jitter: pace.PlusMinusJitter, Spread: 1e-17}}
			began, tries := time.Now(), 0
			err := th.DoResult(t.Context(), func(context.Context) Result {
				if tries++; tries == 4 {
					return Result{Report: pace.Report{Verdict: pace.Served}}
				}
				return Result{Report: c.report, Err: errBoom}
			})
			var e *Error
			if tries != c.tries || time.Since(began) != c.took || (err == nil) != (c.reason == nil) {
				t.Errorf("%s: DoResult = %v after %d tries and %v; want %v after %d and %v",
					c.name, err, tries, time.Since(began), c.reason, c.tries, c.took)
			}
			if err != nil && (!errors.As(err, &e) || e.Reason != c.reason || e.Err != errBoom || e.Tries != c.tries) {
				t.Errorf("%s: DoResult = %#v, want %v and boom after %d tries", c.name, err, c.reason, c.tries)
			}
			idle(t, th)
		})
	}
}

// A call that is given up says why even where the function had no error.
func TestDoResultWithoutAnError(t *testing.T) {
	for verdict, want := range map[pace.Verdict]string{
		pace.Throttled: "throttle: no tries left, after 2 tries, not executed: throttled",
		pace.Failed:    "throttle: no tries left, after 2 tries, may have been executed: failed",
	} {
		var ends []error
		th := &Throttle{Control: pace.All(nil), Tries: 2, Retries: 1, OnEvent: func(e Event) {
			if e.Kind == Ends {
				ends = append(ends, e.Err)
			}
		}}
		err := th.DoResult(t.Context(), func(context.Context) Result { return Result{Report: pace.Report{Verdict: verdict}} })
		if err == nil || err.Error() != want || len(ends) != 2 || ends[0] != nil {
			t.Errorf("%v without an error: DoResult = %q, Ends of %v; want %q, and no error of a try", verdict, err, ends, want)
		}
	}
	// Of a function that was never called there is nothing to say.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var e *Error
	if err := unpaced().DoResult(ctx, func(context.Context) Result { return Result{} }); !errors.As(err, &e) || e.Err != nil {
		t.Errorf("DoResult with an ended context = %#v, want no error of a try", err)
	}
}

// A success tells of a scope that the call did not name: that learns, for those
// that name it from then on.
func TestScopesOfASuccess(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		controls := map[string]*seen{}
		own := new(seen)
		th := &Throttle{Control: own, NewScope: func(name string) pace.Controller {
			controls[name] = new(seen)
			return controls[name]
		}}
		said := ScopeResult{Need: Need{Scope: "tokens", Cost: 40}}
		said.Report = pace.Report{Verdict: pace.Served, Cost: 50, Hints: pace.Hints{Remaining: pace.Some[int64](9)}}
		err := th.DoResult(t.Context(), func(context.Context) Result {
			time.Sleep(time.Second)
			return Result{Report: pace.Report{Verdict: pace.Served}, Scopes: []ScopeResult{said}}
		})
		if err != nil || controls["tokens"] == nil {
			t.Fatalf("DoResult = %v, scopes %v; want success, and tokens", err, controls)
		}
		got := controls["tokens"].outcomes
		if len(got) != 1 || got[0].Report != said.Report || got[0].Request.Cost != 40 || time.Since(got[0].Sent) != time.Second {
			t.Errorf("the scope observed %+v; want %+v, of a request that was estimated at 40, a second ago", got, said.Report)
		}
		if len(own.outcomes) != 1 || own.outcomes[0].Verdict != pace.Served {
			t.Errorf("the Throttle's own limit observed %+v, want a success", own.outcomes)
		}
	})
}

// A refusal by a limit without a pace teaches nothing, and the retry rests a
// little.
func TestARefusalWithoutAPace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		control := new(seen)
		th := &Throttle{Control: control}
		refused := pace.Report{Verdict: pace.Throttled}
		began, tries := time.Now(), 0
		err := th.DoResult(t.Context(), func(context.Context) Result {
			if tries++; tries > 1 {
				return Result{Report: pace.Report{Verdict: pace.Served}}
			}
			return Result{Report: refused, Scopes: []ScopeResult{{Report: refused}}, Err: errBoom}
		})
		if got := time.Since(began); err != nil || got != 100*time.Millisecond {
			t.Errorf("DoResult = %v after %v, want nil after 100ms", err, got)
		}
		o := control.outcomes
		if len(o) != 2 || o[0].Verdict != pace.Ignored || !o[0].Elsewhere || o[0].Sent.IsZero() || o[1].Verdict != pace.Served || o[1].Elsewhere {
			t.Errorf("the Control observed %+v, want a refusal elsewhere and a success", o)
		}
		if _, _, n := ScopesOf(th); n != 0 {
			t.Errorf("%d scopes remembered, want none", n)
		}
	})
}

func TestDoResultOnce(t *testing.T) {
	th, tries := unpaced(), 0
	err := th.DoResult(WithOptions(t.Context(), CallOptions{Once: true}), func(context.Context) Result {
		tries++
		return Result{Report: pace.Report{Verdict: pace.Throttled}, Err: errBoom}
	})
	var e *Error
	if !errors.As(err, &e) || e.Reason != ErrTries || e.Err != errBoom || tries != 1 {
		t.Errorf("DoResult = %#v after %d tries, want ErrTries and boom after 1", err, tries)
	}
}

// Neither form allocates, with a function that captures variables either.
func TestDoResultAllocatesNothing(t *testing.T) {
	th, ctx, calls := unpaced(), t.Context(), 0
	for name, do := range map[string]func(){
		"Do":  func() { _ = th.Do(ctx, func(context.Context) error { calls++; return nil }) },
		"Try": func() { _ = th.Try(ctx, func(context.Context) error { calls++; return nil }) },
		"DoResult": func() {
			_ = th.DoResult(ctx, func(context.Context) Result { calls++; return Result{Report: pace.Report{Verdict: pace.Served}} })
		},
		"Call": func() { _, _ = Call(ctx, th, func(context.Context) (int, error) { calls++; return calls, nil }) },
	} {
		if n := testing.AllocsPerRun(1000, do); n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
}
