package admit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/internal/timeline"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// Where there is room for many they do not ask one after the other.
func TestQueueOfASlowStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(ledger)
		l := limit.Limit{Count: 100, Period: time.Second, Burst: 1000}
		q := Queue{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			time.Sleep(5 * ms)
			ok, err := s.Take(ctx, a, d)
			time.Sleep(5 * ms)
			return ok, err
		})}
		served := timeline.New()
		var all sync.WaitGroup
		wait := func(n int64, patience time.Duration) {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if _, err := q.Wait(ctx, "k", l, n); err != nil {
					t.Errorf("Wait(%d) = %v", n, err)
				}
				served.Note("served")
			})
		}
		for range 500 {
			wait(1, 25*ms) // 10 for the first and 10 for the others
		}
		time.Sleep(15 * ms) // the others are asking
		wait(495, 4*ms)     // for which there is room
		all.Wait()
		if n := served.Count("served"); n != 501 || s.asked != 501 {
			t.Errorf("%d served by %d questions, want 501 by as many", n, s.asked)
		}
		checkEmpty(t, &q)
	})
}

// What others take meanwhile does not bring the line into disorder.
func TestQueueBesideOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		l := limit.Limit{Count: 10, Period: time.Second}
		var asked atomic.Int64
		var taking sync.Mutex
		q := Queue{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			time.Sleep(ms)
			taking.Lock() // those who ask together, in any order but one by one
			defer taking.Unlock()
			if asked.Add(1) == 2 { // behind the first, who has seen room for all
				store.Take(ctx, &m, "k", l, 8)
			}
			return m.Take(ctx, a, d)
		})}
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				if _, err := q.Wait(t.Context(), "k", l, 1); err != nil {
					t.Errorf("Wait = %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		all.Wait()
		// The first, all others at once, then each in turn: a few are asked twice.
		if n := asked.Load(); n > 11 {
			t.Errorf("the store was asked %d times for 6", n)
		}
		// One of those that call together has what is left; the others follow in order.
		if len(order) != 6 || order[0] != 0 || !slices.IsSorted(order[2:]) {
			t.Errorf("order %v, want the first, any, and the others in order", order)
		}
		checkEmpty(t, &q)
	})
}

// Those that are calling the Store may have been served: they do not make a forecast worse.
func TestQueueForecastWhileOthersAsk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(ledger)
		var asked atomic.Int64
		l := limit.Limit{Count: 100, Period: time.Second, Burst: 1000}
		q := Queue{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			ok, err := s.Take(ctx, a, d)
			time.Sleep(5 * ms)
			if n := asked.Add(1); n > 1 && n < 500 {
				time.Sleep(50 * ms) // the 500th says what is left
			}
			return ok, err
		})}
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() { q.Wait(t.Context(), "k", l, 1) })
		}
		time.Sleep(20 * ms)
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		if d, err := q.Wait(ctx, "k", l, 500); err != nil || d.Remaining > 10 {
			t.Errorf("Wait(500) of as many = %+v, %v", d, err)
		}
		all.Wait()
	})
}

// An answer under the limit that was says nothing about the one that is.
func TestQueueChangeWhileAsking(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		q := Queue{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			time.Sleep(10 * ms)
			return m.Take(ctx, a, d)
		})}
		served := timeline.New()
		for range 2 {
			go func() {
				q.Wait(t.Context(), "k", limit.Limit{Count: 1, Period: time.Hour}, 1)
				served.Note("served")
			}()
		}
		time.Sleep(5 * ms)
		q.Change("k", perSecond(1000))
		time.Sleep(5 * time.Second) // what was owed by the hour is forgiven in a second
		if n := served.Count("served"); n != 2 {
			t.Errorf("%d served, want 2", n)
		}
		time.Sleep(2 * time.Hour)
	})
}

// Where nothing can be foreseen, one asks at a time.
func TestQueueOfAnotherKind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(ledger)
		q := Queue{Store: s}
		l := limit.Limit{Kind: 99, Count: 10, Period: time.Second}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { q.Wait(t.Context(), "k", l, 1) })
		}
		all.Wait()
		if s.taken != 100 || s.asked > 200 {
			t.Errorf("%d taken by %d questions, want 100 by 200 at most", s.taken, s.asked)
		}
	})
}

// A plan refuses none because of those that are calling the Store.
func TestQueueForeseeWhileOthersAsk(t *testing.T) {
	now := time.Now()
	at := &line{limit: perSecond(10)}
	q := &Queue{lines: map[string]*line{"k": at}, waiting: 2}
	asks := &queued{line: at, n: 1, called: true, turn: make(chan struct{}, 1)}
	waits := &queued{line: at, n: 1, deadline: now.Add(50 * ms), turn: make(chan struct{}, 1)}
	at.queue.Push(&asks.place, asks)
	at.queue.Push(&waits.place, waits)
	at.sum = 2
	at.asking(asks, true)
	q.foresee(at, plan{at: now, d: limit.Decision{OK: true, Max: 1}})
	if waits.refused != nil {
		t.Errorf("refused with %v, want it to wait and see", waits.refused)
	}
	q.leave(asks)
	if at.asked != 0 || at.sum != 1 || !waits.called {
		t.Errorf("after one has left: %+v", at)
	}
}
