package worker_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// A record that rests when its assignment is revoked is drained too.
func TestRevokeResting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var tried atomic.Int64
		w := slow(&tried)
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 6)
		time.Sleep(2500 * time.Millisecond) // 2 rests, all others are done
		if s := w.Stats(); s.Resting != 1 {
			t.Fatalf("%d rest, want 1", s.Resting)
		}
		if next, ok := a.Revoke(t.Context()); next != 6 || !ok {
			t.Errorf("Revoke = %d, %v, want 6, true", next, ok)
		}
	})
}

// What Revoke drops costs no start: neither what was lined up nor what waited in
// the Throttle, before which others would wait.
func TestRevokeWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		starts := 0
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 0.1}, OnEvent: func(e throttle.Event) {
			if e.Kind == throttle.Starts {
				starts++
			}
		}}
		w := worker.Worker[record]{Throttle: th, Timeout: -1, Handle: func(ctx context.Context, r record) error {
			if r == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		a, b := w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", 0)
		a.Add(1, 2, 3)
		time.Sleep(5 * time.Second) // one runs, one waits
		began := time.Now()
		go b.Put(t.Context(), 5)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			a.Revoke(ctx)
		}()
		synctest.Wait()
		if err := b.Wait(t.Context()); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("%v: the other assignment is done after %v, want 5s, its turn", err, time.Since(began))
		}
		time.Sleep(5 * time.Minute)
		if starts != 2 {
			t.Errorf("%d starts, want 2", starts)
		}
	})
}

// A record that is dropped in the instant in which the Throttle lets it start is
// not tried.
func TestDroppedAtStart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var a *worker.Assignment[record]
		th := &throttle.Throttle{Control: new(pace.Fixed), OnEvent: func(e throttle.Event) {
			if e.Kind == throttle.Starts {
				a.Lost()
			}
		}}
		w := worker.Worker[record]{Throttle: th, Handle: func(context.Context, record) error {
			t.Error("a try of a lost assignment")
			return nil
		}}
		a = w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 1)
		synctest.Wait()
		if s := w.Stats(); s.InFlight+s.Waiting != 0 || th.InFlight() != 0 {
			t.Errorf("%+v, %d in flight", s, th.InFlight())
		}
	})
}

// What is to go to Dead does not go there any more once its assignment is lost.
func TestDeadOfLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		w := worker.Worker[record]{
			Throttle: free(),
			Handle:   func(context.Context, record) error { time.Sleep(time.Second); return errPoison },
			Dead: func(ctx context.Context, _ record, _ error) error {
				calls.Add(1)
				<-ctx.Done()
				return ctx.Err()
			},
		}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 40)
		time.Sleep(1500 * time.Millisecond)
		if s := w.Stats(); s.Dying != 40 || s.Bound != worker.BoundDead {
			t.Errorf("%d are dying, %s, want 40, dead", s.Dying, s.Bound)
		}
		a.Lost()
		time.Sleep(time.Hour)
		if s := w.Stats(); calls.Load() != 16 || s.Dying != 0 || s.Dead != 0 {
			t.Errorf("%d calls of Dead, want 16; %+v", calls.Load(), s)
		}
	})
}

// An assignment whose context ends while Dead runs, or a record waits in the
// Throttle, is not given up for it.
func TestContextWhileDying(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		events := 0
		w := worker.Worker[record]{
			Throttle: free(),
			Handle:   func(context.Context, record) error { return errPoison },
			Dead:     func(ctx context.Context, _ record, _ error) error { <-ctx.Done(); return ctx.Err() },
			OnEvent: func(e worker.Event) {
				if e.Kind == worker.DeadFails {
					events++
				}
			},
		}
		a := w.Assign(ctx, "a", 0)
		put(t, a, 0, 1)
		synctest.Wait()
		end()
		synctest.Wait()
		if s := w.Stats(); s.Resting+s.Dying != 0 || len(s.Assignments) != 0 || events != 0 {
			t.Errorf("%+v, %d events, want none", s, events)
		}
	})
}

// A throttled try counts against no Tries, and a final one is not retried.
func TestVerdicts(t *testing.T) {
	final := errors.New("quota of the month")
	for name, c := range map[string]struct {
		tries int
		err   error
		want  int64 // tries
	}{
		"throttled":         {-1, throttle.Throttled(errPoison, time.Second), 3},
		"final":             {0, final, 1},
		"final and retried": {5, final, 1},
		"permanent":         {5, throttle.Permanent(errPoison), 1},
		"permanent of nil":  {5, throttle.Permanent(nil), 1}, // not done
		"ignore of nil":     {5, throttle.Ignore(nil), 3},
		"failed of nil":     {5, throttle.Failed(nil), 3},
		"throttled of nil":  {5, throttle.Throttled(nil, 0), 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var n atomic.Int64
				th := free()
				th.Classify = func(err error) pace.Report {
					if err == final {
						return pace.Report{Verdict: pace.Throttled, Final: true}
					}
					return throttle.Classify(err)
				}
				w := worker.Worker[record]{Throttle: th, Tries: c.tries, OnEvent: func(worker.Event) {}, Handle: func(context.Context, record) error {
					if n.Add(1) == 3 {
						return nil
					}
					return c.err
				}}
				a := w.Assign(t.Context(), "a", 0)
				put(t, a, 0, 1)
				err := a.Wait(t.Context())
				if n.Load() != c.want || (err == nil) != (c.want == 3) {
					t.Errorf("%d tries, %v, want %d", n.Load(), err, c.want)
				}
			})
		})
	}
}

// An error of a driver that ran out of time by itself is counted as such.
func TestTimedOutItself(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := 0
		w := worker.Worker[record]{Throttle: free(), Handle: func(context.Context, record) error {
			switch n++; n {
			case 1:
				return throttle.Failed(context.DeadlineExceeded)
			case 2:
				return throttle.Failed(&net.OpError{Err: errors.New("refused")}) // which says that it is no time-out
			}
			return nil
		}}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 1)
		if err := a.Wait(t.Context()); err != nil || w.Stats().TimedOut != 1 || w.Stats().Failed != 2 {
			t.Errorf("%v: %+v", err, w.Stats())
		}
	})
}

// Rests grow with jitter, and none is shorter than was set.
func TestBackoff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var at []time.Time
		w := worker.Worker[record]{Throttle: free(), Backoff: pace.Backoff{Base: time.Second, Cap: time.Minute}, Breaker: -1}
		w.Handle = func(context.Context, record) error {
			if at = append(at, time.Now()); len(at) < 200 {
				return throttle.Failed(errPoison)
			}
			return nil
		}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 1)
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		bare := 0
		for i := range at[1:] {
			d, least := at[i+1].Sub(at[i]), min(time.Second<<min(i, 10), time.Minute)
			if d < least || d > 2*least {
				t.Errorf("rest %d is %v, want %v to twice that", i, d, least)
			}
			if d == least {
				bare++
			}
		}
		if mean := at[199].Sub(at[6]) / 193; bare > 3 || mean < 80*time.Second || mean > 100*time.Second {
			t.Errorf("rests of %v on average, %d of them without jitter; want one and a half minutes, with jitter", mean, bare)
		}
	})
}

// The end of the context of Assign is forgotten with the assignment.
func TestForget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancelCause(t.Context())
		w := worker.Worker[record]{Throttle: free(), Handle: func(context.Context, record) error { return nil }}
		counting := &counter{Context: ctx}
		for range 100 {
			w.Assign(counting, "a", 0).Lost()
		}
		if n := counting.added.Load() - counting.removed.Load(); n != 0 {
			t.Errorf("%d functions wait for the end of the context of assignments that were lost", n)
		}
		end(nil)
	})
}

// counter counts the functions that wait for the end of a context.
type counter struct {
	context.Context
	added, removed atomic.Int64
}

// Value hides the context inside, which would be asked otherwise.
func (c *counter) Value(any) any { return nil }

func (c *counter) AfterFunc(f func()) func() bool {
	c.added.Add(1)
	stop := context.AfterFunc(c.Context, f)
	return func() bool {
		c.removed.Add(1)
		return stop()
	}
}

// Put keeps the order beside another Put that waits for room.
func TestPutEarly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[record]{Throttle: free(), Window: 8, MaxInFlight: 1, Offset: offset, Handle: func(context.Context, record) error { time.Sleep(time.Second); return nil }}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 8)
		if n := a.Add(8); n != 0 {
			t.Fatalf("Add accepts %d beyond the Window", n)
		}
		late := make(chan error)
		go func() { late <- a.Put(t.Context(), 9) }()
		time.Sleep(6 * time.Second)
		if n := a.Add(8); n != 1 {
			t.Errorf("Add accepts %d, want 1: 8, which was refused", n)
		}
		if err := <-late; err != nil {
			t.Error(err)
		}
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		frontier(t, a, 10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		put(t, a, 10, 18)
		if err := a.Put(ctx, 18, 19); err != context.DeadlineExceeded {
			t.Errorf("Put = %v without room, want the end of its context", err)
		}
		a.Lost()
		time.Sleep(time.Second)
	})
}

// Assignments that were refused for MaxBytes are notified, all of them.
func TestHungry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[int]{
			Throttle: free(), MaxBytes: 100, MaxInFlight: 1, Size: func(n int) int { return n },
			Handle: func(context.Context, int) error { time.Sleep(time.Second); return nil },
		}
		a, b, c := w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", 0), w.Assign(t.Context(), "c", 0)
		a.Add(50, 50)
		began := time.Now()
		errs := make(chan error)
		go func() { errs <- b.Put(t.Context(), 60, 60) }()
		go func() { errs <- c.Put(t.Context(), 60, 60) }()
		if err := errors.Join(<-errs, <-errs); err != nil || time.Since(began) > 6*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := errors.Join(a.Wait(t.Context()), b.Wait(t.Context()), c.Wait(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// One that was refused for MaxBytes is notified when others have done enough.
func TestHungryResting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[int]{
			Throttle: free(), MaxBytes: 100, MaxInFlight: 1, Size: func(n int) int { return n },
			Handle: func(_ context.Context, n int) error {
				if time.Sleep(time.Second); n == 10 {
					return throttle.Throttled(errPoison, time.Hour)
				}
				return nil
			},
		}
		a, b := w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", 0)
		a.Add(22, 22, 22, 22)
		b.Add(10)
		began := time.Now()
		if err := b.Put(t.Context(), 20); err != nil || time.Since(began) > 6*time.Second {
			t.Errorf("%v: room after %v, though the other needs 5 s", err, time.Since(began))
		}
		b.Lost()
		time.Sleep(time.Minute)
	})
}

// Room for one byte is not worth a call.
func TestRoomForBytes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var rooms atomic.Int64
		w := worker.Worker[int]{
			Throttle: free(), MaxBytes: 100, MaxInFlight: 1, Size: func(n int) int { return n },
			Handle: func(context.Context, int) error { time.Sleep(time.Second); return nil },
			Room:   func(*worker.Assignment[int]) { rooms.Add(1) },
		}
		a := w.Assign(t.Context(), "a", 0)
		for range 10 {
			a.Add(10)
		}
		if n := a.Add(10); n != 0 {
			t.Errorf("Add accepts %d beyond MaxBytes", n)
		}
		time.Sleep(4*time.Second + time.Millisecond)
		if rooms.Load() != 0 {
			t.Error("Room is called with 60 bytes of 100 held")
		}
		time.Sleep(time.Second)
		if rooms.Load() != 1 {
			t.Errorf("Room is called %d times with 50 bytes of 100 held, want once", rooms.Load())
		}
		time.Sleep(10 * time.Second)
	})
}
