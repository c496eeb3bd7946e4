package admit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
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

const ms = time.Millisecond

// perSecond is a bucket of burst 1: a shaper.
func perSecond(n int64) limit.Limit {
	return limit.Limit{Count: n, Period: time.Second, Burst: 1}
}

// ledger is a Store that sums up what it has granted.
type ledger struct {
	memory.Store
	mu    sync.Mutex
	asked int
	taken int64
}

func (s *ledger) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	ok, err := s.Store.Take(ctx, a, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.taken += d[0].N
	return ok, err
}

// checkEmpty checks that nothing is left in q.
func checkEmpty(t *testing.T, q *Queue) {
	t.Helper()
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting != 0 || len(q.lines) != 0 {
		t.Errorf("%d waiting under %d keys, want none", q.waiting, len(q.lines))
	}
}

// refusedFor checks that err is an Error of the reason, and returns it.
func refusedFor(t *testing.T, err, reason error) *store.Error {
	t.Helper()
	var e *store.Error
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("error %v, want an *OwnerError of the Reason %v", err, reason)
	}
	return e
}

// The rate out is constant, and the order that of the arrivals.
func TestQueueShapes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		passed := timeline.New()
		var all sync.WaitGroup
		var mu sync.Mutex
		var order []int
		for i := range 6 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * ms)
				if d, err := q.Wait(t.Context(), "k", perSecond(10), 1); err != nil || !d.OK || d.N != 1 {
					t.Errorf("Wait = %+v, %v", d, err)
				}
				passed.Note("passed")
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
		}
		all.Wait()
		if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
		passed.Check(t, "passed", 0, 100*ms, 200*ms, 300*ms, 400*ms, 500*ms)
		checkEmpty(t, &q)
	})
}

// What is heavy is not overtaken by what is light; another key is not held up.
func TestQueueKeepsTheOrderOfWeights(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		l := limit.Limit{Count: 10, Period: time.Second}
		passed := timeline.New()
		var all sync.WaitGroup
		for i, n := range []int64{10, 8, 1, 1} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * ms)
				if _, err := q.Wait(t.Context(), "k", l, n); err != nil {
					t.Errorf("Wait of %d: %v", n, err)
				}
				passed.Note("k")
			})
		}
		all.Go(func() {
			time.Sleep(50 * ms)
			if _, err := q.Wait(t.Context(), "other", l, 1); err != nil {
				t.Errorf("Wait under another key: %v", err)
			}
			passed.Note("other")
		})
		all.Wait()
		passed.Check(t, "k", 0, 800*ms, 900*ms, time.Second)
		passed.Check(t, "other", 50*ms)
		checkEmpty(t, &q)
	})
}

// When the first gives up, the next passes at once if it fits, though the first did
// not.
func TestQueueBehindAHeavyOneThatGivesUp(t *testing.T) {
	for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
		bubble.Test(t, func(t *testing.T) {
			var q Queue
			l := limit.Limit{Kind: kind, Count: 10, Period: time.Minute}
			q.Wait(t.Context(), "k", l, 7)
			ctx, giveUp := context.WithCancel(t.Context())
			go q.Wait(ctx, "k", l, 5)
			synctest.Wait()
			time.AfterFunc(ms, giveUp)
			began := time.Now()
			_, err := q.Wait(t.Context(), "k", l, 2)
			if took := time.Since(began); err != nil || took != ms {
				t.Errorf("%v: Wait for 2 of the 3 that are left took %v, %v; want 1ms, when the one before has given up", kind, took, err)
			}
			checkEmpty(t, &q)
		})
	}
}

// Calls that are cancelled or lose patience at random leave nothing behind: no
// place in line, no token taken in vain, none lost.
func TestQueueNothingIsLeftBehind(t *testing.T) {
	for seed := range uint64(20) {
		bubble.Test(t, func(t *testing.T) {
			s := new(ledger)
			l := limit.Limit{Count: 20, Period: time.Second, Burst: 1 + int64(seed%4)*2}
			latency := time.Duration(seed%3) * 15 * ms
			q := Queue{MaxWait: 3 * time.Second, Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
				time.Sleep(latency / 2)
				ok, err := s.Take(ctx, a, d)
				time.Sleep(latency)
				return ok, err
			})}
			served := timeline.New()
			var all sync.WaitGroup
			for i := range uint64(100) {
				all.Go(func() {
					random := rand.New(rand.NewPCG(seed, i))
					upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
					time.Sleep(upTo(time.Second))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					// Half of the ends fall on an instant at which the next may pass.
					time.AfterFunc(upTo(6*time.Second).Truncate(50*ms*time.Duration(random.Int64N(2))), cancel)
					if _, err := q.Wait(ctx, "k", l, 1); err == nil {
						served.Note("served")
					}
				})
			}
			if seed%5 == 0 { // others take, too
				for range 20 {
					time.Sleep(150 * ms)
					store.Take(t.Context(), &s.Store, "k", l, 1)
				}
			}
			all.Wait()
			checkEmpty(t, &q)
			if n := served.Count("served"); int64(n) != s.taken || n < 20 {
				t.Errorf("seed %d: %d served, %d taken; want as many, and 20 or more", seed, n, s.taken)
			}
			time.Sleep(50 * ms)
			if d, err := q.Wait(t.Context(), "k", l, 1); err != nil || !d.OK {
				t.Errorf("seed %d: Wait after all is over = %+v, %v", seed, d, err)
			}
		})
	}
}

// A change is noticed by the first, who asks at once, and by those that will not
// make it any more.
func TestQueueChange(t *testing.T) {
	for name, change := range map[string]func(q *Queue, l limit.Limit){
		"by Change":   func(q *Queue, l limit.Limit) { q.Change("k", l) },
		"by newcomer": func(q *Queue, l limit.Limit) { go q.Wait(context.Background(), "k", l, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var q Queue
				results := timeline.New()
				slow, slower := limit.Limit{Count: 1, Period: time.Second}, limit.Limit{Count: 1, Period: 10 * time.Second}
				q.Wait(t.Context(), "k", slow, 1)
				for range 3 {
					go func() {
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
						defer cancel()
						if _, err := q.Wait(ctx, "k", slow, 1); err != nil {
							refusedFor(t, err, context.DeadlineExceeded)
							results.Note("refused")
							return
						}
						results.Note("served")
					}()
					synctest.Wait()
				}
				time.Sleep(500 * ms)
				change(&q, slower)
				synctest.Wait()
				results.Check(t, "refused", 500*ms, 500*ms) // the first has but five seconds to go, and the others fifteen
				change(&q, limit.Limit{})
				synctest.Wait()
				results.Check(t, "served", 500*ms)
				checkEmpty(t, &q)
				q.Change("unknown", slow)
			})
		})
	}
}

// The error of a store is that of one wait; the others keep their places.
func TestQueueStoreFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		broken := errors.New("no connection")
		asked := 0
		q := Queue{}
		q.Store = store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			q.Waiting() // no lock is held
			asked++
			switch asked {
			case 3:
				return false, broken
			case 4:
				panic(errBoom)
			}
			return m.Take(ctx, a, d)
		})
		results := timeline.New()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * ms)
				defer func() {
					if recover() == errBoom {
						results.Note("panic")
					}
				}()
				_, err := q.Wait(t.Context(), "k", perSecond(10), 1)
				switch {
				case err == nil:
					results.Note("served")
				case refusedFor(t, err, store.ErrUndecided) != nil && errors.Is(err, broken):
					results.Note("failed")
				}
			})
		}
		all.Wait()
		results.Check(t, "served", 0, 100*ms, 200*ms)
		results.Check(t, "failed", 100*ms)
		results.Check(t, "panic", 100*ms)
		checkEmpty(t, &q)
	})
}

// A store that says neither yes nor when is not asked without a pause.
func TestQueueOfAStoreThatContradictsItself(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		asked := 0
		q := Queue{Store: store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
			asked++
			return false, nil
		}), MaxWait: time.Second}
		_, err := q.Wait(t.Context(), "k", perSecond(10), 1)
		refusedFor(t, err, context.DeadlineExceeded)
		if asked < 900 || asked > 1001 {
			t.Errorf("asked %d times in a second, want about 1000", asked)
		}
	})
}

// Zero waits until nothing is owed; below zero gives back, and those that wait
// have it at once.
func TestQueueZeroAndBelow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue
		results := timeline.New()
		l := limit.Limit{Count: 1, Period: time.Second, Burst: 5}
		q.Wait(t.Context(), "k", l, 5)
		go func() {
			if _, err := q.Wait(t.Context(), "k", l, 3); err == nil {
				results.Note("three")
			}
		}()
		time.Sleep(500 * ms)
		if d, err := q.Wait(t.Context(), "k", l, -3); err != nil || d.N != -3 {
			t.Errorf("Wait(-3) = %+v, %v, want -3", d, err)
		}
		synctest.Wait()
		results.Check(t, "three", 500*ms)
		if d, err := q.Wait(t.Context(), "k", l, 0); err != nil || !d.OK || d.N != 0 {
			t.Errorf("Wait(0) = %+v, %v, want it to pass", d, err)
		}
		checkEmpty(t, &q)
		q.Store = store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, errBoom })
		if _, err := q.Wait(t.Context(), "k", l, -1); !errors.Is(err, store.ErrUndecided) || !strings.Contains(err.Error(), "boom") {
			t.Errorf("Wait(-1) of a broken store: %v", err)
		}
	})
}
