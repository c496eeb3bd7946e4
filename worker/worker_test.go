package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// free is a Throttle that bounds nothing.
func free() *throttle.Throttle { return &throttle.Throttle{Control: new(pace.Fixed)} }

// record is one of these tests: its offset is its number.
type record = int64

func offset(r record) int64 { return r }

// put adds the records from to to-1.
func put(t *testing.T, a *worker.Assignment[record], from, to record) {
	t.Helper()
	for r := from; r < to; r++ {
		if err := a.Put(t.Context(), r); err != nil {
			t.Fatalf("Put(%d) = %v", r, err)
		}
	}
}

func frontier(t *testing.T, a *worker.Assignment[record], want int64) {
	t.Helper()
	if next, ok := a.Frontier(); next != want || !ok {
		t.Errorf("Frontier = %d, %v, want %d, true", next, ok, want)
	}
}

// A record that waits has no goroutine and no place in flight, whatever the limit
// is; and what waits in the Throttle is one call.
func TestGoroutines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 10}, MaxInFlight: 4}
		w := worker.Worker[record]{Throttle: th, Handle: func(context.Context, record) error {
			time.Sleep(time.Second)
			return throttle.Failed(errors.New("down"))
		}}
		before := runtime.NumGoroutine()
		a := w.Assign(t.Context(), "a", 0)
		if n := a.Add(make([]record, 20_000)...); n != 10_000 {
			t.Errorf("Add accepts %d, want the Window, 10000", n)
		}
		for range 100 {
			time.Sleep(time.Second / 2)
			synctest.Wait()
			if n := runtime.NumGoroutine() - before; n > 4+1+16+2 { // and 2 of the runtime
				t.Fatalf("%d goroutines for 4 in flight", n)
			}
			if th.InFlight() > 4 || th.Waiting() > 1 {
				t.Fatalf("%d in flight and %d waiting in the Throttle, want at most 4 and 1", th.InFlight(), th.Waiting())
			}
		}
		a.Lost()
		time.Sleep(time.Second)
		synctest.Wait()
		if th.InFlight() != 0 || th.Waiting() != 0 { // the bubble finds goroutines
			t.Errorf("%d in flight, %d waiting after the end, want none", th.InFlight(), th.Waiting())
		}
	})
}

// MaxInFlight holds besides the Throttle's bound.
func TestMaxInFlight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		w := worker.Worker[record]{Throttle: free(), MaxInFlight: 3, Handle: func(context.Context, record) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}}
		a := w.Assign(t.Context(), "a", 0)
		began := time.Now()
		put(t, a, 0, 30)
		if err := a.Wait(t.Context()); err != nil || most.Load() != 3 || time.Since(began) != 10*time.Second {
			t.Errorf("%v: %d at once, 30 tries of a second in %v, want 3 and 10s", err, most.Load(), time.Since(began))
		}
	})
}

// A Worker without a Throttle learns how many tries a service bears: of one that
// works on 8 at once it is not given the 1000 that may be in flight.
func TestLearnsInFlight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		places := make(chan struct{}, 8)
		w := worker.Worker[record]{Handle: func(context.Context, record) error {
			places <- struct{}{}
			time.Sleep(10 * time.Millisecond)
			<-places
			return nil
		}}
		a := w.Assign(t.Context(), "a", 0)
		began := time.Now()
		put(t, a, 0, 20_000)
		s := w.Stats()
		if took := time.Since(began); took > 40*time.Second || s.Limit > 64 || s.InFlight > s.Limit {
			t.Errorf("%v for 25 s of work, %d in flight of at most %d, want at most 64", took, s.InFlight, s.Limit)
		}
		a.Lost()
		time.Sleep(10 * time.Second)
	})
}

// Assignments take turns, so that one with a short queue does not wait behind a long one.
func TestTurns(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[record]{Throttle: free(), MaxInFlight: 1, Handle: func(context.Context, record) error {
			time.Sleep(time.Second)
			return nil
		}}
		long, short := w.Assign(t.Context(), "long", 0), w.Assign(t.Context(), "short", 0)
		put(t, long, 0, 1000)
		put(t, short, 0, 10)
		time.Sleep(21*time.Second + time.Millisecond)
		frontier(t, short, 10)
		frontier(t, long, 11)
		long.Lost()
		time.Sleep(time.Second)
	})
}

// Records of a key run one after another, in order, also those of other
// assignments and while one rests; others overtake.
func TestOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		busy := map[string]bool{}
		key := func(s string) string { return s[1:] }
		fails := map[string]int{"1k": 3}
		w := worker.Worker[string]{Throttle: free(), Order: key, Handle: func(_ context.Context, s string) error {
			mu.Lock()
			if busy[key(s)] && key(s) != "" {
				t.Errorf("%s runs beside another of its key", s)
			}
			busy[key(s)] = true
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			busy[key(s)] = false
			if fails[s]--; fails[s] >= 0 {
				return throttle.Throttled(errors.New("busy"), 10*time.Second)
			}
			log = append(log, s)
			return nil
		}}
		a, b := w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", 0)
		a.Add("1k", "2k", "3m", "4", "5k")
		b.Add("6k", "7m")
		time.Sleep(30 * time.Second)
		mu.Lock()
		if got := fmt.Sprint(log); got != "[3m 4 7m]" && got != "[4 3m 7m]" {
			t.Errorf("done while 1k rests: %s, want 3m, 4 and then 7m", got)
		}
		mu.Unlock()
		if s := w.Stats(); s.Ordered != 3 || s.Resting+s.InFlight != 1 {
			t.Errorf("%d wait for a record of their key and %d rest, want 3 and 1", s.Ordered, s.Resting)
		}
		if err := errors.Join(a.Wait(t.Context()), b.Wait(t.Context())); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(log[3:]); got != "[1k 2k 5k 6k]" {
			t.Errorf("done in the order %s, want 1k 2k 5k 6k", got)
		}
	})
}

// A record of a key does not start beside a try of a lost assignment that still
// runs.
func TestOrderAcrossAssignments(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var now atomic.Int64
		w := worker.Worker[record]{Throttle: free(), Order: func(record) string { return "key" }, Handle: func(context.Context, record) error {
			if now.Add(1) > 1 {
				t.Error("two tries of one key at once")
			}
			time.Sleep(time.Minute) // deaf to its context
			now.Add(-1)
			return nil
		}}
		old := w.Assign(t.Context(), "a", 0)
		put(t, old, 0, 3)
		synctest.Wait()
		old.Lost()
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 1)
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := w.Stats(); s.Late != 1 || s.Done != 1 {
			t.Errorf("%d late and %d done, want 1 and 1", s.Late, s.Done)
		}
	})
}

// The options of a try reach the Throttle, and not the calls in Handle.
func TestOptions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		costs := &costing{}
		w := worker.Worker[record]{
			Throttle: &throttle.Throttle{Control: costs},
			Options:  func(r record) throttle.CallOptions { return throttle.CallOptions{Cost: r} },
			Handle: func(ctx context.Context, _ record) error {
				if o := throttle.OptionsOf(ctx); o.Key != "mine" || o.Once || o.Cost != 0 {
					t.Errorf("options in Handle: %+v, want those of Assign", o)
				}
				return nil
			},
		}
		a := w.Assign(throttle.WithOptions(t.Context(), throttle.CallOptions{Key: "mine"}), "a", 0)
		put(t, a, 3, 5)
		if err := a.Wait(t.Context()); err != nil || costs.sum != 7 {
			t.Errorf("%v: cost %d, want 7", err, costs.sum)
		}
	})
}

// costing admits everything and adds up the costs.
type costing struct {
	pace.Fixed
	sum int64
}

func (c *costing) Start(_ time.Time, r pace.Request) { c.sum += r.Cost }

// What a Throttle refuses, as its queue is full, is tried later.
func TestThrottleRefuses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		th := &throttle.Throttle{Control: new(pace.Fixed), MaxInFlight: 1, MaxWaiting: 1}
		for range 2 { // one in flight, one in line
			go th.Do(t.Context(), func(context.Context) error { time.Sleep(time.Second); return nil })
		}
		synctest.Wait()
		w := worker.Worker[record]{Throttle: th, Handle: func(context.Context, record) error { return nil }}
		a := w.Assign(t.Context(), "a", 0)
		began := time.Now()
		put(t, a, 0, 10)
		if err := a.Wait(t.Context()); err != nil || time.Since(began) < 2*time.Second || time.Since(began) > 3*time.Second {
			t.Errorf("%v: done after %v, want 2s and a little", err, time.Since(began))
		}
	})
}

// A Handle that ends its goroutine has not done its record.
func TestGoexit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var n atomic.Int64
		w := worker.Worker[record]{Throttle: free(), Handle: func(context.Context, record) error {
			if n.Add(1) == 1 {
				runtime.Goexit()
			}
			return nil
		}}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 1)
		if err := a.Wait(t.Context()); err != nil || n.Load() != 2 || w.Throttle.InFlight() != 0 {
			t.Errorf("%v: %d tries and %d in flight, want 2 and 0", err, n.Load(), w.Throttle.InFlight())
		}
	})
}

// The zero Worker has a Throttle of its own.
func TestZero(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[record]{Handle: func(context.Context, record) error { return nil }}
		a := w.Assign(t.Context(), "a", -1)
		put(t, a, 7, 9)
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		frontier(t, a, 2) // numbered, as there is no Offset
	})
}
