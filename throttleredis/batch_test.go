package throttleredis

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
)

// roundTrip is how long a slow takes: no call is stuck yet.
const roundTrip = stuckAfter / 2

// slow is a Do that takes a roundTrip, answers that every key is fresh, and counts.
type slow struct {
	mu       sync.Mutex
	keys     []int // of each call
	inFlight int   // calls in flight
	most     int   // at once
	ended    int   // calls whose context ended
	hangs    bool
}

func (s *slow) Do(ctx context.Context, args ...any) (any, error) {
	keys, _ := strconv.Atoi(args[2].(string))
	s.mu.Lock()
	s.keys = append(s.keys, keys-1)
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	hangs := s.hangs
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.inFlight--; s.mu.Unlock() }()
	wait := roundTrip
	if hangs {
		wait = 1000 * time.Hour
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		s.mu.Lock()
		s.ended++
		s.mu.Unlock()
		return nil, ctx.Err()
	}
	return answered(late, "", strings.Repeat(fresh, keys-1)), nil
}

func one(ctx context.Context, s *Store, key string) error {
	_, err := s.Take(ctx, []limit.Ask{{Key: key, Limit: hour, N: 1}}, make([]limit.Decision, 1))
	return err
}

// TestBatches: while calls are in flight, all other Takes wait for the next.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		batch, callers int
		calls, most    int
		trips          int
	}{
		{0, 1, 1, 1, 1},
		{0, 2, 2, 2, 1},
		{0, 102, 3, 2, 2},
		{0, 402, 6, 2, 3},
		{10, 42, 6, 2, 3},
		{1, 50, 50, 50, 1},
		{-1, 50, 50, 50, 1},
	} {
		bubble.Test(t, func(t *testing.T) {
			do := &slow{}
			s := &Store{Do: do.Do, MaxBatch: c.batch}
			began := time.Now()
			var all sync.WaitGroup
			for i := range c.callers {
				all.Go(func() {
					if err := one(t.Context(), s, strconv.Itoa(i)); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			got := [...]int{len(do.keys), do.most, int(time.Since(began) / roundTrip)}
			if want := [...]int{c.calls, c.most, c.trips}; got != want {
				t.Errorf("MaxBatch %d, %d callers: calls, at once, round trips = %v (keys of each %v), want %v", c.batch, c.callers, got, do.keys, want)
			}
		})
	}
}

// TestBatchLeft: who leaves before the call begins is not charged, who leaves
// after may be, and the call ends when all have left.
func TestBatchLeft(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		do := &slow{hangs: true}
		s := &Store{Do: do.Do}
		hang, thaw := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range usualCalls {
			all.Go(func() { one(hang, s, "first") })
		}
		synctest.Wait()
		charged := func(ctx context.Context, want bool) {
			all.Go(func() {
				var e *Error
				if err := one(ctx, s, "a"); !errors.As(err, &e) || e.Charged != want || !errors.Is(err, ctx.Err()) {
					t.Errorf("left with %v, want an Error with Charged %v", err, want)
				}
			})
		}
		early, leave := context.WithCancel(t.Context())
		charged(early, false)
		soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		charged(soon, true)
		charged(soon, true)
		synctest.Wait()
		leave()
		synctest.Wait()
		thaw() // the calls of the first end, and one for the two that wait begins
		synctest.Wait()
		all.Wait()
		synctest.Wait()
		if do.ended != usualCalls+1 || do.inFlight != 0 || do.keys[usualCalls] != 2 {
			t.Errorf("%d calls were ended, %d are in flight, with keys %v; want %d, 0, two in the last", do.ended, do.inFlight, do.keys, usualCalls+1)
		}
	})
}

// TestBatchJoined: a call for several asks what each of them asks, by a way that
// suits all.
func TestBatchJoined(t *testing.T) {
	want := func(kind limit.Kind, keys ...string) *waiter {
		r := request{sent: len(keys)}
		for i, key := range keys {
			r.asks = append(r.asks, limit.Ask{Key: key, Limit: limit.Limit{Kind: kind, Count: 3, Period: time.Hour}, N: 1})
			r.items = append(r.items, item{limit: &prepared{limit: r.asks[i].Limit, fingerprint: fingerprint(&r.asks[i].Limit)}})
		}
		return &waiter{command: r.command("f", time.Now(), time.Now())}
	}
	bucket, more := want(limit.TokenBucket, "a"), want(limit.TokenBucket, "b")
	two, log := want(limit.FixedWindow, "c", "d"), want(limit.SlidingLog, "e")
	for _, c := range []struct {
		all  []*waiter
		mode byte
	}{
		{[]*waiter{bucket, more}, modePlain},
		{[]*waiter{bucket, two}, modeAny},
		{[]*waiter{two, bucket}, modeAny},
		{[]*waiter{log, bucket, two}, modeLogs},
		{[]*waiter{bucket, two, log, more}, modeLogs},
	} {
		p := merge(c.all)
		var names, asks []any
		for _, w := range c.all {
			names, asks = append(names, w.names()...), append(asks, w.asks()...)
		}
		if p.mode != c.mode || !slices.Equal(p.names(), names) || !slices.Equal(p.asks(), asks) {
			t.Errorf("merge: mode %d, %q, %q; want %d, %q, %q", p.mode, p.names(), p.asks(), c.mode, names, asks)
		}
		if n := strconv.Itoa(1 + len(names)); p.args[2] != n || len(p.args) != 5+2*len(names) {
			t.Errorf("merge: %q, want %s keys", p.args, n)
		}
	}
}

// TestBatchError: all who share a call share its error; the next call is not
// affected.
func TestBatchError(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		var calls atomic.Int64
		s := &Store{Do: func(_ context.Context, args ...any) (any, error) {
			n := calls.Add(1)
			time.Sleep(time.Second)
			keys, _ := strconv.Atoi(args[2].(string))
			if n == usualCalls+1 {
				return nil, broken
			}
			return answered(late, "", strings.Repeat(fresh, keys-1)), nil
		}}
		var all sync.WaitGroup
		var failed atomic.Int64
		for i := range usualCalls + 50 {
			all.Go(func() {
				if err := one(t.Context(), s, strconv.Itoa(i)); errors.Is(err, broken) {
					failed.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if failed.Load() != 50 {
			t.Errorf("%d of the 50 of one call failed", failed.Load())
		}
		if err := one(t.Context(), s, "a"); err != nil {
			t.Error(err)
		}
	})
}

// TestBatchFull: what waits is bounded, in callers and in keys.
func TestBatchFull(t *testing.T) {
	s, sl := new(Store), &slot{inFlight: usualCalls, changed: time.Now().Add(time.Hour), watched: true}
	for range maxWaiting {
		if w, _, err := s.enqueue(sl, &command{keys: 250}); w == nil || err != nil {
			t.Fatalf("enqueue = %v, %v, want to wait", w, err)
		}
	}
	if _, _, err := s.enqueue(sl, &command{}); err == nil {
		t.Errorf("with %d waiting another may wait", maxWaiting)
	}
	b, _ := s.nextBatch(sl, 0)
	if n := len(b.waiters); n != 5 || len(sl.waiting) != maxWaiting-5 {
		t.Errorf("a call takes %d of 250 keys each, and leaves %d; want 5 for at most %d keys and a Take more", n, len(sl.waiting), maxKeys)
	}
}

// TestPanic: a client that panics leaves nothing behind.
func TestPanic(t *testing.T) {
	panics := true
	s := &Store{Do: func(context.Context, ...any) (any, error) {
		if panics {
			panic("at the client")
		}
		return answered(late, "", fresh), nil
	}}
	for range 2 * usualCalls {
		func() {
			defer func() { _ = recover() }()
			_ = one(t.Context(), s, "a")
		}()
	}
	if sl, err := s.slot(0); err != nil || sl.inFlight != 0 {
		t.Errorf("%d calls are in flight for ever, %v", sl.inFlight, err)
	}
	panics = false
	if err := one(t.Context(), s, "a"); err != nil {
		t.Error(err)
	}
}

// TestPanicOfBatch: a client that panics in a call for several callers, in a
// goroutine of the Store, is an error for each of them.
func TestPanicOfBatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		s := &Store{Do: func(context.Context, ...any) (any, error) {
			time.Sleep(time.Millisecond)
			if calls.Add(1) > usualCalls {
				panic("at the client")
			}
			return answered(late, "", fresh), nil
		}}
		var failed atomic.Int64
		var all sync.WaitGroup
		for i := range usualCalls + 5 {
			all.Go(func() {
				time.Sleep(time.Duration(i)) // one after the other
				err := one(t.Context(), s, "a")
				var e *Error
				if errors.As(err, &e) && e.Charged && strings.Contains(err.Error(), "the client panicked: at the client") {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		synctest.Wait() // until the goroutine of the batch has ended
		if sl, err := s.slot(0); failed.Load() != 5 || err != nil || sl.inFlight != 0 {
			t.Errorf("%d callers got the panic as an error, %d calls are in flight, %v; want 5 and none", failed.Load(), sl.inFlight, err)
		}
	})
}

// TestBatchGone: a client that ends its goroutine ends the calls of a batch with
// an error, and those that wait behind it are sent.
func TestBatchGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		do, calls := &slow{}, atomic.Int64{}
		s := &Store{MaxBatch: 4, Do: func(ctx context.Context, args ...any) (any, error) {
			if calls.Add(1) == usualCalls+1 { // the first batch
				runtime.Goexit()
			}
			return do.Do(ctx, args...)
		}}
		var gone, decided atomic.Int64
		var all sync.WaitGroup
		for i := range usualCalls + 2*s.MaxBatch {
			all.Go(func() {
				time.Sleep(time.Duration(i)) // one after the other
				var e *Error
				switch err := one(t.Context(), s, "a"); {
				case err == nil:
					decided.Add(1)
				case errors.As(err, &e) && e.Charged && strings.Contains(err.Error(), "ended the goroutine"):
					gone.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if sl, err := s.slot(0); gone.Load() != 4 || decided.Load() != usualCalls+4 || err != nil || sl.inFlight != 0 {
			t.Errorf("%d callers lost their goroutine, %d were answered, %d calls are in flight, %v; want 4, 6 and none",
				gone.Load(), decided.Load(), sl.inFlight, err)
		}
	})
}

// TestTryAgain: while Redis moves a slot, questions wait, but no longer than
// their context.
func TestTryAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var calls int
		s := &Store{Do: func(context.Context, ...any) (any, error) {
			if calls++; calls < 4 {
				return nil, errors.New("TRYAGAIN Multiple keys request during rehashing of slot")
			}
			return answered(late, "", fresh), nil
		}}
		if err := one(t.Context(), s, "a"); err != nil || calls != 4 {
			t.Errorf("after %d calls: %v, want none after 4", calls, err)
		}
		calls = -1000
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var e *Error
		if err := one(ctx, s, "a"); !errors.As(err, &e) || e.Charged || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("error %v after %v, want one that charged nothing, after 100ms", err, time.Since(began))
		}
		began = time.Now()
		if err := one(t.Context(), s, "a"); err == nil || time.Since(began) > 6*time.Second {
			t.Errorf("error %v after %v, want one within 6 s", err, time.Since(began))
		}
	})
}

// TestEnded: a context that has ended is not asked for.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, batch := range []int{0, -1} {
		s := &Store{MaxBatch: batch, Do: func(context.Context, ...any) (any, error) { return nil, errors.New("was asked") }}
		var e *Error
		if err := one(ctx, s, "a"); !errors.As(err, &e) || e.Charged || !errors.Is(err, context.Canceled) {
			t.Errorf("MaxBatch %d: error %v, want that of the context, and nothing charged", batch, err)
		}
	}
}
