package worker_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/worker"
)

// numbers yields 0 to n-1 and counts them.
func numbers(n int, read *int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if *read = i + 1; !yield(i) {
				return
			}
		}
	}
}

// Each yields every job once, with its error, as it ends, and reads no more than a
// window ahead.
func TestEach(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[int]{Throttle: free(), Window: 10, MaxInFlight: 5, Handle: func(_ context.Context, n int) error {
			time.Sleep(time.Second)
			if n%100 == 7 {
				return errPoison
			}
			return nil
		}}
		read, began := 0, time.Now()
		seen := map[int]bool{}
		for n, err := range w.Each(t.Context(), numbers(1000, &read)) {
			if seen[n] {
				t.Errorf("job %d is yielded twice", n)
			}
			seen[n] = true
			if (n%100 == 7) != errors.Is(err, errPoison) {
				t.Errorf("job %d: %v", n, err)
			}
			if read > len(seen)+10 {
				t.Fatalf("%d jobs read and %d yielded, want a Window of 10", read, len(seen))
			}
		}
		if len(seen) != 1000 || time.Since(began) != 200*time.Second {
			t.Errorf("%d jobs in %v, want 1000 in 200s", len(seen), time.Since(began))
		}
		if s := w.Stats(); s.Done != 990 || s.Dead != 10 || len(s.Assignments) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A slow loop holds back the tries.
func TestEachSlowLoop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var tried atomic.Int64
		seen, read := 0, 0
		w := worker.Worker[int]{Throttle: free(), Window: 10, MaxInFlight: 1, Handle: func(context.Context, int) error { tried.Add(1); return nil }}
		for range w.Each(t.Context(), numbers(50, &read)) {
			if seen++; int(tried.Load()) > seen+10 {
				t.Fatalf("%d tried and %d seen, want at most a Window more", tried.Load(), seen)
			}
			time.Sleep(time.Second)
		}
		if seen != 50 {
			t.Errorf("%d seen, want 50", seen)
		}
	})
}

// Leaving the loop, or the end of the context, cancels what runs.
func TestEachEnds(t *testing.T) {
	for name, c := range map[string]struct {
		leave, hang bool
	}{"leave": {leave: true}, "context": {}, "context while full": {hang: true}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ctx, end := context.WithTimeout(t.Context(), 10500*time.Millisecond)
				defer end()
				w := worker.Worker[int]{Throttle: free(), Window: 10, MaxInFlight: 2, Handle: func(ctx context.Context, n int) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(time.Second):
						if c.hang {
							<-ctx.Done()
						}
						return nil
					}
				}}
				seen, read, began := 0, 0, time.Now()
				for _, err := range w.Each(ctx, numbers(1000, &read)) {
					if err != nil {
						t.Errorf("a job is yielded with %v", err)
					}
					if seen++; c.leave && seen == 4 {
						break
					}
				}
				took := time.Since(began)
				switch {
				case c.leave && (seen != 4 || took > 3*time.Second):
					t.Errorf("%d seen in %v, want 4", seen, took)
				case c.hang && seen != 0, !c.leave && took != 10500*time.Millisecond:
					t.Errorf("%d seen in %v, want the end at 10.5s", seen, took)
				}
				synctest.Wait()
				if n := w.Throttle.InFlight() + w.Throttle.Waiting(); n != 0 || len(w.Stats().Assignments) != 0 {
					t.Errorf("%d calls left, %+v", n, w.Stats())
				}
			})
		})
	}
}

// Jobs that come slowly are yielded, and none is nothing to do.
func TestEachSlowJobs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[int]{Throttle: free(), Handle: func(context.Context, int) error { return nil }}
		seen, began := 0, time.Now()
		for n := range w.Each(t.Context(), func(yield func(int) bool) {
			for i := range 5 {
				if time.Sleep(time.Minute); !yield(i) {
					return
				}
			}
		}) {
			if seen++; time.Since(began) > time.Duration(n+2)*time.Minute {
				t.Errorf("job %d is yielded after %v", n, time.Since(began))
			}
		}
		for range w.Each(t.Context(), func(func(int) bool) {}) {
			t.Error("no job is yielded")
		}
		if seen != 5 {
			t.Errorf("%d seen, want 5", seen)
		}
	})
}

// The jobs of Each are numbered as they come, whatever Offset says.
func TestEachOffset(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		seen, read := 0, 0
		w := worker.Worker[int]{
			Throttle: free(), Window: 10, Handle: func(context.Context, int) error { return nil },
			Offset: func(n int) int64 { return int64(n / 2) },
		}
		for range w.Each(ctx, numbers(100, &read)) {
			seen++
		}
		if seen != 100 || ctx.Err() != nil {
			t.Errorf("%d seen, %v, want 100", seen, ctx.Err())
		}
	})
}

// Each ends though jobs fail for good when nothing else is left that could close
// the circuit breaker; an outage while there is gives up none.
func TestEachBreaker(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(n int, since time.Duration) bool
		want  int // jobs given up
		most  int // in the Window
	}{
		"the last":   {func(n int, _ time.Duration) bool { return n >= 93 }, 7, 10},
		"a window":   {func(n int, _ time.Duration) bool { return n < 10 }, 10, 10},
		"all":        {func(int, time.Duration) bool { return true }, 100, 10},
		"an outage":  {func(_ int, d time.Duration) bool { return d > 2*time.Second && d < 5*time.Second }, 0, 50},
		"one by one": {func(n int, _ time.Duration) bool { return n == 95 }, 1, 10},
	} {
		for _, order := range []func(int) string{nil, func(n int) string { return string(rune('a' + n%6)) }} {
			if c.want == 0 && order != nil {
				continue // all that could start have failed soon: given up
			}
			t.Run(name, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					ctx, end := context.WithTimeout(t.Context(), time.Hour)
					defer end()
					began, read, seen, dead := time.Now(), 0, 0, 0
					w := worker.Worker[int]{Throttle: free(), Window: c.most, MaxInFlight: 6, Tries: 3, Order: order, Handle: func(_ context.Context, n int) error {
						if time.Sleep(200 * time.Millisecond); c.fails(n, time.Since(began)) {
							return throttle.Failed(errPoison)
						}
						return nil
					}}
					for _, err := range w.Each(ctx, numbers(100, &read)) {
						if seen++; err != nil {
							dead++
						}
					}
					if seen != 100 || dead != c.want || ctx.Err() != nil {
						t.Errorf("%d seen, %d given up, %v; want 100, %d", seen, dead, ctx.Err(), c.want)
					}
					time.Sleep(time.Second) // the last tries end
				})
			})
		}
	}
}

// Drain lets the tries of an Each that still reads jobs end, and yields them.
func TestEachDrain(t *testing.T) {
	for name, c := range map[string]struct {
		window    int
		patience  time.Duration
		seen      int
		cancelled int64
		took      time.Duration
	}{
		"reading":      {100, time.Minute, 16, 0, 25 * time.Second},
		"reading late": {100, 5 * time.Second, 11, 5, 20 * time.Second},
		"full":         {4, time.Minute, 8, 0, 23 * time.Second},
		"full late":    {4, 5 * time.Second, 5, 3, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var cancelled atomic.Int64
				seen := 0
				w := worker.Worker[int]{Throttle: free(), Window: c.window, Handle: func(ctx context.Context, _ int) error {
					select {
					case <-ctx.Done():
						cancelled.Add(1)
						return ctx.Err()
					case <-time.After(10 * time.Second):
						return nil
					}
				}}
				began := time.Now()
				time.AfterFunc(15*time.Second+time.Millisecond, func() {
					ctx, end := context.WithTimeout(t.Context(), c.patience)
					defer end()
					if err := w.Drain(ctx); (err == nil) != (c.cancelled == 0) {
						t.Errorf("Drain: %v", err)
					}
				})
				for _, err := range w.Each(t.Context(), func(yield func(int) bool) {
					for n := 0; yield(n); n++ {
						time.Sleep(time.Second)
					}
				}) {
					if seen++; err != nil {
						t.Error(err)
					}
				}
				took := time.Since(began).Truncate(time.Second)
				synctest.Wait()
				if seen != c.seen || cancelled.Load() != c.cancelled || took != c.took {
					t.Errorf("%d seen, %d cancelled, %v; want %d, %d, %v", seen, cancelled.Load(), took, c.seen, c.cancelled, c.took)
				}
			})
		})
	}
}
