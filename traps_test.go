package throttle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// Each test here is named after what users of other clients suffered.

// foyle 82: all that was left of "insufficient quota" was "giving up after 5
// attempts".
func TestGivingUpKeepsTheLastRealError(t *testing.T) {
	real := &wordy{"insufficient quota"}
	for name, c := range map[string]struct {
		th     *Throttle
		says   error
		reason error
	}{
		"tries":    {&Throttle{Control: pace.All(nil), Tries: 5}, Throttled(real, 0), ErrTries},
		"retries":  {&Throttle{Control: pace.All(nil), Retries: 2}, Failed(real), ErrTries},
		"budget":   {&Throttle{Control: pace.All(nil), Budget: pace.Budget{Max: 1}}, Failed(real), ErrBudget},
		"deadline": {&Throttle{Control: pace.All(nil)}, Throttled(real, 2*time.Minute), context.DeadlineExceeded},
	} {
		bubble.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := c.th.Do(ctx, func(context.Context) error { return c.says })
			var got *wordy
			if !errors.As(err, &got) || got != real || !errors.Is(err, c.reason) || !strings.Contains(err.Error(), real.text) {
				t.Errorf("%s: Do = %v; want %v, and inside it %v", name, err, c.reason, real)
			}
		})
	}
}

type wordy struct{ text string }

func (e *wordy) Error() string { return e.text }

// go-retryablehttp 247 and 295: a Retry-After of an hour was slept through, all
// bounds and the end of the program notwithstanding.
func TestLongRetryAfterDoesNotOutlastShutdown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{MaxWait: -1}
		ctx, shutdown := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, shutdown)
		began := time.Now()
		err := th.Do(ctx, func(context.Context) error { return Throttled(errBoom, time.Hour) })
		if took := time.Since(began); took != time.Second || !errors.Is(err, context.Canceled) || !errors.Is(err, errBoom) {
			t.Errorf("Do = %v after %v; want the cancellation after 1s", err, took)
		}
		idle(t, th)
	})
}

// sourcegraph 51743 cut waits to 3 s, and wrangler those above 60 s, as failing
// at once is better than waiting for an hour: but then the caller must be told.
func TestAnHourIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := new(Throttle)
		ctx := WithOptions(t.Context(), CallOptions{MaxWait: 3 * time.Second})
		refusals := 0
		refuse := func(context.Context) error { refusals++; return Throttled(errBoom, time.Hour) }
		began := time.Now()
		for range 5 {
			var e *Error
			err := th.Do(ctx, refuse)
			if !errors.As(err, &e) || e.Reason != context.DeadlineExceeded || e.Wait < time.Hour || e.MayHaveRun {
				t.Errorf("Do = %#v; want at once that it would wait an hour, and has not run", err)
			}
		}
		if took := time.Since(began); took != 0 || refusals != 1 {
			t.Errorf("gave up after %v and %d requests; want 0s and the first only", took, refusals)
		}
	})
}

// openai-cookbook 2812: a client that tries 6 times below a loop that tries 3
// times makes 18 calls of one.
func TestThrottlesOneAboveTheOtherDoNotMultiply(t *testing.T) {
	for name, c := range map[string]struct {
		says  error
		calls int
		ran   bool
	}{
		"throttled": {Throttled(errBoom, 0), 6, false},
		"failed":    {Failed(errBoom), 4, true},
	} {
		upper, lower := unpaced(), unpaced()
		upper.Tries, lower.Tries = 3, 6
		calls := 0
		err := upper.Do(t.Context(), func(ctx context.Context) error {
			return lower.Do(ctx, func(context.Context) error { calls++; return c.says })
		})
		var e *Error
		if !errors.As(err, &e) || calls != c.calls || e.Tries != c.calls || e.MayHaveRun != c.ran {
			t.Errorf("%s: %d calls, %v; want %d, and the error of the lower one", name, calls, err, c.calls)
		}
	}
}

// What a Throttle below refuses does not undo an earlier try: a caller that took
// its word for it would leave a call half done.
func TestEarlierTryMayHaveRun(t *testing.T) {
	upper, full := unpaced(), &Error{Reason: ErrQueueFull, Wait: time.Second}
	tries := 0
	err := upper.Do(t.Context(), func(context.Context) error {
		if tries++; tries == 1 {
			return Failed(errBoom)
		}
		return full
	})
	var e *Error
	if !errors.As(err, &e) || !e.MayHaveRun || e.Tries != 2 || e.Wait != time.Second || !errors.Is(err, ErrQueueFull) || full.MayHaveRun {
		t.Errorf("Do = %#v; want the full queue below, after 2 tries, which may have run", err)
	}
	if err := upper.Do(t.Context(), func(context.Context) error { return full }); err != error(full) {
		t.Errorf("Do = %#v; want %#v as it is", err, full)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := upper.Do(ctx, func(context.Context) error { cancel(); return full }); err != error(full) {
		t.Errorf("Do that is cancelled = %#v; want %#v as it is", err, full)
	}
	tries = 0
	ran := &Error{Reason: ErrTries, MayHaveRun: true}
	err = upper.Do(t.Context(), func(context.Context) error {
		if tries++; tries == 1 {
			return Failed(errBoom)
		}
		return ran
	})
	if err != error(ran) {
		t.Errorf("Do = %#v; want %#v as it is", err, ran)
	}
}

// Calls of an errgroup are cancelled by the error of the first that fails, and
// net/http returns that: what it says is of that call, not of this one.
func TestErrorOfAnotherCallMayHaveRun(t *testing.T) {
	full := &Error{Reason: ErrQueueFull}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := unpaced().Do(ctx, func(ctx context.Context) error {
		cancel(fmt.Errorf("another: %w", full))
		return fmt.Errorf("post: %w", context.Cause(ctx))
	})
	var e *Error
	if !errors.As(err, &e) || !e.MayHaveRun || e.Tries != 1 || !errors.Is(err, context.Canceled) || full.MayHaveRun {
		t.Errorf("Do = %#v; want an error after 1 try, which may have run", err)
	}
}

// http.Client asks whether an error was for want of time; a network's own errors
// know it too.
func TestTimeoutIsThatOfTheRealError(t *testing.T) {
	for _, want := range []bool{true, false} {
		e := &Error{Reason: ErrTries, Err: &net.DNSError{IsTimeout: want}}
		if got := e.Timeout(); got != want {
			t.Errorf("Timeout of %v = %v, want %v", e, got, want)
		}
	}
}

// aws-sdk-go-v2 1665, aws-sdk-go-base 915, terraform-provider-aws 34669: one
// client for many goroutines runs out of tokens for retries, or is three times
// slower than the limit wants.
func TestOneThrottleForManyGoroutines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		if took := manyGoroutines(t, new(Throttle), 0); took > 140*time.Second {
			t.Errorf("100 s of work took %v; want two fifths more at most", took)
		}
	})
}

// aws-sdk-go-v2 3550: after an outage a client in adaptive mode does not retry
// any more until its process restarts.
func TestThrottleRecoversAfterAnOutage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := new(Throttle)
		manyGoroutines(t, th, 30*time.Second)
		if took := manyGoroutines(t, th, 0); took > 140*time.Second {
			t.Errorf("100 s of work after an outage took %v; want two fifths more at most", took)
		}
	})
}

// manyGoroutines make 10,000 calls, of which none may fail, to a server that
// lets 100 through a second, and none until the end of an outage.
func manyGoroutines(t *testing.T, th *Throttle, outage time.Duration) (took time.Duration) {
	var mu sync.Mutex
	var bucket limit.State
	began := time.Now()
	serve := func(context.Context) error {
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		now, d := time.Now(), limit.Decision{}
		if now.Sub(began) >= outage {
			bucket, d = limit.Take(bucket, now, limit.Ask{Limit: limit.Limit{Count: 100, Period: time.Second}, N: 1})
		}
		if !d.OK {
			return Throttled(errBoom, 0)
		}
		return nil
	}
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			for range 50 {
				if err := th.Do(t.Context(), serve); err != nil {
					t.Errorf("Do = %v; want every call served", err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// cenkalti/backoff 174: callers found the wrapper of a permanent error instead
// of their own.
func TestPermanentDoesNotLeak(t *testing.T) {
	for _, wrap := range []func(error) error{Permanent, Ignore} {
		var v *verdictError
		if err := unpaced().Do(t.Context(), func(context.Context) error { return wrap(errBoom) }); err != errBoom || errors.As(err, &v) {
			t.Errorf("Do = %#v; want %#v itself", err, errBoom)
		}
	}
	for _, says := range []error{Throttled(errBoom, 0), Failed(errBoom)} {
		th := unpaced()
		th.Tries, th.Retries = 1, -1
		var e *Error
		if err := th.Do(t.Context(), func(context.Context) error { return says }); !errors.As(err, &e) || e.Err != errBoom {
			t.Errorf("Do = %#v; want %#v itself inside", err, errBoom)
		}
	}
}

// failsafe-go 123, kamilsk/retry 158: a context made for the call is cancelled
// when the call returns, and what it returned cannot be read any more; or it has
// lost the caller's values.
func TestContextIsTheCallersOwn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), wordy{}, "a trace"), time.Hour)
		defer cancel()
		ctx = WithOptions(ctx, CallOptions{MaxWait: time.Second})
		var got context.Context
		if err := new(Throttle).Do(ctx, func(ctx context.Context) error { got = ctx; return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		deadline, _ := got.Deadline()
		want, _ := ctx.Deadline()
		if got.Err() != nil || got.Value(wordy{}) != "a trace" || !deadline.Equal(want) {
			t.Errorf("the context of the call: %v, value %v, deadline %v; want it alive, with the caller's own", got.Err(), got.Value(wordy{}), deadline)
		}
	})
}
