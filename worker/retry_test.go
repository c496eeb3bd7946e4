package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
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

var errPoison = errors.New("poison")

// poisoned runs 4 partitions through 16 places of 50 ms for 10 s, and returns how
// many records of the partitions 1 to 3 were done, and partition 0.
func poisoned(t *testing.T, w *worker.Worker[[2]int64], poison [2]int64) (others int64, first worker.AssignmentStats) {
	w.Throttle, w.MaxInFlight, w.Window = free(), 16, 100
	w.Offset = func(r [2]int64) int64 { return r[1] }
	w.Handle = func(_ context.Context, r [2]int64) error {
		time.Sleep(50 * time.Millisecond)
		if r == poison {
			return throttle.Failed(errPoison)
		}
		return nil
	}
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var as []*worker.Assignment[[2]int64]
	for p := range int64(4) {
		a := w.Assign(ctx, "", 0)
		as = append(as, a)
		all.Go(func() {
			for r := int64(0); a.Put(ctx, [2]int64{p, r}) == nil; r++ {
				if s := w.Stats(); s.Assignments != nil && s.Assignments[0].Gap > w.Window {
					t.Errorf("a gap of %d, want at most %d", s.Assignments[0].Gap, w.Window)
				}
			}
		})
	}
	time.Sleep(10 * time.Second)
	first = w.Stats().Assignments[0]
	for _, a := range as[1:] {
		next, _ := a.Frontier()
		others += next
	}
	end()
	all.Wait()
	time.Sleep(time.Second) // the last tries end
	return others, first
}

// A record that fails for good keeps its own partition back, no further than the
// Window, and no other; with Tries and Dead its partition goes on.
func TestPoison(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		without, healthy := poisoned(t, new(worker.Worker[[2]int64]), [2]int64{-1})
		stuck, s := poisoned(t, new(worker.Worker[[2]int64]), [2]int64{0, 200})
		if s.Frontier != 200 || s.Gap < 87 || s.Gap > 100 || s.Left != 1 || s.Oldest < 5*time.Second {
			t.Errorf("the partition of the poison record: %+v, want frontier 200, gap 87 to 100, 1 left", s)
		}
		if stuck < without*9/10 {
			t.Errorf("the others did %d beside it and %d without, want 90%%", stuck, without)
		}
		var dead []int64
		var at time.Duration
		began := time.Now()
		w := &worker.Worker[[2]int64]{Tries: 5, Dead: func(_ context.Context, r [2]int64, err error) error {
			var e *throttle.Error
			if !errors.As(err, &e) || !errors.Is(err, errPoison) || e.Tries != 5 || !e.MayHaveRun || e.Reason != throttle.ErrTries {
				t.Errorf("Dead(%v)", err)
			}
			dead, at = append(dead, r[1]), time.Since(began)
			return nil
		}}
		_, s = poisoned(t, w, [2]int64{0, 200})
		if !slices.Equal(dead, []int64{200}) || s.Frontier < healthy.Frontier*8/10 {
			t.Errorf("dead %v, frontier %d, want 200 alone and 80%% of %d", dead, s.Frontier, healthy.Frontier)
		}
		if at > 5*time.Second {
			t.Errorf("dead after %v, want soon after 5 tries", at)
		}
	})
}

// Without Dead an assignment stops at a record that was given up, says so, and the
// others go on.
func TestStops(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var events []worker.Event
		var mu sync.Mutex
		w := worker.Worker[record]{Throttle: free(), Offset: offset, MaxInFlight: 2, Handle: func(_ context.Context, r record) error {
			time.Sleep(time.Second)
			if r == 105 {
				return errPoison
			}
			return nil
		}, OnEvent: func(e worker.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == worker.Stops {
				events = append(events, e)
			}
		}}
		a, b := w.Assign(t.Context(), "a", 100), w.Assign(t.Context(), "b", 0)
		put(t, a, 100, 120)
		put(t, b, 0, 20)
		err := a.Wait(t.Context())
		if !errors.Is(err, errPoison) || !strings.Contains(err.Error(), "a stops at offset 105") {
			t.Errorf("Wait = %v", err)
		}
		if err := b.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		frontier(t, a, 105)
		if n := a.Add(120); n != 0 {
			t.Errorf("Add accepts %d after the stop", n)
		}
		if err := a.Put(t.Context(), 120); !errors.Is(err, errPoison) {
			t.Errorf("Put = %v after the stop", err)
		}
		if len(events) != 1 || events[0].Offset != 105 || events[0].Name != "a" || !errors.Is(events[0].Err, errPoison) {
			t.Errorf("events %+v, want that a stops at 105", events)
		}
		if s := w.Stats(); len(s.Assignments) != 2 || s.Assignments[0].Err == nil {
			t.Errorf("Stats forgets the assignment that stopped: %+v", s)
		}
		if next, ok := a.Revoke(t.Context()); next != 105 || !ok {
			t.Errorf("Revoke = %d, %v, want 105, true", next, ok)
		}
	})
}

// A dead letter queue that fails is called again, with 16 calls at once, and no
// try starts meanwhile.
func TestDead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var now, most, calls, tries atomic.Int64
		fails := map[worker.EventKind]int{}
		var mu sync.Mutex
		w := worker.Worker[record]{
			Throttle: free(),
			Handle:   func(context.Context, record) error { tries.Add(1); return throttle.Permanent(errPoison) },
			Dead: func(_ context.Context, _ record, err error) error {
				if err != errPoison {
					t.Errorf("Dead gets %v, want the error of Handle itself", err)
				}
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				if tries.Load() > calls.Add(1)+16 {
					t.Errorf("%d tries beside %d calls of Dead", tries.Load(), calls.Load())
				}
				time.Sleep(time.Second)
				if calls.Load()%3 == 0 {
					return errors.New("down")
				}
				return nil
			},
			OnEvent: func(e worker.Event) {
				mu.Lock()
				defer mu.Unlock()
				fails[e.Kind]++
			},
		}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 200)
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		frontier(t, a, 200)
		if most.Load() != 16 || w.Stats().Dead != 200 || w.Stats().Done != 0 {
			t.Errorf("%d calls at once, want 16; %+v", most.Load(), w.Stats())
		}
		synctest.Wait()
		if fails[worker.Dies] != 200 || int64(fails[worker.DeadFails]) != calls.Load()-200 || fails[worker.Ends] != 200 {
			t.Errorf("events %v of %d calls", fails, calls.Load())
		}
	})
}

// A throttled try is not retried before the server said, and does not count.
func TestThrottled(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		w := worker.Worker[record]{Throttle: free(), Tries: 2, Handle: func(context.Context, record) error {
			if at = append(at, time.Since(began)); len(at) < 6 {
				return throttle.Throttled(errors.New("busy"), time.Minute)
			}
			return nil
		}}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 1)
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range at[1:] {
			if d := at[i+1] - at[i]; d < time.Minute || d > 61*time.Second {
				t.Errorf("try %d after %v, want a minute", i+2, d)
			}
		}
	})
}

// A Retry-After of years counts as MaxAfter.
func TestMaxAfter(t *testing.T) {
	for most, want := range map[time.Duration]time.Duration{0: time.Hour, time.Second: time.Second, -1: 1000 * time.Hour} {
		bubble.Test(t, func(t *testing.T) {
			th := free()
			th.MaxAfter = most
			once := true
			w := worker.Worker[record]{Throttle: th, Handle: func(context.Context, record) error {
				if once {
					once = false
					return throttle.Throttled(errors.New("busy"), 1000*time.Hour)
				}
				return nil
			}}
			a, began := w.Assign(t.Context(), "a", 0), time.Now()
			put(t, a, 0, 1)
			if err := a.Wait(t.Context()); err != nil || time.Since(began) != want {
				t.Errorf("MaxAfter %v: %v, retried after %v, want %v", most, err, time.Since(began), want)
			}
		})
	}
}

// A try that runs out of time counts as failed, and may have run; one that
// succeeds late is done.
func TestTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var events []worker.Event
		teach := &lessons{}
		w := worker.Worker[record]{
			Throttle: &throttle.Throttle{Control: teach}, Timeout: time.Second, MaxInFlight: 1,
			Handle: func(ctx context.Context, r record) error {
				switch {
				case r == 1: // late
					time.Sleep(2 * time.Second)
					return nil
				case len(events) == 0:
					<-ctx.Done()
					return errors.New("driver: no answer") // does not look like a time-out
				}
				return nil
			},
			OnEvent: func(e worker.Event) { events = append(events, e) },
		}
		a := w.Assign(t.Context(), "a", 0)
		put(t, a, 0, 2)
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(events) != 3 {
			t.Fatalf("%d events, want 3: %+v", len(events), events)
		}
		e := events[0]
		if e.Kind != worker.Ends || e.Verdict != pace.Failed || !e.TimedOut || !e.MayHaveRun || e.Took != time.Second || e.Rest <= 0 || e.Err == nil {
			t.Errorf("a time-out: %+v", e)
		}
		if s := w.Stats(); s.TimedOut != 1 || s.Failed != 1 || s.Served != 2 || s.Done != 2 {
			t.Errorf("%+v", s)
		}
		if teach.failed != 1 || teach.served != 2 {
			t.Errorf("the Throttle learns of %d failed and %d served, want 1 and 2", teach.failed, teach.served)
		}
	})
}

// lessons counts what a Controller learns.
type lessons struct {
	pace.Fixed
	failed, served, other int
}

func (l *lessons) Observe(_ time.Time, o pace.Outcome) time.Duration {
	switch o.Verdict {
	case pace.Failed:
		l.failed++
	case pace.Served:
		l.served++
	default:
		l.other++
	}
	return 0
}

// While a service is down or hangs, hardly a try is made, no record is given up
// for it, and work goes on soon after it is back.
func TestOutage(t *testing.T) {
	for name, hang := range map[string]bool{"refuses": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var down atomic.Bool
				var failed, opens, closes atomic.Int64
				var first atomic.Pointer[time.Time]
				w := worker.Worker[record]{
					Throttle: free(), MaxInFlight: 64, Tries: 3, Timeout: 2 * time.Second,
					Dead: func(_ context.Context, r record, err error) error {
						t.Errorf("record %d is given up: %v", r, err)
						return nil
					},
					OnEvent: func(e worker.Event) {
						switch e.Kind {
						case worker.Opens:
							opens.Add(1)
						case worker.Closes:
							closes.Add(1)
						}
					},
					Handle: func(ctx context.Context, _ record) error {
						time.Sleep(100 * time.Millisecond)
						if !down.Load() {
							now := time.Now()
							first.CompareAndSwap(nil, &now)
							return nil
						}
						failed.Add(1)
						if hang {
							<-ctx.Done()
						}
						return throttle.Failed(errors.New("down"))
					},
				}
				a := w.Assign(t.Context(), "a", 0)
				go func() {
					for r := record(0); a.Put(t.Context(), r) == nil; r++ {
					}
				}()
				time.Sleep(time.Second + 50*time.Millisecond) // no try ends then
				down.Store(true)
				time.Sleep(10 * time.Second)
				down.Store(false)
				first.Store(nil)
				back := time.Now()
				time.Sleep(5 * time.Second)
				probes := int64(45) // of a quarter of a second, at least
				if hang {
					probes = 10
				}
				if n := failed.Load(); n > 64+probes {
					t.Errorf("%d tries in an outage of 10 s, want at most %d", n, 64+probes)
				}
				late := 700 * time.Millisecond
				if hang {
					late += 2 * time.Second // the probe that hangs
				}
				if d := first.Load().Sub(back); d > late {
					t.Errorf("the first success %v after the outage, want at most %v", d, late)
				}
				if opens.Load() != 1 || closes.Load() != 1 {
					t.Errorf("the breaker opens %d times and closes %d times, want once", opens.Load(), closes.Load())
				}
				a.Lost()
				time.Sleep(time.Minute)
			})
		})
	}
}

// Tries below zero are one; a retry of what was never counted has no bound.
func TestTries(t *testing.T) {
	for tries, want := range map[int]int64{-1: 1, 1: 1, 4: 4} {
		bubble.Test(t, func(t *testing.T) {
			var n atomic.Int64
			w := worker.Worker[record]{Throttle: free(), Tries: tries, Handle: func(context.Context, record) error {
				n.Add(1)
				return throttle.Ignore(errors.New("never sent"))
			}, OnEvent: func(worker.Event) {}}
			a := w.Assign(t.Context(), "a", 0)
			put(t, a, 0, 1)
			var e *throttle.Error
			if err := a.Wait(t.Context()); !errors.As(err, &e) || n.Load() != want || int64(e.Tries) != want {
				t.Errorf("Tries %d: %d tries, %v", tries, n.Load(), err)
			}
		})
	}
}
