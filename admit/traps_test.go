package admit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/internal/timeline"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// Each test here is named after a trap that published limiters have fallen
// into; its comment says where that is written down.

// x/time/rate (golang/go#56924), grafana/rollout-operator#441: ten times as many
// callers as may pass, each of which gives up after 200 ms, reserve the future
// in vain, and next to none is served.
func TestTrapCancelledWaitersCollapse(t *testing.T) {
	for name, patience := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(200*ms, cancel)
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 200*ms)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := new(ledger)
				q := Queue{Store: s}
				served := timeline.New()
				var all sync.WaitGroup
				for range 10_000 { // 1000 a second for 10 s
					time.Sleep(ms)
					all.Go(func() {
						ctx, cancel := patience(t.Context())
						defer cancel()
						if _, err := q.Wait(ctx, "k", perSecond(100), 1); err == nil {
							served.Note("served")
						}
					})
				}
				all.Wait()
				if n := served.Count("served"); n < 1000 || n > 1021 || int64(n) != s.taken {
					t.Errorf("%d served in 10.2 s at 100 a second, %d taken; want 1000 to 1021 of both", n, s.taken)
				}
				if s.asked > 1100 { // nor is it a burden to the store
					t.Errorf("the store was asked %d times", s.asked)
				}
				checkEmpty(t, &q)
			})
		})
	}
}

// x/time/rate (golang/go#56924, #69419, hugalafutro/model-hotel#976),
// failsafe-go: what is given back is less than what was taken, the less the
// more others have come since, and in no order is it all.
func TestTrapGivingBackIsExact(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		l := limit.Limit{Count: 60, Period: time.Second, Burst: 20}
		random := rand.New(rand.NewPCG(1, 2))
		var taken []int64
		for left := int64(20); left > 0; {
			n := random.Int64N(min(left, 10)) + 1
			q.Wait(t.Context(), "k", l, n)
			taken, left = append(taken, n), left-n
		}
		random.Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })
		for _, n := range taken {
			q.Wait(t.Context(), "k", l, -n)
		}
		if d, err := q.Wait(t.Context(), "k", l, 20); err != nil || !d.OK {
			t.Errorf("all taken and given back, then Wait(20) = %+v, %v", d, err)
		}
	})
}

// failsafe-go: each wait that is cancelled keeps its permit, and the next one
// waits for all of them.
func TestTrapCancelledWaitKeepsItsPermit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		q.Wait(t.Context(), "k", perSecond(10), 1)
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(ms, cancel)
			if _, err := q.Wait(ctx, "k", perSecond(10), 1); !errors.Is(err, context.Canceled) {
				t.Errorf("Wait = %v, want canceled", err)
			}
		}
		began := time.Now()
		if _, err := q.Wait(t.Context(), "k", perSecond(10), 1); err != nil || time.Since(began) != 95*ms {
			t.Errorf("Wait = %v after %v, want 95 ms", err, time.Since(began))
		}
	})
}

// x/time/rate (golang/go#23575): those that wait sleep on when the limit rises.
func TestTrapChangeDoesNotWakeWaiters(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		began := time.Now()
		q.Wait(t.Context(), "k", limit.Limit{Count: 1, Period: time.Hour}, 1)
		time.AfterFunc(ms, func() { q.Change("k", perSecond(1000)) })
		_, err := q.Wait(t.Context(), "k", limit.Limit{Count: 1, Period: time.Hour}, 1)
		// What is owed is the store's business; an hour it is not.
		if took := time.Since(began); err != nil || took > 2*time.Second {
			t.Errorf("Wait = %v after %v, want it to be woken by the change", err, took)
		}
	})
}

// x/time/rate: negative n, a limit of zero that lets everything pass, and errors
// that are strings (golang/go#68541, #80698).
func TestTrapBadArguments(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		if d, err := q.Wait(t.Context(), "k", perSecond(1), math.MinInt64); err != nil || d.Remaining != 1 {
			t.Errorf("the least n: %+v, %v, want no more than a full bucket", d, err)
		}
		for _, l := range []limit.Limit{{Period: time.Second}, {Count: -1, Period: time.Second}} {
			if _, err := q.Wait(t.Context(), "k", l, 1); !errors.Is(err, store.ErrNeverFits) {
				t.Errorf("%+v: %v, want store.ErrNeverFits", l, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), ms)
		defer cancel()
		q.Wait(ctx, "k", perSecond(1), 1)
		if _, err := q.Wait(ctx, "k", perSecond(1), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a deadline that is too early: %v, want context.DeadlineExceeded", err)
		}
	})
}

// clipperhouse/rate: more than the limit is polled for until the context ends.
// resilience4j#1283, #1968: a wait that is known to fail takes all of its time.
func TestTrapWaitsForWhatIsKnownToFail(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := Queue{MaxWait: time.Minute}
		began := time.Now()
		if _, err := q.Wait(t.Context(), "k", perSecond(1), 2); !errors.Is(err, store.ErrNeverFits) {
			t.Errorf("above the burst: %v, want store.ErrNeverFits", err)
		}
		slow := limit.Limit{Count: 1, Period: time.Hour}
		q.Wait(t.Context(), "k", slow, 1)
		_, err := q.Wait(t.Context(), "k", slow, 1)
		if e := refusedFor(t, err, context.DeadlineExceeded); e.Wait != time.Hour {
			t.Errorf("an hour too long: %v, want it to say so", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v to say so, want none", took)
		}
	})
}

// cockroachdb/cockroach#55652: waits of a nanosecond burn a processor.
func TestTrapWaitsOfNoTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(ledger)
		q := Queue{Store: s}
		for range 1000 {
			q.Wait(t.Context(), "k", limit.Limit{Count: 600_000_000, Period: time.Second, Burst: 1000}, 1000)
		}
		if s.asked > 2000 {
			t.Errorf("the store was asked %d times for 1000 waits, want 2 each at most", s.asked)
		}
	})
}

// golang/go#63615, songzhibin97/gkit#134: with a context that has ended a
// permit is taken all the same.
func TestTrapDeadContextTakes(t *testing.T) {
	s := new(ledger)
	q := Queue{Store: s}
	var f store.InFlight
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Wait(dead, "k", perSecond(1), 1); !errors.Is(err, context.Canceled) || s.asked != 0 {
		t.Errorf("Wait = %v, and the store was asked %d times", err, s.asked)
	}
	_, _, ok, err := f.Admit(dead, s, []limit.Ask{{Key: "k"}}, make([]limit.Decision, 1), store.Count{Key: "k", Max: 1})
	if n, _ := f.Held("k"); ok || !errors.Is(err, context.Canceled) || n != 0 || s.asked != 0 {
		t.Errorf("Admit = %v, %v, %d in flight, and the store was asked %d times", ok, err, n, s.asked)
	}
}

// golang/go#37852: when the first in line gives up, those behind it for whom
// there is room sleep on.
func TestTrapCancelledHeadWakesTheNext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		l := limit.Limit{Count: 10, Period: time.Hour}
		q.Wait(t.Context(), "k", l, 5)
		ctx, cancel := context.WithCancel(t.Context())
		go q.Wait(ctx, "k", l, 10)
		synctest.Wait()
		served := timeline.New()
		for range 2 {
			go func() {
				q.Wait(t.Context(), "k", l, 2)
				served.Note("served")
			}()
		}
		time.Sleep(ms)
		cancel()
		synctest.Wait()
		served.Check(t, "served", ms, ms)
		checkEmpty(t, &q)
	})
}

// Netflix/concurrency-limits#179, joshrotenberg/tower-resilience#363: what is
// granted in the instant in which the wait ends is lost, or is used without
// having been granted.
func TestTrapGrantRacesTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, slow := range []time.Duration{0, 99 * ms, 100 * ms, 101 * ms} {
			s := new(ledger)
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
			q := Queue{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
				time.Sleep(slow) // and looks at no context
				return s.Take(ctx, a, d)
			})}
			d, err := q.Wait(ctx, "k", perSecond(1), 1)
			if (err == nil) != d.OK || (err == nil) != (s.taken == 1) {
				t.Errorf("store takes %v: Wait = %+v, %v, and %d taken", slow, d, err, s.taken)
			}
			cancel()
			checkEmpty(t, &q)
		}
		// A store that does look at it may have taken or not: that is an error.
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		q := Queue{Store: store.Func(func(ctx context.Context, _ []limit.Ask, _ []limit.Decision) (bool, error) {
			<-ctx.Done()
			return false, errBoom
		})}
		if _, err := q.Wait(ctx, "k", perSecond(1), 1); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errBoom) {
			t.Errorf("store cut off: %v, want both errors", err)
		}
	})
}

// data-fair/data-fair#486, failsafe-lib/failsafe#328: a queue without an end.
func TestTrapUnboundedQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		ctx, cancel := context.WithCancel(t.Context())
		var full atomic.Int64
		for range 2000 {
			go func() {
				if _, err := q.Wait(ctx, "k", perSecond(1), 1); errors.Is(err, ErrQueueFull) {
					full.Add(1)
				}
			}()
		}
		synctest.Wait()
		if n := full.Load(); n != 999 || q.Waiting() != 1000 {
			t.Errorf("%d refused and %d waiting, want 999 and 1000", n, q.Waiting())
		}
		cancel()
		checkEmpty(t, &q)
	})
}
