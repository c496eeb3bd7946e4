package throttle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/internal/timeline"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

var errBoom = errors.New("boom")

func served(context.Context) error { return nil }

// counted is a Controller that checks how it is used.
type counted struct {
	pace.Controller
	starts, observes, unsent int
}

func (c *counted) Start(now time.Time, r pace.Request) {
	c.starts++
	c.Controller.Start(now, r)
}

func (c *counted) Observe(now time.Time, o pace.Outcome) time.Duration {
	c.observes++
	if o.Sent.IsZero() {
		c.unsent++
	}
	return c.Controller.Observe(now, o)
}

// idle checks that nothing is left in th.
func idle(t *testing.T, th *Throttle) {
	t.Helper()
	synctest.Wait()
	if w, f := th.Waiting(), th.InFlight(); w != 0 || f != 0 {
		t.Errorf("%d waiting and %d in flight, want none", w, f)
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	if !th.wake.IsZero() || th.timer != nil && th.timer.Stop() {
		t.Errorf("the timer is set, to %v, want it stopped", th.wake)
	}
	if c, ok := th.gate.Control.(*counted); ok && c.starts != c.observes {
		t.Errorf("%d starts and %d observed, want as many", c.starts, c.observes)
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &counted{Controller: &pace.Fixed{Rate: 1}}}
		started := timeline.New()
		var all sync.WaitGroup
		var order []int
		for i := range 10 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				err := th.Do(t.Context(), func(context.Context) error {
					started.Note("start")
					order = append(order, i) // one a second: no lock needed
					return nil
				})
				if err != nil {
					t.Errorf("Do = %v", err)
				}
			})
		}
		all.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(order, want) {
			t.Errorf("order of starts %v, want %v", order, want)
		}
		const s = time.Second
		started.Check(t, "start", 0, s, 2*s, 3*s, 4*s, 5*s, 6*s, 7*s, 8*s, 9*s)
		idle(t, th)
	})
}

func TestCancelledWaiterLeavesNoHole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &counted{Controller: &pace.Fixed{Rate: 1}}}
		started := timeline.New()
		var all sync.WaitGroup
		call := func(name string, ctx context.Context) {
			all.Go(func() {
				err := th.Do(ctx, func(context.Context) error { started.Note(name); return nil })
				if err != nil {
					started.Note(name + " fails")
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		call("a", t.Context())
		call("b", ctx)
		call("c", t.Context())
		time.Sleep(500 * time.Millisecond)
		cancel()
		all.Wait()
		started.Check(t, "a", 0)
		started.Check(t, "b fails", 500*time.Millisecond)
		started.Check(t, "c", time.Second)
		idle(t, th)
	})
}

// obedient spaces starts by an interval that answers set, as hint Share.
type obedient struct {
	interval time.Duration
	last     time.Time
}

func (c *obedient) Wait(now time.Time, r pace.Request) time.Duration {
	return c.last.Add(c.interval * time.Duration(max(r.Place, 1))).Sub(now)
}
func (c *obedient) Start(now time.Time, _ pace.Request) { c.last = now }
func (c *obedient) Observe(_ time.Time, o pace.Outcome) time.Duration {
	if s := o.Hints.Share; s.OK {
		c.interval = time.Duration(float64(time.Second) / s.V)
	}
	return 0
}

func TestWaitersAreReplanned(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &obedient{interval: 100 * time.Second}}
		started := timeline.New()
		var all sync.WaitGroup
		slow := func(takes time.Duration, rate float64) {
			all.Go(func() {
				_ = th.DoResult(t.Context(), func(context.Context) Result {
					started.Note("start")
					time.Sleep(takes)
					r := Result{Report: pace.Report{Verdict: pace.Served}}
					r.Report.Hints.Share = pace.Some(rate)
					return r
				})
			})
			synctest.Wait()
		}
		slow(10*time.Second, 1)      // ends at 10 s, and raises the rate
		slow(time.Second/2, 0.125)   // so this starts, ends at 10.5 s, and lowers it
		slow(time.Second/2, 0.125)   // so this waits until 18 s
		started.Check(t, "start", 0) // and not for 100 s and 200 s
		if got, want := th.Forecast(2), 200*time.Second; got != want {
			t.Errorf("Forecast(2) = %v, want %v", got, want)
		}
		all.Wait()
		started.Check(t, "start", 0, 10*time.Second, 18*time.Second)
		idle(t, th)
	})
}

func TestRetryKeepsItsPlace(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		a     []time.Duration
		b, c  time.Duration
	}{
		{0, []time.Duration{0, time.Second}, 2 * time.Second, 3 * time.Second},
		{1200 * time.Millisecond, []time.Duration{0, 2 * time.Second}, time.Second, 3 * time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			th := &Throttle{Control: &counted{Controller: &pace.Fixed{Rate: 1}}}
			started := timeline.New()
			var all sync.WaitGroup
			tries := 0
			all.Go(func() {
				_ = th.Do(t.Context(), func(context.Context) error {
					started.Note("a")
					if tries++; tries > 1 {
						return nil
					}
					time.Sleep(500 * time.Millisecond)
					return Throttled(errBoom, c.after)
				})
			})
			for _, name := range []string{"b", "c"} {
				synctest.Wait()
				all.Go(func() {
					_ = th.Do(t.Context(), func(context.Context) error { started.Note(name); return nil })
				})
			}
			all.Wait()
			started.Check(t, "a", c.a...)
			started.Check(t, "b", c.b)
			started.Check(t, "c", c.c)
			idle(t, th)
		})
	}
}

// A spurious ring changes nothing.
func TestSpuriousRings(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &counted{Controller: &pace.Fixed{Rate: 1}}}
		th.ring() // before the first use
		started := timeline.New()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_ = th.Do(t.Context(), func(context.Context) error { started.Note("start"); return nil })
			})
		}
		for range 1000 {
			time.Sleep(3 * time.Millisecond)
			th.ring()
		}
		all.Wait()
		started.Check(t, "start", 0, time.Second, 2*time.Second)
		th.ring()
		idle(t, th)
	})
}

// Timers fire late. Calls that should have started in the meantime start then,
// and the schedule is as if nothing had been; but not when it was very late.
func TestLateRings(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &counted{Controller: &pace.Fixed{Rate: 1000}}}
		started := timeline.New()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				_ = th.Do(t.Context(), func(context.Context) error { started.Note("start"); return nil })
			})
		}
		check := func(want int) {
			t.Helper()
			synctest.Wait()
			if n := started.Count("start"); n != want {
				t.Errorf("%d started, want %d", n, want)
			}
		}
		ringAfter := func(d time.Duration) {
			th.mu.Lock()
			th.timer.Stop()
			th.mu.Unlock()
			time.Sleep(d)
			th.ring()
		}
		check(1)
		ringAfter(10500 * time.Microsecond)
		check(11)
		time.Sleep(400 * time.Microsecond)
		check(11)
		time.Sleep(100 * time.Microsecond) // 11 ms since the first
		check(12)
		ringAfter(time.Second) // the last 20 ms, both ends counted, and one that Fixed makes up for
		check(12 + 22)
		all.Wait()
		idle(t, th)
	})
}

// took notes the latencies that a concurrency limit learns from.
type took []time.Duration

func (*took) Limit() int              { return 1000 }
func (k *took) Observe(s load.Sample) { *k = append(*k, s.Took) }

// A concurrency limit learns the latency from when a call started, not from when
// it should have, had the timer been on time.
func TestLateRingsAreNoLatency(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		law := new(took)
		th := &Throttle{Control: &pace.Fixed{Rate: 1000}, Concurrency: law}
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				_ = th.Do(t.Context(), func(context.Context) error { time.Sleep(2 * time.Millisecond); return nil })
			})
		}
		synctest.Wait()
		th.mu.Lock()
		th.timer.Stop()
		th.mu.Unlock()
		time.Sleep(1500 * time.Microsecond)
		th.ring()
		all.Wait()
		if len(*law) != 30 || slices.Max(*law) != 2*time.Millisecond {
			t.Errorf("%d latencies, %v, want 30 of 2ms", len(*law), *law)
		}
		idle(t, th)
	})
}

// When the end of the context and the start fall together, either the function
// is called, or the start is given back.
func TestCancelMeetsStart(t *testing.T) {
	for range 200 {
		bubble.Test(t, func(t *testing.T) {
			c := &counted{Controller: &pace.Fixed{Rate: 1}}
			th := &Throttle{Control: c}
			_ = th.Do(t.Context(), served)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			called := false
			_ = th.Do(ctx, func(context.Context) error { called = true; return nil })
			idle(t, th)
			if next := th.Try(t.Context(), served); called == (next == nil) {
				t.Errorf("the call that met its end started: %v; the next: %v; want one of them to start", called, next)
			}
		})
	}
}

// A waiter that has given up but is started before it can say so gives back
// what it took, and its successor is not told of that start.
func TestStartAfterCancel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &counted{Controller: &pace.Fixed{Rate: 1}}
		th := &Throttle{Control: c}
		_ = th.Do(t.Context(), served)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			err := th.Do(ctx, func(context.Context) error { t.Error("called"); return nil })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Do = %v, want context.Canceled", err)
			}
		}()
		synctest.Wait()
		th.mu.Lock()
		cancel()
		th.pump(time.Now().Add(time.Second), nil)
		th.mu.Unlock()
		idle(t, th)
		if c.unsent != 1 {
			t.Fatalf("%d starts given back, want 1", c.unsent)
		}
		started := timeline.New()
		for range 2 {
			_ = th.Do(t.Context(), func(context.Context) error { started.Note("start"); return nil })
		}
		started.Check(t, "start", time.Second, 2*time.Second)
		idle(t, th)
	})
}

func TestTry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &counted{Controller: &pace.Fixed{Rate: 0.1}}}
		th.OnEvent = func(e Event) {
			if n := th.Waiting(); n != 0 {
				t.Errorf("%v: %d in line, want none", e.Kind, n)
			}
		}
		if err := th.Try(t.Context(), served); err != nil {
			t.Fatalf("first Try = %v", err)
		}
		time.Sleep(4 * time.Second)
		err := th.Try(t.Context(), func(context.Context) error { t.Error("called"); return nil })
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrWouldWait) || e.Wait != 6*time.Second || e.Tries != 0 || e.MayHaveRun {
			t.Errorf("Try after 4 s of 10 = %#v, want ErrWouldWait with 6s", err)
		}
		idle(t, th)
		time.Sleep(6 * time.Second)
		began := time.Now()
		err = th.Try(t.Context(), func(context.Context) error { return Throttled(errBoom, time.Minute) })
		if !errors.As(err, &e) || !errors.Is(err, ErrTries) || !errors.Is(err, errBoom) ||
			e.Wait != time.Minute || e.Tries != 1 || e.MayHaveRun || !time.Now().Equal(began) {
			t.Errorf("Try that is throttled = %#v, want ErrTries and boom, at once, with 1m0s", err)
		}
		idle(t, th)
	})
}
