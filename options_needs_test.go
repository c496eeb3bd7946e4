package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// rates makes a Control of a fixed rate for each scope that is named "RATE/s ...".
func rates(scope string) pace.Controller {
	var rate float64
	fmt.Sscanf(scope, "%g/s", &rate)
	return &pace.Fixed{Rate: rate}
}

func nothing(context.Context) error { return nil }

var success = throttle.Result{Report: pace.Report{Verdict: pace.Served}}

func needing(ctx context.Context, needs ...throttle.Need) context.Context {
	return throttle.WithOptions(ctx, throttle.CallOptions{Needs: needs})
}

// A call is admitted when all its limits admit it, and told which one did not.
func TestNeedsAllAdmit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 1000}, NewScope: rates}
		began := time.Now()
		both := needing(t.Context(), throttle.Need{Scope: "0.5/s search"}, throttle.Need{Scope: "100/s tokens", Cost: 400})
		for range 3 {
			if err := th.Do(both, nothing); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(began); got != 8*time.Second {
			t.Errorf("three calls of 400 at 100/s, and one in 2 s: %v, want 8s", got)
		}
		ctx, cancel := context.WithTimeout(both, time.Second)
		defer cancel()
		var e *throttle.Error
		if err := th.Do(ctx, nothing); !errors.As(err, &e) || e.Scope != "100/s tokens" || e.Why.Rate != 100 || e.Wait != 4*time.Second {
			t.Errorf("with a second to wait: %v; want the tokens to blame, and 4s", err)
		} else if want := "would wait 4s (scope 100/s tokens, paced at 100/s)"; !strings.Contains(e.Error(), want) {
			t.Errorf("the error is %q, want %q in it", e, want)
		}
		if err := th.Try(both, nothing); !errors.As(err, &e) || e.Scope != "100/s tokens" {
			t.Errorf("Try: %v, want the tokens to blame", err)
		}
		began = time.Now()
		if err := th.Do(t.Context(), nothing); err != nil || time.Since(began) > time.Millisecond {
			t.Errorf("a call that needs neither: %v after %v, want at once", err, time.Since(began))
		}
	})
}

// What a call has cost in the end is what the next one waits for.
func TestNeedsSettle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{}, NewScope: rates}
		ctx := needing(t.Context(), throttle.Need{Scope: "100/s tokens", Cost: 1000})
		began := time.Now()
		for range 2 {
			err := th.DoResult(ctx, func(context.Context) throttle.Result {
				said := throttle.ScopeResult{Need: throttle.Need{Scope: "100/s tokens"}, Report: pace.Report{Verdict: pace.Served, Cost: 300}}
				return throttle.Result{Report: pace.Report{Verdict: pace.Served}, Scopes: []throttle.ScopeResult{said}}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("two calls, estimated 1000, that cost 300 of 100/s: %v, want 3s", got)
		}
	})
}

// An answer names an unknown scope: the retry, and calls that name it from then
// on, are subject to it, and no others.
func TestAnswersTellOfScopes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var events []string
		th := &throttle.Throttle{OnEvent: func(e throttle.Event) {
			if e.Kind == throttle.Waits {
				events = append(events, e.Scope)
			}
		}}
		bucket := throttle.ScopeResult{
			Need:   throttle.Need{Scope: "bucket"},
			Report: pace.Report{Verdict: pace.Throttled, After: 10 * time.Second},
		}
		tries := 0
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			err := th.DoResult(t.Context(), func(context.Context) throttle.Result {
				if tries++; tries > 1 {
					return success
				}
				return throttle.Result{Report: pace.Report{Verdict: pace.Throttled}, Scopes: []throttle.ScopeResult{bucket}}
			})
			if got := time.Since(began); err != nil || got < 10*time.Second || got > 13*time.Second {
				t.Errorf("the retry: %v after %v, want nil after 10s and a little more", err, got)
			}
		})
		synctest.Wait()
		var e *throttle.Error
		if err := th.Try(needing(t.Context(), throttle.Need{Scope: "bucket"}), nothing); !errors.As(err, &e) || e.Wait < 10*time.Second || e.Scope != "bucket" {
			t.Errorf("another of the bucket: %v, want a wait of 10 s and more for it", err)
		}
		if err := th.Try(t.Context(), nothing); err != nil {
			t.Errorf("another call: %v, want it served: its limit has refused nothing", err)
		}
		all.Wait()
		if len(events) == 0 || events[0] != "bucket" {
			t.Errorf("waited for %q, want the bucket", events)
		}
	})
}

// A refusal for too many at once makes it fewer at once, and not slower.
func TestCrowdedLowersConcurrencyNotRate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var th throttle.Throttle
		var mu sync.Mutex
		inside, served, refused := 0, 0, 0
		call := func(context.Context) throttle.Result {
			mu.Lock()
			full := inside >= 10
			if full {
				refused++
			} else {
				inside++
			}
			mu.Unlock()
			if full {
				return throttle.Result{Report: pace.Report{Verdict: pace.Throttled, Crowded: true}}
			}
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			inside--
			served++
			return success
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for ctx.Err() == nil && th.DoResult(ctx, call) == nil {
				}
			})
		}
		all.Wait()
		if served < 11_500 || refused > 100 {
			t.Errorf("of 100 a second that are possible in two minutes: served %d, refused %d; want nearly 12000, below 100", served, refused)
		}
		if got := th.Learnt(); got != (pace.Learnt{}) {
			t.Errorf("it was slowed down: %+v", got)
		}
	})
}

func TestKeysTakeTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 10}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex
		var order []string
		for key, n := range map[string]int{"many": 80, "few": 10} {
			for range n {
				all.Go(func() {
					th.Do(throttle.WithOptions(ctx, throttle.CallOptions{Key: key}), func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						order = append(order, key)
						return nil
					})
				})
			}
		}
		all.Wait()
		few := strings.Count(strings.Join(order[:20], " "), "few")
		if few < 9 {
			t.Errorf("of the first 20 calls %d were of the one with 10, want 9 and more", few)
		}
	})
}

// Whatever is cancelled, nothing is left behind, and no more scopes are
// remembered than may be.
func TestNeedsLeaveNothingBehind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 100}, NewScope: rates, MaxScopes: 3}
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Millisecond)
				defer cancel()
				ctx = throttle.WithOptions(ctx, throttle.CallOptions{Key: fmt.Sprint(i % 7), Needs: []throttle.Need{
					{Scope: fmt.Sprintf("%d/s a", 1+i%5)}, {Scope: "50/s all", Cost: int64(random.IntN(4))},
				}})
				th.DoResult(ctx, func(context.Context) throttle.Result {
					time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
					said := throttle.ScopeResult{Need: throttle.Need{Scope: fmt.Sprintf("%d/s told", 1+i%9)}}
					said.Report.Verdict = pace.Verdict(random.IntN(4))
					return throttle.Result{Report: pace.Report{Verdict: pace.Verdict(random.IntN(4))}, Scopes: []throttle.ScopeResult{said}}
				})
			})
		}
		all.Wait()
		if th.Waiting() != 0 || th.InFlight() != 0 {
			t.Errorf("%d waiting, %d in flight; want none", th.Waiting(), th.InFlight())
		}
		if waiting, flying, n := throttle.ScopesOf(th); waiting != 0 || flying != 0 || n > 3 {
			t.Errorf("scopes: %d waiting, %d in flight, %d remembered; want none, none, 3 at most", waiting, flying, n)
		}
	})
}

// A wait says why, in the log too.
func TestWaitsSayWhy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log strings.Builder
		th := &throttle.Throttle{OnEvent: throttle.Log(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))}
		tries := 0
		err := th.DoResult(needing(t.Context(), throttle.Need{Scope: "api.example.com/search"}), func(context.Context) throttle.Result {
			if tries++; tries > 1 {
				return success
			}
			said := throttle.ScopeResult{Need: throttle.Need{Scope: "api.example.com/search"}, Report: pace.Report{Verdict: pace.Throttled}}
			said.Report.Hints.Limit, said.Report.Hints.Remaining = pace.Some[int64](5000), pace.Some[int64](3)
			return throttle.Result{Report: pace.Report{Verdict: pace.Throttled}, Scopes: []throttle.ScopeResult{said}}
		})
		want := `why="scope api.example.com/search, paced at 0.5/s since a throttled answer at 00:00:00, 3 of 5000 remaining"`
		if err != nil || !strings.Contains(log.String(), want) {
			t.Errorf("%v, the log is\n%swant in it\n%s", err, log.String(), want)
		}
	})
}

// told is a refusal by which a server names a scope.
func told(scope string, after time.Duration) throttle.Result {
	refused := pace.Report{Verdict: pace.Throttled}
	of := refused
	of.After = after
	return throttle.Result{Report: refused, Scopes: []throttle.ScopeResult{{Need: throttle.Need{Scope: scope}, Report: of}}}
}

// No retry comes before what its scopes asked for, whatever paces them.
func TestARetryWaitsAsItsScopesSay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, ctx := range []context.Context{t.Context(), needing(t.Context(), throttle.Need{Scope: "100/s a"})} {
			th := &throttle.Throttle{NewScope: rates}
			began, tries := time.Now(), 0
			err := th.DoResult(ctx, func(context.Context) throttle.Result {
				if tries++; tries > 1 {
					return success
				}
				return told("100/s a", 10*time.Second)
			})
			if got := time.Since(began); err != nil || got != 10*time.Second {
				t.Errorf("needs %v: %v after %v, want nil after 10s", throttle.OptionsOf(ctx).Needs, err, got)
			}
			if got := th.Learnt(); got != (pace.Learnt{}) {
				t.Errorf("the Throttle's own limit was slowed down: %+v", got)
			}
		}
	})
}

// A server that names another scope each time does not fill the memory.
func TestScopesThatAnswersTellOfAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{MaxScopes: 5}
		tries, most := 0, 0
		ctx, cancel := context.WithTimeout(needing(t.Context(), throttle.Need{Scope: "named"}), time.Hour)
		defer cancel()
		th.DoResult(ctx, func(context.Context) throttle.Result {
			tries++
			_, _, n := throttle.ScopesOf(th)
			most = max(most, n)
			return told(fmt.Sprint("bucket ", tries), 0)
		})
		if tries < 20 || tries > 200 || most != 17 {
			t.Errorf("%d tries in an hour, %d scopes at once; want 20 and more but no flood, and one named and 16 told", tries, most)
		}
		if _, _, n := throttle.ScopesOf(th); n != 5 {
			t.Errorf("%d scopes remembered, want 5", n)
		}
	})
}

// What an answer said was for the Throttle that made the call, not for one around
// that.
func TestScopeResultsAreForOneThrottle(t *testing.T) {
	inner, outer := &throttle.Throttle{Tries: 1}, new(throttle.Throttle)
	outer.Do(t.Context(), func(ctx context.Context) error {
		return inner.DoResult(ctx, func(context.Context) throttle.Result { return told("bucket", 0) })
	})
	_, _, n := throttle.ScopesOf(inner)
	if _, _, around := throttle.ScopesOf(outer); n != 1 || around != 0 {
		t.Errorf("%d scopes in the inner Throttle, %d in the outer; want 1 and 0", n, around)
	}
}

// A NewScope that panics once leaves neither a scope without limit nor a permit.
func TestNewScopePanics(t *testing.T) {
	for _, ctx := range []context.Context{t.Context(), needing(t.Context(), throttle.Need{Scope: "x"})} {
		panics := 1
		th := &throttle.Throttle{NewScope: func(string) pace.Controller {
			if panics--; panics == 0 {
				panic("no")
			}
			return &pace.Fixed{Rate: 0.1}
		}}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("NewScope panics, and Do does not")
				}
			}()
			th.DoResult(ctx, func(context.Context) throttle.Result { return told("x", 0) })
		}()
		if th.InFlight() != 0 || th.Waiting() != 0 {
			t.Errorf("%d in flight, %d waiting; want none", th.InFlight(), th.Waiting())
		}
		needs := needing(t.Context(), throttle.Need{Scope: "x"})
		if err := th.Do(needs, nothing); err != nil {
			t.Fatal(err)
		}
		if err := th.Try(needs, nothing); err == nil {
			t.Error("a second call starts at once, want 10 s between them")
		}
	}
}
