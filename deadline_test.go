package throttle_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/internal/timeline"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// kitchen is a server that works on five calls at a time, whoever still waits for
// them.
type kitchen struct{ workers chan struct{} }

func newKitchen() *kitchen { return &kitchen{make(chan struct{}, 5)} }

// call has it work for so long.
func (k *kitchen) call(ctx context.Context, work time.Duration) error {
	done := make(chan struct{})
	go func() {
		k.workers <- struct{}{}
		time.Sleep(work)
		<-k.workers
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Of 512 callers that wait for 600 ms each, for a server of 500 a second, nearly as
// many have an answer as the server can give. The others are told so, without a
// try.
func TestDeadlinesUnderOverload(t *testing.T) {
	bubble.Long(t)
	for name, th := range map[string]*throttle.Throttle{
		"8 in flight": {Control: new(pace.Fixed), MaxInFlight: 8},
		"adaptive":    {Control: new(pace.Fixed), Concurrency: new(load.Adaptive)},
		"450/s":       {Control: &pace.Fixed{Rate: 450}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				calls, k, began := timeline.New(), newKitchen(), time.Now()
				var all sync.WaitGroup
				for range 512 {
					all.Go(func() {
						for time.Since(began) < 10*time.Second {
							hurriedCall(t, th, k, calls)
							time.Sleep(20 * time.Millisecond) // as the time of one refused on entry stands still
						}
					})
				}
				all.Wait()
				if n := calls.Count("answered"); n < 4200 {
					t.Errorf("%d answered in 10 s, want 4200 of 5000", n)
				}
				if n := calls.Count("too late"); n < 50 {
					t.Errorf("%d were told that it is too late, want 50", n)
				}
				if th.Waiting() != 0 || th.InFlight() != 0 {
					t.Errorf("%d wait, %d in flight at the end", th.Waiting(), th.InFlight())
				}
				time.Sleep(time.Minute) // what was abandoned ends
			})
		})
	}
}

// hurriedCall makes one call that waits for 600 ms, and checks its error.
func hurriedCall(t *testing.T, th *throttle.Throttle, k *kitchen, calls *timeline.Timeline) {
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	err := th.Do(ctx, func(ctx context.Context) error { return k.call(ctx, 10*time.Millisecond) })
	var e *throttle.Error
	switch {
	case err == nil:
		calls.Note("answered")
	case errors.Is(err, throttle.ErrTooLate):
		calls.Note("too late")
		if !errors.As(err, &e) || e.Tries != 0 || e.MayHaveRun || !e.Timeout() || !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "would not be answered before its deadline") {
			t.Errorf("too late: %v (%+v)", err, e)
		}
	case !errors.Is(err, context.DeadlineExceeded):
		t.Errorf("Do = %v", err)
	}
}

// After one slow answer, calls that have the time for it are all answered, and none
// is too late; those that come then find room.
func TestSlowFirstAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: new(pace.Fixed), MaxInFlight: 1, MaxWaiting: 100}
		first := make(chan struct{}, 1)
		first <- struct{}{}
		call := func(ctx context.Context) error {
			work := 10 * time.Millisecond
			select {
			case <-first:
				work = 1600 * time.Millisecond
			default:
			}
			time.Sleep(work)
			return nil
		}
		for range 2 {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 2700*time.Millisecond)
					defer cancel()
					if err := th.Do(ctx, call); err != nil {
						t.Errorf("Do = %v, want an answer: 1.6 s and 99 times 10 ms", err)
					}
				})
			}
			all.Wait()
		}
	})
}

// Callers that wait for next to nothing keep no other from starting, and leave the
// concurrency limit as it was.
func TestThrowAwayDeadlines(t *testing.T) {
	for name, law := range map[string]load.Law{"adaptive": new(load.Adaptive), "AIMD": new(load.AIMD)} {
		bubble.Test(t, func(t *testing.T) {
			th := &throttle.Throttle{Control: new(pace.Fixed), Concurrency: law}
			k := newKitchen()
			before := th.Limit()
			for range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				if err := th.Do(ctx, func(ctx context.Context) error { return k.call(ctx, 10*time.Millisecond) }); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: Do = %v, want a time-out", name, err)
				}
				cancel()
				time.Sleep(20 * time.Millisecond)
			}
			if got := th.Limit(); got < before {
				t.Errorf("%s: limit %d, was %d", name, got, before)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
			defer cancel()
			if err := th.Do(ctx, func(ctx context.Context) error { return k.call(ctx, 10*time.Millisecond) }); err != nil {
				t.Errorf("%s: a call with 15 ms at an idle server: %v", name, err)
			}
			time.Sleep(time.Second)
		})
	}
}

// Calls without a deadline are served in their order, whatever others do, and
// MaxWait is no deadline of an answer.
func TestMaxWaitIsNoDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: new(pace.Fixed), MaxInFlight: 5, MaxWait: 300 * time.Millisecond}
		k := newKitchen()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				err := th.Do(t.Context(), func(ctx context.Context) error { return k.call(ctx, 10*time.Millisecond) })
				if errors.Is(err, throttle.ErrTooLate) {
					t.Errorf("Do = %v", err)
				}
			})
		}
		all.Wait()
	})
}

// A try that lasts until the deadline of its context is reported as timed out,
// whatever its function says of that; one that was cancelled is not, nor one that
// was answered.
func TestTimedOut(t *testing.T) {
	ends := func(ctx context.Context) throttle.Result {
		<-ctx.Done()
		return throttle.Result{Err: errors.New("the connection was closed")}
	}
	for _, c := range []struct {
		name string
		f    func(context.Context) throttle.Result
		stop time.Duration // cancelled; zero: not
		want bool
	}{
		{"at the deadline", ends, 0, true},
		{"cancelled", ends, time.Second, false},
		{"failed at the deadline", func(ctx context.Context) throttle.Result {
			<-ctx.Done()
			return throttle.Result{Report: pace.Report{Verdict: pace.Failed}, Err: ctx.Err()}
		}, 0, true},
		{"failed sooner", func(context.Context) throttle.Result {
			return throttle.Result{Report: pace.Report{Verdict: pace.Failed, Final: true}, Err: errors.New("refused")}
		}, 0, false},
		{"answered at the deadline", func(ctx context.Context) throttle.Result {
			<-ctx.Done()
			return throttle.Result{Report: pace.Report{Verdict: pace.Served}, Err: errors.New("no such row")}
		}, 0, false},
		{"nothing to do", func(ctx context.Context) throttle.Result { <-ctx.Done(); return throttle.Result{} }, 0, false},
		{"just before its context ends", func(context.Context) throttle.Result {
			time.Sleep(2 * time.Second)
			return throttle.Result{Err: errors.New("by another timer")}
		}, 0, true},
	} {
		bubble.Test(t, func(t *testing.T) {
			var got pace.Report
			th := &throttle.Throttle{OnEvent: func(e throttle.Event) {
				if e.Kind == throttle.Ends {
					got = e.Report
				}
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if c.stop > 0 {
				time.AfterFunc(c.stop, cancel)
			}
			_ = th.DoResult(ctx, c.f)
			if got.TimedOut != c.want {
				t.Errorf("%s: report %+v, want TimedOut %v", c.name, got, c.want)
			}
		})
	}
}

// A start that comes together with the end of the context is no try, as the function
// is not called.
func TestAStartGivenBackIsNoTry(t *testing.T) {
	for calls := range 3 {
		bubble.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var last throttle.Event
			th := &throttle.Throttle{
				Control: &ending{end: cancel, after: calls},
				OnEvent: func(e throttle.Event) { last = e },
			}
			called := 0
			err := th.Do(ctx, func(context.Context) error {
				called++
				return throttle.Throttled(errors.New("too many"), time.Second)
			})
			var e *throttle.Error
			if !errors.As(err, &e) || called != calls || e.Tries != calls || last.Kind != throttle.GivesUp || last.Try != calls {
				t.Errorf("Do = %v after %d calls, %v with %d tries; want %d of each", err, called, last.Kind, last.Try, calls)
			}
		})
	}
}

// ending is a Controller that ends a context after so many starts, as the next one
// comes.
type ending struct {
	pace.Fixed
	end   func()
	after int
}

func (e *ending) Start(now time.Time, r pace.Request) {
	if e.after--; e.after < 0 {
		e.end()
	}
	e.Fixed.Start(now, r)
}

// A call whose wait would leave it too little time for an answer is refused at once, once
// calls have timed out: the turn is for one that has the time.
func TestTooLateOnEntry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 1}}
		call := func(long time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			return th.Do(ctx, func(ctx context.Context) error {
				select {
				case <-time.After(100 * time.Millisecond):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}
		for range 16 {
			if err := call(time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if err := call(50 * time.Millisecond); err != context.DeadlineExceeded {
			t.Fatalf("%v, want a time-out", err)
		}
		began := time.Now()
		err := call(970 * time.Millisecond) // its turn comes in 950 ms
		if !errors.Is(err, throttle.ErrTooLate) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 0 {
			t.Errorf("%v after %v, want ErrTooLate at once", err, time.Since(began))
		}
		if err := call(1200 * time.Millisecond); err != nil {
			t.Errorf("a call with enough time: %v", err)
		}
	})
}
