package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
)

// faulty lets one start a second, and once it is broken does what fails says.
type faulty struct {
	pace.Fixed
	broken atomic.Int64 // so often more
	fails  func()
}

func (c *faulty) fail() {
	if c.broken.Load() > 0 {
		c.broken.Add(-1)
		c.fails()
	}
}

func (c *faulty) Start(now time.Time, r pace.Request) { c.fail(); c.Fixed.Start(now, r) }

// A Controller that panics when the timer of the Throttle rings ends no process:
// the first call that waits panics with it, and says where; the others go on, or
// panic too if it happens again.
func TestControllerPanicsInTheTimer(t *testing.T) {
	for name, fails := range map[string]func(){
		"a panic": func() { panic(errDown) },
		"Goexit":  runtime.Goexit,
	} {
		for times := range 4 {
			bubble.Test(t, func(t *testing.T) {
				c := &faulty{Fixed: pace.Fixed{Rate: 1}, fails: fails}
				th := throttle.Throttle{Control: c}
				if err := th.Do(t.Context(), nothing); err != nil {
					t.Fatal(err)
				}
				var panics, done atomic.Int64
				var calls sync.WaitGroup
				began := time.Now()
				for range 3 {
					calls.Go(func() {
						defer func() {
							p := recover()
							if p == nil {
								return
							}
							panics.Add(1)
							err, ok := p.(error)
							if text := err.Error(); !ok || name == "a panic" && !errors.Is(err, errDown) || !strings.Contains(text, "faulty).Start") && name == "a panic" || errors.Unwrap(err) == nil {
								t.Errorf("%s: the call panics with %v; want the value, and where", name, text)
							}
						}()
						if err := th.Do(t.Context(), nothing); err == nil {
							done.Add(1)
						}
					})
				}
				synctest.Wait()
				c.broken.Store(int64(times))
				calls.Wait()
				if panics.Load() != int64(times) || done.Load() != int64(3-times) {
					t.Errorf("%s %d times: %d calls panic, %d are served; want %d, %d", name, times, panics.Load(), done.Load(), times, 3-times)
				}
				if took := time.Since(began); took > 3*time.Second || th.InFlight() != 0 || th.Waiting() != 0 {
					t.Errorf("%s: %d in flight, %d wait after %v; want none, after 3s at most", name, th.InFlight(), th.Waiting(), took)
				}
				if err := th.Do(t.Context(), nothing); err != nil {
					t.Errorf("%s: a later call: %v", name, err)
				}
			})
		}
	}
}

// The same holds for the goroutine that asks the Store of a Fleet.
func TestControllerPanicsInTheFleet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &faulty{fails: func() { panic(errDown) }}
		th := throttle.Throttle{Control: c, Fleet: throttle.Fleet{Store: new(memory.Store), Key: "k", Limit: limit.Limit{Count: 10, Period: time.Second}}}
		c.broken.Store(1)
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !errors.Is(err, errDown) {
					t.Errorf("the call panics with %v, want %v", err, errDown)
				}
			}()
			_ = th.Do(t.Context(), nothing)
		}()
		if err := th.Do(t.Context(), nothing); err != nil || th.InFlight() != 0 || th.Waiting() != 0 {
			t.Errorf("a later call: %v, %d in flight, %d wait; want nil and none", err, th.InFlight(), th.Waiting())
		}
	})
}

// A scope's Controller that panics as it learns leaves no permit in the others.
func TestScopeControllerPanics(t *testing.T) {
	var broken atomic.Int64
	th := throttle.Throttle{NewScope: func(scope string) pace.Controller {
		if scope == "a" {
			return &forgetful{broken: &broken}
		}
		return nil
	}}
	ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{Needs: []throttle.Need{{Scope: "a"}, {Scope: "b"}}})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Observe panics, and Do does not")
			}
		}()
		broken.Store(1)
		_ = th.Do(ctx, nothing)
	}()
	if waiting, flying, n := throttle.ScopesOf(&th); waiting != 0 || flying != 0 || n != 2 || th.InFlight() != 0 {
		t.Errorf("%d wait, %d in flight in %d scopes, %d in all; want none in 2", waiting, flying, n, th.InFlight())
	}
}

// forgetful panics as it learns, so often as broken says.
type forgetful struct {
	pace.Fixed
	broken *atomic.Int64
}

func (c *forgetful) Observe(now time.Time, o pace.Outcome) time.Duration {
	if c.broken.Add(-1) >= 0 {
		panic(errDown)
	}
	return c.Fixed.Observe(now, o)
}

// A panic in the goroutine of one call, while it starts others, leaves these to
// start: none is lost, and none waits for the end of its patience.
func TestControllerPanicsInACall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &faulty{fails: func() { panic(errDown) }}
		th := throttle.Throttle{Control: c, MaxInFlight: 1}
		began := time.Now()
		end := make(chan struct{})
		var calls sync.WaitGroup
		calls.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the call whose end starts the next does not panic")
				}
			}()
			_ = th.Do(t.Context(), func(context.Context) error { <-end; return nil })
		})
		synctest.Wait()
		for range 3 {
			calls.Go(func() {
				if err := th.Do(t.Context(), nothing); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		c.broken.Store(1)
		close(end)
		calls.Wait()
		if took := time.Since(began); took != 0 || th.InFlight() != 0 || th.Waiting() != 0 {
			t.Errorf("after %v: %d in flight, %d wait; want none at once", took, th.InFlight(), th.Waiting())
		}
	})
}

// fuse is a Controller that panics from a step on until it is mended.
type fuse struct{ blown string }

func (c *fuse) at(step string) {
	if c.blown == step || c.blown == "all" {
		panic(errDown)
	}
}

func (c *fuse) Wait(time.Time, pace.Request) time.Duration { c.at("Wait"); return 0 }
func (c *fuse) Start(time.Time, pace.Request)              { c.at("Start") }
func (c *fuse) Observe(time.Time, pace.Outcome) (rest time.Duration) {
	c.at("Observe")
	return 0
}

// However often a Controller or NewScope panics while a call ends, each Starts has its
// Ends, no scope is kept, and nothing stays in flight.
func TestControllerPanicsAsACallEnds(t *testing.T) {
	for _, blown := range []string{"Wait", "Observe", "NewScope", "all"} {
		for name, f := range map[string]func(){
			"returns": func() {},
			"panics":  func() { panic("the function panics") },
			"ends":    runtime.Goexit,
		} {
			var count throttle.Counter
			c := new(fuse)
			th := throttle.Throttle{Control: c, MaxScopes: 3, OnEvent: count.OnEvent, NewScope: func(string) pace.Controller {
				c.at("NewScope")
				return nil
			}}
			for i := range 20 {
				c.blown = ""
				ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{Needs: []throttle.Need{{Scope: fmt.Sprint(i)}}})
				var call sync.WaitGroup
				call.Go(func() {
					defer func() { recover() }()
					_ = th.DoResult(ctx, func(context.Context) throttle.Result {
						c.blown = blown
						f()
						told := throttle.ScopeResult{Need: throttle.Need{Scope: fmt.Sprint("told", i)}}
						return throttle.Result{Report: pace.Report{Verdict: pace.Throttled}, Scopes: []throttle.ScopeResult{told}}
					})
				})
				call.Wait()
			}
			s := count.Stats()
			if ends := s.Served + s.Throttled + s.Failed + s.Ignored; s.Starts != 20 || ends != 20 {
				t.Errorf("%s panics as the function %s: %d started, %d ended by event; want 20 and 20", blown, name, s.Starts, ends)
			}
			waiting, flying, n := throttle.ScopesOf(&th)
			if n > 3 || waiting != 0 || flying != 0 || th.InFlight() != 0 || th.Waiting() != 0 {
				t.Errorf("%s panics as the function %s: %d scopes, %d waiting, %d in flight in them, %d in flight, %d waiting; want 3 at most, and none",
					blown, name, n, waiting, flying, th.InFlight(), th.Waiting())
			}
		}
	}
}
