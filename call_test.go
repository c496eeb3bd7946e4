package throttle

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// unpaced is a Throttle that never makes anybody wait.
func unpaced() *Throttle { return &Throttle{Control: pace.All(nil)} }

func TestHowCallsEnd(t *testing.T) {
	wrapped := fmt.Errorf("layer: %w", Permanent(errBoom))
	for name, c := range map[string]struct {
		returned, want error
	}{
		"nil":                {nil, nil},
		"plain":              {errBoom, errBoom},
		"permanent":          {Permanent(errBoom), errBoom},
		"permanent twice":    {Permanent(Permanent(errBoom)), errBoom},
		"permanent, wrapped": {wrapped, wrapped},
		"ignored":            {Ignore(errBoom), errBoom},
		"cancelled":          {context.Canceled, context.Canceled},
	} {
		th, tries := unpaced(), 0
		err := th.Do(t.Context(), func(context.Context) error { tries++; return c.returned })
		if err != c.want || tries != 1 {
			t.Errorf("%s: Do = %#v after %d tries, want %#v after 1", name, err, tries, c.want)
		}
	}
}

func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name           string
		tries, retries int
		returns        func(try int) error
		calls          int
		mayHaveRun     bool
	}{
		{"failed", 0, 0, func(int) error { return Failed(errBoom) }, 4, true},
		{"failed, never retried", 0, -1, func(int) error { return Failed(errBoom) }, 1, true},
		{"failed, retried once", 0, 1, func(int) error { return Failed(errBoom) }, 2, true},
		{"throttled", 5, 0, func(int) error { return Throttled(errBoom, 0) }, 5, false},
		{"both", 5, 2, func(try int) error {
			if try%2 == 0 {
				return Failed(errBoom)
			}
			return Throttled(errBoom, 0)
		}, 6, true},
		{"wrapped", 2, 0, func(int) error { return fmt.Errorf("x: %w", Throttled(errBoom, 0)) }, 2, false},
	} {
		th, calls := unpaced(), 0
		th.Tries, th.Retries = c.tries, c.retries
		err := th.Do(t.Context(), func(context.Context) error { calls++; return c.returns(calls) })
		var e *Error
		if !errors.As(err, &e) || calls != c.calls || e.Tries != c.calls || e.Reason != ErrTries ||
			!errors.Is(err, errBoom) || e.MayHaveRun != c.mayHaveRun || e.Wait != 0 {
			t.Errorf("%s: Do = %#v after %d calls, want ErrTries after %d, may have run: %v",
				c.name, err, calls, c.calls, c.mayHaveRun)
		}
	}
}

// A Try has one try, and says so, also while there is no budget for others.
func TestTryWithoutBudget(t *testing.T) {
	th := unpaced()
	th.Budget = pace.Budget{Max: 1}
	fails := func(context.Context) error { return Failed(errBoom) }
	if err := th.Do(t.Context(), fails); !errors.Is(err, ErrBudget) {
		t.Fatalf("Do = %v, want ErrBudget", err)
	}
	if err := th.Try(t.Context(), fails); !errors.Is(err, ErrTries) || !errors.Is(err, errBoom) {
		t.Errorf("Try = %v, want ErrTries and boom", err)
	}
}

func TestThrottledUntilTheContextEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &pace.Fixed{Rate: 1}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(59500*time.Millisecond, cancel)
		began := time.Now()
		err := th.Do(ctx, func(context.Context) error { return Throttled(errBoom, 0) })
		var e *Error
		if !errors.As(err, &e) || e.Reason != context.Canceled || e.Err != errBoom || e.Tries != 60 || e.MayHaveRun {
			t.Errorf("Do = %#v, want cancelled after 60 tries, boom, has not run", err)
		}
		if got, want := time.Since(began), 59500*time.Millisecond; got != want {
			t.Errorf("ended after %v, want %v", got, want)
		}
		idle(t, th)
	})
}

func TestDeadlineBeforeTheWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		first error // what the call returns
		calls int
		err   error
		wait  time.Duration
	}{
		{"in line", nil, 0, nil, 10 * time.Second},
		{"at rest", Throttled(errBoom, 20*time.Second), 1, errBoom, 20 * time.Second},
		{"after a failure", Failed(errBoom), 1, errBoom, 10 * time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			th := &Throttle{Control: &counted{Controller: &pace.Fixed{Rate: 0.1}}}
			if c.first == nil {
				_ = th.Do(t.Context(), served)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
			defer cancel()
			began, calls := time.Now(), 0
			err := th.Do(ctx, func(context.Context) error { calls++; return c.first })
			var e *Error
			if !errors.As(err, &e) || !e.Timeout() || !errors.Is(err, context.DeadlineExceeded) || e.Wait != c.wait || e.Err != c.err ||
				e.Tries != c.calls || calls != c.calls || !time.Now().Equal(began) || ctx.Err() != nil {
				t.Errorf("%s: after %v Do = %#v, want at once a wait of %v beyond the deadline, and %v after %d calls",
					c.name, time.Since(began), err, c.wait, c.err, c.calls)
			}
			idle(t, th)
		})
	}
}

func TestContextHasEnded(t *testing.T) {
	for _, do := range []func(*Throttle, context.Context, func(context.Context) error) error{(*Throttle).Do, (*Throttle).Try} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errBoom)
		th := unpaced()
		err := do(th, ctx, func(context.Context) error { t.Error("called"); return nil })
		var e *Error
		if !errors.As(err, &e) || e.Reason != errBoom || e.Err != nil || e.Tries != 0 || e.MayHaveRun {
			t.Errorf("Do = %#v, want the cause, after no try", err)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Do = %v, want it to be context.Canceled as well", err)
		}
	}
}

func TestQueueFull(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &Throttle{Control: &pace.Fixed{Rate: 1}, MaxWaiting: 2}
		ended := make(chan error, 4)
		for range 4 {
			go func() { ended <- th.Do(t.Context(), served) }()
			synctest.Wait()
		}
		var done []error
		for len(ended) > 0 {
			done = append(done, <-ended)
		}
		if len(done) != 2 || done[0] != nil || !errors.Is(done[1], ErrQueueFull) {
			t.Errorf("at once %v, want the first served and the fourth refused", done)
		}
		var e *Error
		if errors.As(done[1], &e); e == nil || e.Wait != 3*time.Second || e.Tries != 0 {
			t.Errorf("refused with %#v, want a wait of 3s", done[1])
		}
		time.Sleep(2 * time.Second)
		idle(t, th)
	})
}

// A Try waits for nothing, so it needs no room among those that do.
func TestTryBesideAFullQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := unpaced()
		th.MaxWaiting, th.Backoff = -1, pace.Backoff{Base: time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = th.Do(ctx, func(context.Context) error { return Failed(errBoom) }) }()
		synctest.Wait()
		if err := th.Do(t.Context(), served); !errors.Is(err, ErrQueueFull) {
			t.Errorf("Do beside a call that rests = %v, want ErrQueueFull", err)
		}
		if err := th.Try(t.Context(), served); err != nil {
			t.Errorf("Try = %v, want nil: it may start at once", err)
		}
		if err := th.Do(t.Context(), served); !errors.Is(err, ErrQueueFull) {
			t.Errorf("Do after a Try = %v, want ErrQueueFull", err)
		}
		cancel()
		synctest.Wait()
		idle(t, th)
	})
}

func TestPanic(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &counted{Controller: &pace.Fixed{Rate: 1}}
		th := &Throttle{Control: c}
		var counters Counter
		th.OnEvent = counters.OnEvent
		func() {
			defer func() {
				if got := recover(); got != errBoom {
					t.Errorf("recovered %v, want boom", got)
				}
			}()
			_ = th.Do(t.Context(), func(context.Context) error { panic(errBoom) })
		}()
		idle(t, th)
		go func() {
			_ = th.Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
			t.Error("Do returned from Goexit")
		}()
		time.Sleep(time.Second)
		idle(t, th)
		if c.unsent != 0 || counters.Stats().Ignored != 2 {
			t.Errorf("%d given back and %d ignored, want 0 and 2", c.unsent, counters.Stats().Ignored)
		}
		// A hook that panics while others wait: its call is taken out of line.
		th.OnEvent = func(e Event) {
			if e.Kind == Waits {
				panic(errBoom)
			}
		}
		func() {
			defer func() { _ = recover() }()
			_ = th.Do(t.Context(), served)
		}()
		idle(t, th)
	})
}

func TestClassify(t *testing.T) {
	down := &Error{Reason: ErrTries, Err: fmt.Errorf("deep: %w", Throttled(errBoom, time.Hour)), Tries: 3}
	for _, c := range []struct {
		err  error
		want pace.Report
	}{
		{nil, pace.Report{Verdict: pace.Served}},
		{errBoom, pace.Report{Verdict: pace.Served}},
		{Permanent(errBoom), pace.Report{Verdict: pace.Served}},
		{Failed(errBoom), pace.Report{Verdict: pace.Failed}},
		{Ignore(errBoom), pace.Report{Verdict: pace.Ignored}},
		{Throttled(errBoom, time.Second), pace.Report{Verdict: pace.Throttled, After: time.Second}},
		{fmt.Errorf("a: %w", Throttled(nil, time.Second)), pace.Report{Verdict: pace.Throttled, After: time.Second}},
		{Throttled(context.DeadlineExceeded, 0), pace.Report{Verdict: pace.Throttled}},
		{fmt.Errorf("a: %w", context.Canceled), pace.Report{}},
		{context.DeadlineExceeded, pace.Report{}},
		{fmt.Errorf("admission: %w", &store.Error{Reason: store.ErrNeverFits}), pace.Report{}},
		{down, pace.Report{}},
		{fmt.Errorf("a: %w", down), pace.Report{}},
		{Throttled(down, 0), pace.Report{Verdict: pace.Throttled}},
	} {
		if got := Classify(c.err); got != c.want {
			t.Errorf("Classify(%v) = %+v, want %+v", c.err, got, c.want)
		}
	}
}

func TestOwnClassify(t *testing.T) {
	th, tries := unpaced(), 0
	th.Classify = func(err error) pace.Report {
		if err == errBoom {
			return pace.Report{Verdict: pace.Throttled}
		}
		return Classify(err)
	}
	err := th.Do(t.Context(), func(context.Context) error {
		if tries++; tries < 10 {
			return errBoom
		}
		return nil
	})
	if err != nil || tries != 10 {
		t.Errorf("Do = %v after %d tries, want nil after 10", err, tries)
	}
}

func TestCall(t *testing.T) {
	tries := 0
	n, err := Call(t.Context(), unpaced(), func(context.Context) (int, error) {
		if tries++; tries < 3 {
			return tries, Throttled(errBoom, 0)
		}
		return tries, Permanent(errBoom)
	})
	if n != 3 || err != errBoom {
		t.Errorf("Call = %d, %v, want 3, boom", n, err)
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Error{Reason: ErrWouldWait, Wait: time.Second}, "throttle: not without waiting, would wait 1s"},
		{&Error{Reason: ErrQueueFull, Wait: pace.Never}, "throttle: too many calls are waiting, would wait for an unknown time"},
		{&Error{Reason: context.Canceled}, "throttle: context canceled"},
		{&Error{Reason: ErrTries, Tries: 1, Err: errBoom}, "throttle: no tries left, after 1 try, not executed: boom"},
		{&Error{Reason: ErrTries, Tries: 4, Err: errors.Join(errBoom, errBoom)}, "throttle: no tries left, after 4 tries, not executed: boom; boom"},
		{Throttled(errBoom, time.Second), "boom"},
		{Throttled(nil, time.Second), "throttled"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%#v.Error() = %q, want %q", c.err, got, c.want)
		}
	}
}

// A call that need not wait allocates nothing.
func TestDoAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	for _, law := range []load.Law{nil, new(load.Adaptive)} {
		th := unpaced()
		th.Concurrency = law
		if n := testing.AllocsPerRun(1000, func() { _ = th.Do(ctx, served) }); n != 0 {
			t.Errorf("Do allocates %v times with the law %T, want 0", n, law)
		}
	}
}

func BenchmarkDo(b *testing.B) {
	for name, th := range map[string]*Throttle{
		"unpaced":  unpaced(),
		"adaptive": new(Throttle),
		"hook":     {OnEvent: new(Counter).OnEvent},
	} {
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				_ = th.Do(ctx, served)
			}
		})
	}
}

// What is missing of a call is named, before it waits for its turn.
func TestCallOfNothing(t *testing.T) {
	var none context.Context
	run := func(context.Context) error { return nil }
	const context, function = "throttle: the context of a call is nil", "throttle: the function of a call is nil"
	for name, c := range map[string]struct {
		call func(*Throttle)
		want string
	}{
		"Do":                    {func(th *Throttle) { th.Do(t.Context(), nil) }, function},
		"Try":                   {func(th *Throttle) { th.Try(t.Context(), nil) }, function},
		"DoResult":              {func(th *Throttle) { th.DoResult(t.Context(), nil) }, function},
		"Call":                  {func(th *Throttle) { Call[int](t.Context(), th, nil) }, function},
		"Do without a context":  {func(th *Throttle) { th.Do(none, run) }, context},
		"Try without a context": {func(th *Throttle) { th.Try(none, run) }, context},
	} {
		th := unpaced()
		func() {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("%s panics with %v, want %s", name, got, c.want)
				}
			}()
			c.call(th)
		}()
		if th.InFlight() != 0 || th.Waiting() != 0 {
			t.Errorf("%s: %d in flight, %d wait; want none", name, th.InFlight(), th.Waiting())
		}
	}
}
