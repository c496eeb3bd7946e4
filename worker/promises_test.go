package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// A record may have been executed from the first try on that ended with an error which
// does not say that the service refused it. Events and dead letters say so.
func TestMayHaveRun(t *testing.T) {
	busy, failed := throttle.Throttled(errors.New("busy"), 0), throttle.Failed(errors.New("failed"))
	for _, c := range []struct {
		name  string
		tries []error
		want  []bool // of the event of each
	}{
		{"refused", []error{busy, busy, nil}, []bool{false, false, false}},
		{"failed", []error{busy, failed, busy, failed}, []bool{false, true, true, true}},
		{"ignored", []error{throttle.Ignore(errors.New("never sent")), busy, nil}, []bool{true, true, true}},
		{"given up", []error{busy, throttle.Permanent(errPoison)}, []bool{false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var got []bool
				tries := 0
				var letter error
				w := worker.Worker[record]{
					Throttle: free(), Tries: 2,
					Handle: func(context.Context, record) error { tries++; return c.tries[tries-1] },
					Dead:   func(_ context.Context, _ record, err error) error { letter = err; return nil },
					OnEvent: func(e worker.Event) {
						if e.Kind == worker.Ends {
							got = append(got, e.MayHaveRun)
						}
					},
				}
				a := w.Assign(t.Context(), "a", 0)
				put(t, a, 0, 1)
				if err := a.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for i, want := range c.want {
					if i >= len(got) || got[i] != want {
						t.Errorf("may have run: %v, want %v", got, c.want)
						break
					}
				}
				var e *throttle.Error
				if errors.As(letter, &e) && (!e.MayHaveRun || e.Tries != len(c.tries)) {
					t.Errorf("the dead letter says %+v, want that it may have run, in %d tries", e, len(c.tries))
				}
				count := map[pace.Verdict]int64{}
				for _, err := range c.tries {
					count[throttle.Classify(err).Verdict]++
				}
				s := w.Stats()
				if s.Served != count[pace.Served] || s.Throttled != count[pace.Throttled] || s.Failed != count[pace.Failed] || s.Ignored != count[pace.Ignored] {
					t.Errorf("tries are counted as %+v, want %v", s, count)
				}
			})
		})
	}
}

// An outage gives up no record of a source that goes on, whatever Tries says, though
// all that have room have failed many times.
func TestOutageGivesNobodyUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		w := worker.Worker[record]{
			Throttle: free(), Tries: 3, Offset: offset, Window: 6,
			Handle: func(context.Context, record) error {
				if time.Since(began) < time.Hour {
					return throttle.Failed(errors.New("down"))
				}
				return nil
			},
			Dead: func(_ context.Context, r record, err error) error {
				t.Errorf("%d is given up in an outage: %v", r, err)
				return nil
			},
			OnEvent: func(worker.Event) {},
		}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 8)
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < time.Hour || d > time.Hour+time.Minute {
			t.Errorf("all done after %v, want an hour and some seconds", d)
		}
		a.Lost()
	})
}

// Tries that were cancelled with their assignment are no failures of the service: the
// circuit breaker stays closed for the others.
func TestCancelStorm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[record]{
			Throttle: free(),
			Handle: func(ctx context.Context, _ record) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Second):
					return nil
				}
			},
			OnEvent: func(e worker.Event) {
				if e.Kind == worker.Opens {
					t.Errorf("the circuit breaker opens: %+v", e)
				}
			},
		}
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			a := w.Assign(ctx, "a", 0)
			put(t, a, 0, 50)
			time.Sleep(500 * time.Millisecond)
			cancel()
			synctest.Wait()
			a.Lost()
		}
		b := w.Assign(t.Context(), "b", 0)
		began := time.Now()
		put(t, b, 0, 50)
		if err := b.Wait(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("Wait = %v after %v, want a second", err, time.Since(began))
		}
		b.Lost()
	})
}

// Once an assignment has stopped, what was in flight is not retried.
func TestStoppedRetriesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		w := worker.Worker[record]{
			Throttle: free(), Offset: offset,
			Handle: func(_ context.Context, r record) error {
				tries.Add(1)
				if r == 0 {
					return throttle.Permanent(errPoison)
				}
				time.Sleep(time.Second)
				return throttle.Failed(errors.New("failed"))
			},
			OnEvent: func(worker.Event) {},
		}
		a := w.Assign(t.Context(), "a", 0)
		if n := a.Add(1, 2, 3); n != 3 {
			t.Fatal(n)
		}
		b := w.Assign(t.Context(), "b", 0)
		synctest.Wait()
		if n := b.Add(0); n != 1 {
			t.Fatal(n)
		}
		synctest.Wait()
		if err := b.Err(); !errors.Is(err, errPoison) {
			t.Errorf("Err = %v, want %v", err, errPoison)
		}
		c := w.Assign(t.Context(), "c", 0)
		if n := c.Add(5); n != 1 { // in flight as its assignment ends
			t.Fatal(n)
		}
		synctest.Wait()
		before := tries.Load()
		ended := make(chan error)
		go func() { ended <- c.Wait(t.Context()) }()
		a.Lost()
		c.Lost()
		if err := <-ended; err != worker.ErrEnded {
			t.Errorf("Wait = %v", err)
		}
		time.Sleep(time.Minute)
		if n := tries.Load(); n != before {
			t.Errorf("%d tries after the end, want none", n-before)
		}
		b.Lost()
	})
}

// A record at which its assignment stops holds back no record of its key in another.
func TestStoppedFreesItsKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[record]{
			Throttle: free(), Offset: offset, Order: func(record) string { return "key" },
			Handle: func(_ context.Context, r record) error {
				if time.Sleep(time.Second); r == 0 {
					return throttle.Permanent(errPoison)
				}
				return nil
			},
			OnEvent: func(worker.Event) {},
		}
		a, b := w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", 1)
		put(t, a, 0, 1)
		put(t, b, 1, 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Wait(ctx); err != nil || !errors.Is(a.Err(), errPoison) {
			t.Errorf("Wait = %v, and a has %v; want all of b done, and a stopped", err, a.Err())
		}
		a.Lost()
		b.Lost()
	})
}

// Revoke of an assignment that has stopped waits for what is in flight, and no longer.
func TestRevokeStopped(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[record]{
			Throttle: free(), Offset: offset,
			Handle: func(_ context.Context, r record) error {
				if r == 1 {
					return throttle.Permanent(errPoison)
				}
				time.Sleep(10 * time.Second)
				return throttle.Failed(errors.New("failed"))
			},
			OnEvent: func(worker.Event) {},
		}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 2)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if next, ok := a.Revoke(ctx); next != 0 || !ok || time.Since(began) > 11*time.Second {
			t.Errorf("Revoke = %d, %v after %v; want 0, true after 10s", next, ok, time.Since(began))
		}
	})
}

// Without OnEvent a line tells of a circuit breaker that opens, and not again within
// ten minutes; with it there is none.
func TestBreakerIsLogged(t *testing.T) {
	for _, hears := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var out bytes.Buffer
			before := slog.Default()
			defer slog.SetDefault(before)
			slog.SetDefault(slog.New(slog.NewTextHandler(&locked{mu: &mu, b: &out}, nil)))
			began := time.Now()
			w := worker.Worker[record]{
				Throttle: free(),
				Handle: func(context.Context, record) error {
					if time.Since(began)%(2*time.Minute) < time.Minute {
						return throttle.Failed(errors.New("down"))
					}
					return nil
				},
			}
			if hears {
				w.OnEvent = func(worker.Event) {}
			}
			a := w.Assign(t.Context(), "a", 0)
			for range 15 { // outages, each two minutes
				put(t, a, 0, 8)
				if err := a.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(began.Add(time.Since(began).Truncate(2*time.Minute) + 2*time.Minute)))
			}
			a.Lost()
			mu.Lock()
			defer mu.Unlock()
			want := 3 // in half an hour
			if hears {
				want = 0
			}
			if n := strings.Count(out.String(), "the circuit breaker opens"); n != want {
				t.Errorf("OnEvent set: %v: %d lines in half an hour of outages, want %d:\n%s", hears, n, want, out.String())
			}
		})
	}
}

// locked is a buffer that may be written to at once.
type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
