package worker_test

import (
	"context"
	"errors"
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

// hanging is a worker whose tries last until their context ends, but those of the
// offsets below done.
func hanging(window int, done record) *worker.Worker[record] {
	return &worker.Worker[record]{
		Throttle: free(), Window: window, Offset: offset, Timeout: -1,
		Handle: func(ctx context.Context, r record) error {
			if time.Sleep(time.Second); r >= done {
				<-ctx.Done()
			}
			return nil
		},
	}
}

// A Put that waits ends with its assignment, and before what was tried does.
func TestPutEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := hanging(2, 0)
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 2)
		ended := make(chan error, 2)
		for _, r := range []record{2, 3} { // refused for lack of room, and behind that
			go func() { ended <- a.Put(t.Context(), r) }()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		revoked := make(chan bool)
		began := time.Now()
		go func() { a.Revoke(ctx); close(revoked) }()
		for range 2 {
			if err := <-ended; err != worker.ErrEnded || time.Since(began) != 0 {
				t.Errorf("Put = %v after %v, want %v at once", err, time.Since(began), worker.ErrEnded)
			}
		}
		if err := a.Put(t.Context(), 2); err != worker.ErrEnded {
			t.Errorf("Put = %v, want %v", err, worker.ErrEnded)
		}
		<-revoked
		if next, ok := a.Revoke(ctx); ok {
			t.Errorf("a second Revoke = %d, true, and another may own it by now", next)
		}
		time.Sleep(time.Second)
	})
}

// What an assignment leaves of MaxBytes is room for another that was refused, though
// nothing of either was tried.
func TestLostLeavesRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var rooms atomic.Int64
		w := hanging(10, 0)
		w.MaxInFlight, w.MaxBytes = 1, 10
		w.Size = func(r record) int { return int(r) }
		w.Room = func(*worker.Assignment[record]) { rooms.Add(1) }
		busy, a, b := w.Assign(t.Context(), "busy", 0), w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", 0)
		put(t, busy, 0, 1)
		synctest.Wait()
		if n := a.Add(10); n != 1 {
			t.Fatalf("Add accepts %d, want 1", n)
		}
		if n := b.Add(9); n != 0 {
			t.Fatalf("Add accepts %d beyond MaxBytes", n)
		}
		a.Lost()
		if synctest.Wait(); rooms.Load() != 1 || b.Add(9) != 1 {
			t.Errorf("Room is called %d times, want once, and room for 9", rooms.Load())
		}
		busy.Lost()
		b.Lost()
		time.Sleep(time.Second)
	})
}

// The rests of a zero Backoff are those of pace.AWS2026Backoff: up to 50 ms, 100 ms and
// so on up to 20 s.
func TestDefaultBackoff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var longest atomic.Int64 // nanoseconds
		w := worker.Worker[record]{
			Throttle: free(), Tries: 60, Breaker: -1,
			Handle: func(context.Context, record) error { return throttle.Failed(errors.New("failed")) },
			Dead:   func(context.Context, record, error) error { return nil },
			OnEvent: func(e worker.Event) {
				if most := 50 * time.Millisecond << min(e.Try-1, 20); e.Kind == worker.Ends && e.Rest > min(most, 20*time.Second) {
					t.Errorf("rest %d lasts %v, want %v at most", e.Try, e.Rest, most)
				}
				longest.Store(max(longest.Load(), int64(e.Rest)))
			},
		}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 1)
		if err := a.Wait(t.Context()); err != nil || time.Duration(longest.Load()) < 15*time.Second {
			t.Errorf("Wait = %v, the longest rest is %v, want nearly 20s", err, time.Duration(longest.Load()))
		}
		a.Lost()
	})
}

// A Put that came early goes on once what was refused before it is accepted.
func TestPutEarlyWakes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := hanging(3, 2)
		a := w.Assign(t.Context(), "a", 0)
		if n := a.Add(0, 1, 2, 3); n != 3 {
			t.Fatalf("Add accepts %d, want 3", n)
		}
		var late atomic.Bool
		go func() { late.Store(a.Put(t.Context(), 4) == nil) }()
		time.Sleep(2 * time.Second)
		if late.Load() {
			t.Error("Put(4) returns before 3 was accepted")
		}
		if n := a.Add(3); n != 1 {
			t.Errorf("Add accepts %d, want 1", n)
		}
		if synctest.Wait(); !late.Load() {
			t.Error("Put(4) waits, though 3 was accepted")
		}
		a.Lost()
		time.Sleep(time.Second)
	})
}

// Wait reports how it ended: not at all after the end of its context or of the
// assignment, and well once all is done, whatever comes then.
func TestWaitEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := hanging(10, 1)
		a, b := w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", -1)
		if next, ok := b.Frontier(); ok {
			t.Errorf("Frontier = %d, true, before an offset is known", next)
		}
		if next, ok := w.Assign(t.Context(), "c", -1).Revoke(t.Context()); ok {
			t.Errorf("Revoke = %d, true, before an offset is known", next)
		}
		put(t, b, 0, 1)
		put(t, a, 0, 2)
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(gaveUp) })
		if err := a.Wait(ctx); err != gaveUp {
			t.Errorf("Wait = %v, want %v", err, gaveUp)
		}
		a.Lost()
		if err := a.Wait(t.Context()); err != worker.ErrEnded {
			t.Errorf("Wait = %v with a record that is not done, want %v", err, worker.ErrEnded)
		}
		if next, ok := b.Revoke(t.Context()); next != 1 || !ok {
			t.Errorf("Revoke = %d, %v", next, ok)
		}
		if err := b.Wait(t.Context()); err != nil {
			t.Errorf("Wait = %v, and all is done", err)
		}
		time.Sleep(time.Second)
	})
}

// Oldest is the age of the record at the frontier.
func TestOldest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := hanging(10, 1)
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 1)
		time.Sleep(500 * time.Millisecond)
		put(t, a, 1, 2)
		for _, want := range []time.Duration{500 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
			if got := w.Stats().Assignments[0].Oldest; got != want {
				t.Errorf("Oldest = %v, want %v", got, want)
			}
			time.Sleep(500 * time.Millisecond)
			if want == 500*time.Millisecond { // 0 is done, and 1 half a second old
				time.Sleep(500 * time.Millisecond)
			}
			synctest.Wait()
		}
		a.Lost()
		time.Sleep(time.Second)
	})
}

// A call of Dead rests longer before each repetition, and one that ends after its
// assignment changes nothing, though it took the record.
func TestDeadRestsAndEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []time.Time
		w := &worker.Worker[record]{
			Throttle: free(), Offset: offset, Backoff: pace.Backoff{Base: time.Second, Cap: time.Hour, Jitter: pace.EqualJitter},
			Order:  func(record) string { return "key" },
			Size:   func(record) int { return 1 },
			Handle: func(_ context.Context, r record) error { return throttle.Permanent(errPoison) },
			Dead: func(_ context.Context, r record, _ error) error {
				mu.Lock()
				calls = append(calls, time.Now())
				n := len(calls)
				mu.Unlock()
				if n < 6 {
					return errors.New("down")
				}
				time.Sleep(time.Minute)
				return nil
			},
			OnEvent: func(worker.Event) {},
		}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 2)
		time.Sleep(70 * time.Second) // 5 rests of up to 1, 2, 4, 8, 16 s
		mu.Lock()
		defer mu.Unlock()
		for i := 2; i < len(calls); i++ {
			if rest := calls[i].Sub(calls[i-1]); rest < time.Second<<(i-2) || rest > time.Second<<i {
				t.Errorf("rest %d lasts %v, want about %v", i, rest, time.Second<<(i-1))
			}
		}
		if len(calls) < 6 {
			t.Fatalf("%d calls of Dead, want 6", len(calls))
		}
		a.Lost()
		time.Sleep(2 * time.Minute)
		if s := w.Stats(); s.Dead != 0 || s.Bytes != 0 || s.Dying != 0 || s.Ordered != 0 || s.Waiting != 0 {
			t.Errorf("after the end: %+v, want nothing", s)
		}
	})
}

// A Worker without a Handle panics in the goroutine that begins to use it, not in one
// that has no caller.
func TestHandleMissing(t *testing.T) {
	const want = "worker: the Worker has no Handle"
	for name, use := range map[string]func(w *worker.Worker[record]){
		"Assign": func(w *worker.Worker[record]) { w.Assign(t.Context(), "a", 0) },
		"Each": func(w *worker.Worker[record]) {
			for r, err := range w.Each(t.Context(), func(func(record) bool) {}) {
				t.Errorf("Each yields %v, %v", r, err)
			}
		},
	} {
		func() {
			defer func() {
				if p := recover(); p != want {
					t.Errorf("%s of a Worker without a Handle: panic %v, want %q", name, p, want)
				}
			}()
			use(new(worker.Worker[record]))
		}()
	}
}
