package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// slow takes a second for each record; the record 2 fails twice.
func slow(tried *atomic.Int64) *worker.Worker[record] {
	var twos atomic.Int64
	return &worker.Worker[record]{
		Throttle: free(), MaxInFlight: 4, Offset: offset,
		Handle: func(ctx context.Context, r record) error {
			tried.Add(1)
			if r == 9 {
				<-ctx.Done() // hangs
				return ctx.Err()
			}
			time.Sleep(time.Second)
			if r == 2 && twos.Add(1) <= 2 {
				return throttle.Throttled(errors.New("busy"), 2*time.Second)
			}
			return nil
		},
	}
}

// Revoke lets be done what was tried and what is below, starts nothing above, and
// gives up at its deadline.
func TestRevoke(t *testing.T) {
	for name, c := range map[string]struct {
		from        record // tried first
		patience    time.Duration
		want        int64
		took        time.Duration
		tried, next int64
	}{
		// 0 1 2 3 in flight, then 2 rests for 2 s, is tried, rests for 2 s, is tried
		"drains":    {0, time.Minute, 4, 7 * time.Second, 6, 4},
		"deadline":  {0, 3500 * time.Millisecond, 2, 3500 * time.Millisecond, 5, 2},
		"hangs":     {6, 3 * time.Second, 9, 3 * time.Second, 4, 9},
		"cancelled": {0, 0, 0, 0, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var tried atomic.Int64
				w := slow(&tried)
				a := w.Assign(t.Context(), "a", c.from)
				put(t, a, c.from, c.from+100)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				began := time.Now()
				next, ok := a.Revoke(ctx)
				if took := time.Since(began); next != c.want || !ok || took != c.took || tried.Load() != c.tried {
					t.Errorf("Revoke = %d, %v after %v and %d tries, want %d, true after %v and %d", next, ok, took, tried.Load(), c.want, c.took, c.tried)
				}
				if next, ok := a.Frontier(); ok {
					t.Errorf("Frontier = %d, true after Revoke", next)
				}
				if next, ok := a.Revoke(t.Context()); ok {
					t.Errorf("a second Revoke = %d, true", next)
				}
				if err := a.Err(); err != worker.ErrEnded {
					t.Errorf("Err = %v, want ErrEnded", err)
				}
				time.Sleep(time.Minute)
				if tried.Load() != c.tried || w.Throttle.InFlight() != 0 {
					t.Errorf("%d tries and %d in flight after the end", tried.Load(), w.Throttle.InFlight())
				}
			})
		})
	}
}

// Lost during a Revoke ends it.
func TestLostDuringRevoke(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := slow(new(atomic.Int64))
		a := w.Assign(t.Context(), "a", 9)
		put(t, a, 9, 12)
		synctest.Wait()
		time.AfterFunc(time.Second, a.Lost)
		began := time.Now()
		if next, ok := a.Revoke(t.Context()); ok || time.Since(began) != time.Second {
			t.Errorf("Revoke = %d, %v after %v, want false after the loss at 1s", next, ok, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

// What ends late moves no frontier, of its own assignment or the next, and is
// counted.
func TestFence(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var late atomic.Int64
		w := worker.Worker[record]{
			Throttle: free(), Offset: offset,
			Handle: func(context.Context, record) error { time.Sleep(time.Second); return nil }, // deaf to its context
			OnEvent: func(e worker.Event) {
				if e.Late {
					late.Add(1)
				}
			},
		}
		old := w.Assign(t.Context(), "a", 0)
		put(t, old, 0, 10)
		time.Sleep(time.Second / 2)
		old.Lost()
		a := w.Assign(t.Context(), "a", 0)
		time.Sleep(time.Second)
		frontier(t, a, 0)
		if next, ok := old.Frontier(); next != 0 || ok {
			t.Errorf("Frontier of the old assignment = %d, %v, want 0, false", next, ok)
		}
		if s := w.Stats(); s.Late != 10 || late.Load() != 10 || s.Done != 0 {
			t.Errorf("%d late in Stats and %d in events, %d done, want 10, 10, 0", s.Late, late.Load(), s.Done)
		}
	})
}

// The end of the context of Assign cancels; the frontier may still be committed.
func TestContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		why := errors.New("shut down")
		var tried atomic.Int64
		w := slow(&tried)
		ctx, end := context.WithCancelCause(t.Context())
		a := w.Assign(ctx, "a", 6)
		put(t, a, 6, 100)
		time.Sleep(2500 * time.Millisecond)
		end(why)
		if err := a.Wait(t.Context()); err != why {
			t.Errorf("Wait = %v, want the cause", err)
		}
		if err := a.Put(t.Context(), 100); err != why || a.Err() != why {
			t.Errorf("Put = %v, Err = %v, want the cause", err, a.Err())
		}
		time.Sleep(time.Minute)
		frontier(t, a, 9)
		if n := len(w.Stats().Assignments); n != 0 || w.Throttle.InFlight() != 0 {
			t.Errorf("%d assignments and %d in flight left", n, w.Throttle.InFlight())
		}
		if next, ok := a.Revoke(t.Context()); next != 9 || !ok {
			t.Errorf("Revoke = %d, %v, want 9, true", next, ok)
		}
	})
}

// A cancelled wait in the Throttle, too, is over at once.
func TestContextWhileWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{MaxInFlight: 1}
		w := worker.Worker[record]{Throttle: th, Handle: func(ctx context.Context, _ record) error { <-ctx.Done(); return ctx.Err() }}
		ctx, end := context.WithCancel(t.Context())
		a, b := w.Assign(t.Context(), "a", 0), w.Assign(ctx, "b", 0)
		put(t, a, 0, 1)
		put(t, b, 0, 10)
		synctest.Wait()
		if th.InFlight() != 1 || th.Waiting() != 1 {
			t.Fatalf("%d in flight and %d waiting, want 1 and 1", th.InFlight(), th.Waiting())
		}
		end()
		synctest.Wait()
		if th.InFlight() != 1 || th.Waiting() != 0 {
			t.Errorf("%d in flight and %d waiting after the end of the other, want 1 and 0", th.InFlight(), th.Waiting())
		}
		a.Lost()
	})
}

// Drain ends all assignments at once, within the time that it has.
func TestDrain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := slow(new(atomic.Int64))
		a, b := w.Assign(t.Context(), "a", 20), w.Assign(t.Context(), "b", 30)
		put(t, a, 20, 40)
		put(t, b, 30, 50)
		time.Sleep(2500 * time.Millisecond)
		if err := w.Drain(t.Context()); err != nil {
			t.Errorf("Drain = %v, want nil", err)
		}
		next, _ := a.Frontier()
		other, ok := b.Frontier()
		if n := next - 20 + other - 30; n != 12 || !ok {
			t.Errorf("%d done in 2.5 s and what was in flight, want 12", n)
		}
		if n := a.Add(100); n != 0 || a.Err() != worker.ErrEnded {
			t.Errorf("Add accepts %d after Drain; Err = %v", n, a.Err())
		}
		c := w.Assign(t.Context(), "c", 9)
		put(t, c, 9, 10)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain of a try that hangs = %v", err)
		}
		frontier(t, c, 9)
	})
}

// A try that lasts until the deadline of its worker's context is reported as timed
// out, one that lasts until the Timeout as failed: both tell the concurrency limit.
func TestTimedOut(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		want    pace.Report
	}{
		{"deadline", -1, pace.Report{TimedOut: true}},
		{"Timeout", time.Second, pace.Report{Verdict: pace.Failed}},
	} {
		bubble.Test(t, func(t *testing.T) {
			var first atomic.Pointer[pace.Report]
			th := free()
			th.OnEvent = func(e throttle.Event) {
				if e.Kind == throttle.Ends {
					first.CompareAndSwap(nil, &e.Report)
				}
			}
			w := &worker.Worker[record]{Throttle: th, Timeout: c.timeout, Offset: offset, Handle: func(ctx context.Context, _ record) error {
				<-ctx.Done()
				return ctx.Err()
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			a := w.Assign(ctx, "a", 0)
			put(t, a, 0, 1)
			<-ctx.Done()
			synctest.Wait()
			if got := first.Load(); got == nil || *got != c.want {
				t.Errorf("%s: report %+v, want %+v", c.name, got, c.want)
			}
		})
	}
}
