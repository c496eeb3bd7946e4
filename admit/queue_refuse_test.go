package admit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/internal/timeline"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// What cannot make its deadline is told at once, with the forecast.
func TestQueueRefusesWhatComesTooLate(t *testing.T) {
	for name, c := range map[string]struct {
		maxWait, deadline time.Duration
	}{
		"deadline of the context": {0, 250 * ms},
		"longest wait":            {250 * ms, 0},
		"both":                    {250 * ms, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				q := Queue{MaxWait: c.maxWait}
				results := timeline.New()
				var all sync.WaitGroup
				for range 5 { // at 0, 100 and 200 ms, but not at 300 and 400
					time.Sleep(time.Microsecond)
					all.Go(func() {
						ctx, cancel := t.Context(), context.CancelFunc(func() {})
						if c.deadline > 0 {
							ctx, cancel = context.WithTimeout(ctx, c.deadline)
						}
						defer cancel()
						_, err := q.Wait(ctx, "k", perSecond(10), 1)
						if err == nil {
							results.Note("served")
							return
						}
						results.Note("refused")
						e := refusedFor(t, err, context.DeadlineExceeded)
						if e.Wait < 299*ms || e.Wait > 300*ms || !e.Timeout() {
							t.Errorf("refused with %v, want a forecast of just below 300 ms", e)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				const us = time.Microsecond
				results.Check(t, "served", us, 100*ms+us, 200*ms+us)
				results.Check(t, "refused", 4*us, 5*us)
				checkEmpty(t, &q)
			})
		})
	}
}

// A wait that would end in the instant of the deadline is too long.
func TestQueueDeadlineIsAnEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := Queue{MaxWait: 100 * ms}
		for _, wait := range []time.Duration{0, 1} {
			time.Sleep(time.Hour)
			if _, err := q.Wait(t.Context(), "k", perSecond(10), 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(wait * time.Microsecond)
			began := time.Now()
			_, err := q.Wait(t.Context(), "k", perSecond(10), 1)
			if took := time.Since(began); (err == nil) != (wait == 1) || err != nil && took > 0 {
				t.Errorf("%d µs less than the longest wait: %v after %v", wait, err, took)
			}
		}
	})
}

// Nothing waits for what can never be.
func TestQueueNever(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		blocked := limit.Limit{Period: time.Second}
		for _, c := range []struct {
			limit.Limit
			n int64
		}{{perSecond(10), 2}, {blocked, 1}, {blocked, 0}} {
			_, err := q.Wait(t.Context(), "k", c.Limit, c.n)
			if e := refusedFor(t, err, store.ErrNeverFits); e.Wait != limit.Never {
				t.Errorf("Wait(%+v, %d) = %v, want Wait to be Never", c.Limit, c.n, err)
			}
			if want := "not admitted: more than is ever admitted at once, so no wait helps"; err.Error() != want {
				t.Errorf("Wait(%+v, %d) = %q, want %q", c.Limit, c.n, err, want)
			}
		}
		// So do those that wait already, whether first or not.
		big := limit.Limit{Count: 10, Period: time.Hour}
		q.Wait(t.Context(), "k", big, 10)
		errs := map[int64]error{}
		var mu sync.Mutex
		for _, n := range []int64{1, 5, 0, 9} {
			go func() {
				_, err := q.Wait(t.Context(), "k", big, n)
				mu.Lock()
				defer mu.Unlock()
				errs[n] = err
			}()
			synctest.Wait()
		}
		if _, err := q.Wait(t.Context(), "k", big, 11); !errors.Is(err, store.ErrNeverFits) {
			t.Errorf("Wait(11) behind others = %v, want store.ErrNeverFits", err)
		}
		q.Change("k", limit.Limit{Count: 1, Period: time.Hour})
		synctest.Wait()
		if len(errs) != 2 {
			t.Errorf("where 1 may pass: %v, want 5 and 9 refused", errs)
		}
		q.Change("k", blocked)
		synctest.Wait()
		for _, n := range []int64{0, 1, 5, 9} {
			refusedFor(t, errs[n], store.ErrNeverFits)
		}
		checkEmpty(t, &q)
	})
}

func TestQueueIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := Queue{MaxWaiting: 5, MaxPerKey: 3}
		ctx, cancel := context.WithCancel(t.Context())
		l := limit.Limit{Count: 1, Period: time.Minute}
		wait := func(key string) {
			go q.Wait(ctx, key, l, 1)
			synctest.Wait()
		}
		for _, key := range []string{"a", "a", "a", "a", "b", "b", "b"} { // one of each passes
			wait(key)
		}
		if n := q.Waiting(); n != 5 {
			t.Fatalf("%d waiting, want 5", n)
		}
		for key, forecast := range map[string]time.Duration{"a": 4 * time.Minute, "b": 3 * time.Minute, "c": limit.Never} {
			_, err := q.Wait(t.Context(), key, l, 1)
			if e := refusedFor(t, err, ErrQueueFull); e.Wait != forecast {
				t.Errorf("the queue is full: %v under %s, want a forecast of %v", err, key, forecast)
			}
		}
		cancel()
		if _, err := q.Wait(ctx, "a", l, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait = %v, want it to say that its context has ended", err)
		}
		checkEmpty(t, &q)
	})
}

// When more is asked for than can be summed up, it is too much.
func TestQueueSumIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		q := Queue{Store: store.Func(func(_ context.Context, _ []limit.Ask, d []limit.Decision) (bool, error) {
			<-gate
			d[0].OK = true
			return true, nil
		})}
		go q.Wait(t.Context(), "k", limit.Limit{}, 1<<62)
		synctest.Wait()
		_, err := q.Wait(t.Context(), "k", limit.Limit{}, 1<<62)
		refusedFor(t, err, ErrQueueFull)
		close(gate)
		checkEmpty(t, &q)
	})
}

// While the Store has not answered there is no forecast. Those that came
// meanwhile are looked at as soon as there is one, whatever the answer.
func TestQueueRefusesWhenTheForecastComes(t *testing.T) {
	for _, used := range []int64{2, 3} { // of 3: the first is granted, or is not
		bubble.Test(t, func(t *testing.T) {
			var m memory.Store
			l := limit.Limit{Count: 10, Period: time.Second, Burst: 3}
			store.Take(t.Context(), &m, "k", l, used)
			q := Queue{MaxWait: 250 * ms, Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
				ok, err := m.Take(ctx, a, d)
				time.Sleep(10 * ms)
				return ok, err
			})}
			results := timeline.New()
			for range 6 {
				time.Sleep(time.Microsecond)
				go func() {
					if _, err := q.Wait(t.Context(), "k", l, 1); err != nil {
						refusedFor(t, err, context.DeadlineExceeded)
						results.Note("refused")
						return
					}
					results.Note("served")
				}()
			}
			time.Sleep(time.Second)
			// At 0, 100 and 200 ms one each may pass, and one more if it is granted.
			if got, want := results.Count("served"), 5-int(used); got != want {
				t.Errorf("%d used of 3: %d served, want %d", used, got, want)
			}
			for _, at := range results.Of("refused") {
				if at > 11*ms {
					t.Errorf("%d used of 3: refused at %v, want at the first answer", used, results.Of("refused"))
				}
			}
			checkEmpty(t, &q)
		})
	}
}

// Bounds below zero are those of zero.
func TestQueueBoundsBelowZero(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := Queue{MaxWaiting: -1, MaxPerKey: -1, MaxWait: -1}
		passed := timeline.New()
		for range 3 {
			go func() {
				if _, err := q.Wait(t.Context(), "k", perSecond(1), 1); err != nil {
					t.Error(err)
				}
				passed.Note("passed")
			}()
		}
		time.Sleep(time.Minute)
		passed.Check(t, "passed", 0, time.Second, 2*time.Second)
	})
}

// MaxPerKey bounds the callers in line for one key, and no other.
func TestQueueMaxPerKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := Queue{MaxPerKey: 2}
		var all sync.WaitGroup
		for range 3 { // the first passes at once
			all.Go(func() {
				if _, err := q.Wait(t.Context(), "k", perSecond(1), 1); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		_, err := q.Wait(t.Context(), "k", perSecond(1), 1)
		if e := refusedFor(t, err, ErrQueueFull); e.Wait != 3*time.Second {
			t.Errorf("the third in line is refused with a forecast of %v, want 3s", e.Wait)
		}
		if _, err := q.Wait(t.Context(), "other", perSecond(1), 1); err != nil {
			t.Errorf("Wait for another key = %v", err)
		}
		all.Wait()
	})
}

// A context that is missing is named, instead of a nil dereference somewhere below.
func TestNilContextIsNamed(t *testing.T) {
	var none context.Context
	for want, f := range map[string]func(){
		"admit: Queue.Wait: the context is nil":      func() { new(Queue).Wait(none, "k", perSecond(1), 1) },
		"admit: Shedder.Acquire: the context is nil": func() { new(Shedder).Acquire(none, 0) },
		"admit: Control.Begin: the context is nil":   func() { new(Control).Begin(none, Request{}) },
		"admit: Quota.Create: the context is nil":    func() { new(Quota).Create(none, "k", 1, 1) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panics with %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
}
