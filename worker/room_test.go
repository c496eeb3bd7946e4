package worker_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// Add accepts up to the Window; what was refused must come next; Room says when.
func TestRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var rooms atomic.Int64
		w := worker.Worker[record]{
			Throttle: free(), Window: 10, MaxInFlight: 1, Offset: offset,
			Handle: func(context.Context, record) error { time.Sleep(time.Second); return nil },
			Room:   func(*worker.Assignment[record]) { rooms.Add(1) },
		}
		a := w.Assign(t.Context(), "a", 0)
		if n := a.Add(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11); n != 10 {
			t.Errorf("Add accepts %d, want the Window, 10", n)
		}
		if got, want := w.Stats().Assignments[0], (worker.AssignmentStats{Name: "a", Next: 10, Gap: 10, Left: 10, Full: true}); got != want {
			t.Errorf("Stats() = %+v, want %+v", got, want)
		}
		time.Sleep(3*time.Second + time.Millisecond)
		if n := a.Add(11, 12); n != 0 {
			t.Errorf("Add accepts %d behind 10, which was refused", n)
		}
		if rooms.Load() != 0 {
			t.Error("Room is called for 3 places of 10")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if rooms.Load() != 1 {
			t.Errorf("Room is called %d times for 5 places of 10, want once", rooms.Load())
		}
		if n := a.Add(8, 9, 10, 20, 22); n != 5 {
			t.Errorf("Add accepts %d, want 5: two that it knows, and three", n)
		}
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		frontier(t, a, 23)
		if a.Skip(30); w.Stats().Done != 13 || rooms.Load() != 1 {
			t.Errorf("%d done, want 13, and Room called %d times", w.Stats().Done, rooms.Load())
		}
		frontier(t, a, 30)
		if n := a.Add(25, 30); n != 2 {
			t.Errorf("Add accepts %d, want 2", n)
		}
		if err := a.Wait(t.Context()); err != nil || w.Stats().Done != 14 {
			t.Errorf("%v: %d done, want 14, as 25 was skipped", err, w.Stats().Done)
		}
	})
}

// Skip wakes a Put that waits for a record that was refused before its own.
func TestSkipWakes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[record]{
			Throttle: free(), Window: 1, Offset: offset,
			Handle: func(context.Context, record) error { time.Sleep(time.Second); return nil },
		}
		a := w.Assign(t.Context(), "a", 0)
		defer a.Lost()
		a.Add(0, 1) // 1 is refused
		time.AfterFunc(time.Minute, func() { a.Skip(5) })
		ctx, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		began := time.Now()
		if err := a.Put(ctx, 5); err != nil || time.Since(began) != time.Minute {
			t.Errorf("Put after %v: %v; want a minute", time.Since(began), err)
		}
	})
}

func TestAddPanics(t *testing.T) {
	for _, records := range [][]record{{1, 1}, {5, 4}, {1, 2, 3, 3}, {math.MaxInt64}, {1, math.MaxInt64}} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "must ascend") && !strings.Contains(text, "none is above it to commit") {
					t.Errorf("Add(%v) panics with %q", records, text)
				}
			}()
			w := worker.Worker[record]{Throttle: free(), Offset: offset, Handle: func(context.Context, record) error { return nil }}
			w.Assign(t.Context(), "a", 0).Add(records...)
		}()
	}
}

// A nil context is named at once, not only where there is something to wait for.
func TestNilContextIsNamed(t *testing.T) {
	w := worker.Worker[int]{Throttle: free(), Handle: func(context.Context, int) error { return nil }}
	a := w.Assign(t.Context(), "a", 0)
	var none context.Context
	for call, f := range map[string]func(){
		"Assign":            func() { w.Assign(none, "b", 0) },
		"Each":              func() { w.Each(none, slices.Values([]int{1})) },
		"Drain":             func() { w.Drain(none) },
		"Assignment.Put":    func() { a.Put(none, 1) },
		"Assignment.Wait":   func() { a.Wait(none) },
		"Assignment.Revoke": func() { a.Revoke(none) },
	} {
		func() {
			defer func() {
				if got, want := recover(), "worker: "+call+": the context is nil"; got != want {
					t.Errorf("panics with %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
}

// MaxBytes bounds what all assignments hold; one that runs dry is not kept out.
func TestMaxBytes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		held, most := 0, 0
		w := worker.Worker[int]{Throttle: free(), MaxBytes: 100, MaxInFlight: 1, Size: func(n int) int { return n }}
		w.Handle = func(_ context.Context, n int) error {
			most = max(most, int(w.Stats().Bytes))
			time.Sleep(time.Second)
			held++
			return nil
		}
		a, b := w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", 0)
		if n := a.Add(40, 40, 40); n != 2 {
			t.Errorf("Add accepts %d of 40 bytes each, want 2", n)
		}
		if n := b.Add(21); n != 0 {
			t.Errorf("Add accepts 21 bytes beside 80 of 100")
		}
		synctest.Wait()
		if s := w.Stats(); s.Bytes != 80 {
			t.Errorf("%d bytes, want 80", s.Bytes)
		}
		began := time.Now()
		if err := b.Put(t.Context(), 21, 500, 7); err != nil {
			t.Fatal(err)
		}
		if err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if most != 500 || held != 5 || time.Since(began) != 5*time.Second {
			t.Errorf("most %d bytes, %d done after %v; want 500 alone, 5, 5s", most, held, time.Since(began))
		}
	})
}

// What a lost assignment held is room for others.
func TestRoomOfOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[int]{
			Throttle: free(), MaxBytes: 100, MaxInFlight: 1, Size: func(n int) int { return n },
			Handle: func(ctx context.Context, n int) error { <-ctx.Done(); return ctx.Err() },
		}
		a, b := w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", 0)
		a.Add(10, 90)
		time.AfterFunc(time.Second, a.Lost)
		if err := b.Put(t.Context(), 60); err != nil {
			t.Fatal(err)
		}
		b.Lost()
	})
}

// An assignment whose Window has emptied while others held the MaxBytes is notified
// when these have gone: nothing of its own ends any more.
func TestRoomAfterTheWindow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := worker.Worker[record]{
			Throttle: free(), Window: 1, MaxBytes: 10, Offset: offset,
			Size: func(r record) int { return 20 * int(r/100) },
			Handle: func(_ context.Context, r record) error {
				time.Sleep(time.Second + time.Duration(r)*time.Millisecond)
				return nil
			},
		}
		a, b := w.Assign(t.Context(), "a", 0), w.Assign(t.Context(), "b", 0)
		if n := a.Add(0, 1); n != 1 {
			t.Errorf("Add accepts %d, want the Window, 1", n)
		}
		if n := b.Add(100); n != 1 {
			t.Errorf("Add of more than MaxBytes beside a record without a size accepts %d, want 1", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.Put(ctx, 1); err != nil {
			t.Errorf("Put = %v after the record of b is done; %+v", err, w.Stats())
		}
		if err := w.Drain(ctx); err != nil {
			t.Error(err)
		}
	})
}

// What a try of an assignment that has ended held is room for others.
func TestRoomOfCancelled(t *testing.T) {
	for name, end := range map[string]func(*worker.Assignment[int], context.CancelFunc){
		"lost":    func(a *worker.Assignment[int], _ context.CancelFunc) { a.Lost() },
		"context": func(_ *worker.Assignment[int], cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := worker.Worker[int]{
					Throttle: free(), MaxBytes: 100, Size: func(n int) int { return n },
					Handle: func(ctx context.Context, n int) error {
						if <-ctx.Done(); n == 100 {
							time.Sleep(time.Second)
						}
						return ctx.Err()
					},
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				a, b := w.Assign(ctx, "a", 0), w.Assign(t.Context(), "b", 0)
				defer b.Lost()
				a.Add(100)
				time.AfterFunc(time.Second, func() { end(a, cancel) })
				patient, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				if err := b.Put(patient, 60); err != nil {
					t.Errorf("Put beside a try that has ended: %v", err)
				}
			})
		})
	}
}

// Stats says which bound holds back the stream.
func TestBound(t *testing.T) {
	hang := func(ctx context.Context, _ record) error { <-ctx.Done(); return ctx.Err() }
	fail := func(context.Context, record) error { return throttle.Throttled(context.Canceled, time.Hour) }
	down := func(context.Context, record) error { return throttle.Failed(context.Canceled) }
	poison := func(context.Context, record) error { return errPoison }
	quick := func(context.Context, record) error { return nil }
	for want, w := range map[worker.Bound]*worker.Worker[record]{
		worker.BoundEmpty:   {Handle: quick},
		worker.BoundLimit:   {Handle: hang, MaxInFlight: 2},
		worker.BoundRate:    {Handle: quick, Throttle: &throttle.Throttle{Control: &pace.Fixed{Rate: 0.1}}},
		worker.BoundBreaker: {Handle: down},
		worker.BoundWindow:  {Handle: fail, Window: 4},
		worker.BoundBytes:   {Handle: fail, MaxBytes: 4, Size: func(record) int { return 1 }},
		worker.BoundOrder:   {Handle: hang, Order: func(record) string { return "key" }},
		worker.BoundRetry:   {Handle: fail},
		worker.BoundDead:    {Handle: poison, Dead: func(ctx context.Context, r record, _ error) error { return hang(ctx, r) }},
	} {
		bubble.Test(t, func(t *testing.T) {
			if w.Throttle == nil {
				w.Throttle = free()
			}
			a := w.Assign(t.Context(), "a", 0)
			a.Add(slices.Repeat([]record{0}, 100)...)
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
			if s := w.Stats(); s.Bound != want {
				t.Errorf("Bound is %s, want %s: %+v", s.Bound, want, s)
			}
			a.Lost()
		})
	}
	for _, th := range []*throttle.Throttle{
		{Control: new(pace.Fixed), MaxInFlight: 3},
		{Control: new(pace.Fixed), MaxInFlight: 9, Concurrency: three{}},
	} {
		bubble.Test(t, func(t *testing.T) {
			w := worker.Worker[record]{Handle: hang, Throttle: th}
			a := w.Assign(t.Context(), "a", 0)
			put(t, a, 0, 9)
			synctest.Wait()
			if s := w.Stats(); s.Bound != worker.BoundLimit || s.Limit != 3 || s.InFlight != 3 || s.Waiting != 6 {
				t.Errorf("%+v, want the limit of 3", s)
			}
			a.Lost()
		})
	}
}

// A record whose turn has come, but whose timer has not fired yet, is held back by
// the rate while there is room in flight, and by the limit where one has just ended.
func TestBoundOfADueRecord(t *testing.T) {
	for want, most := range map[worker.Bound]int{worker.BoundRate: 0, worker.BoundLimit: 1} {
		bubble.Test(t, func(t *testing.T) {
			var due hour
			w := worker.Worker[record]{
				Handle:   func(context.Context, record) error { return nil },
				Throttle: &throttle.Throttle{Control: &due, MaxInFlight: most},
			}
			a := w.Assign(t.Context(), "a", 0)
			put(t, a, 0, 2)
			synctest.Wait()
			if s := w.Stats(); s.Bound != worker.BoundRate {
				t.Errorf("Bound is %s before the turn, want rate", s.Bound)
			}
			due.Store(true)
			if s := w.Stats(); s.Bound != want {
				t.Errorf("at most %d in flight: Bound is %s, want %s: %+v", most, s.Bound, want, s)
			}
			a.Lost()
		})
	}
}

// hour lets requests start after an hour, or at once when it is true; nobody is told
// when it changes, as of a timer that is late.
type hour struct{ atomic.Bool }

func (h *hour) Wait(time.Time, pace.Request) time.Duration {
	if h.Load() {
		return 0
	}
	return time.Hour
}
func (*hour) Start(time.Time, pace.Request)                 {}
func (*hour) Observe(time.Time, pace.Outcome) time.Duration { return pace.Never }

// three is a law that has learnt that 3 may be in flight.
type three struct{}

func (three) Limit() int          { return 3 }
func (three) Observe(load.Sample) {}
