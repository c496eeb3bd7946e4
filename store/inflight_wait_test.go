package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/store"
)

func ExampleInFlight_Wait() {
	var exports store.InFlight // three exports of a customer at a time

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	h, err := exports.Wait(ctx, store.Count{Key: "42", Max: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Release()
	fmt.Println(exports.Held("42"))
	// Output: 1 1
}

// Waiters of a key get it in their order, each as soon as it fits.
func TestInFlightWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var f store.InFlight
		began := time.Now()
		got := make(chan string, 10)
		for i, n := range []int64{1, 2, 2, 1, 2} {
			go func() {
				h, err := f.Wait(t.Context(), store.Count{Key: "a", Max: 2, N: n})
				got <- fmt.Sprint(i, " at ", time.Since(began).Round(time.Second), " ", err)
				time.Sleep(time.Second)
				h.Release()
			}()
			time.Sleep(time.Millisecond)
		}
		for _, want := range []string{"0 at 0s <nil>", "1 at 1s <nil>", "2 at 2s <nil>", "3 at 3s <nil>", "4 at 4s <nil>"} {
			if s := <-got; s != want {
				t.Errorf("%s, want %s", s, want)
			}
		}
		time.Sleep(2 * time.Second)
		if s := f.Stats(); s.Holds != 0 || s.Keys != 0 {
			t.Errorf("in the end %+v, want none", s)
		}
	})
}

// A waiter for two keys holds neither until it gets both, and is not forgotten
// when the one that it waits for changes.
func TestInFlightWaitsForTwoKeys(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var f store.InFlight
		a, _, _ := f.Acquire(store.Count{Key: "a", Max: 1})
		b, _, _ := f.Acquire(store.Count{Key: "b", Max: 1})
		got := make(chan error, 1)
		go func() {
			h, err := f.Wait(t.Context(), store.Count{Key: "a", Max: 1}, store.Count{Key: "b", Max: 1})
			h.Release()
			got <- err
		}()
		synctest.Wait()
		a.Release()
		synctest.Wait()
		if n, _ := f.Held("a"); n != 0 || len(got) != 0 {
			t.Errorf("%d of a in flight, %d served, while b is held; want none", n, len(got))
		}
		b.Release()
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// A waiter for two keys keeps its place by the time at which it came, where it goes
// from the line of the one to that of the other.
func TestInFlightWaitsInOrderOfArrival(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var f store.InFlight
		one := func(key string) store.Count { return store.Count{Key: key, Max: 1} }
		a, _, _ := f.Acquire(one("a"))
		b, _, _ := f.Acquire(one("b"))
		got := make(chan string, 3)
		for _, w := range []struct {
			name string
			keys []store.Count
		}{
			{"first, of both", []store.Count{one("a"), one("b")}},
			{"second, of b", []store.Count{one("b")}},
			{"third, of b", []store.Count{one("b")}},
		} {
			go func() {
				h, err := f.Wait(t.Context(), w.keys...)
				got <- fmt.Sprint(w.name, " ", err)
				time.Sleep(time.Second)
				h.Release()
			}()
			synctest.Wait()
		}
		a.Release() // so the first goes from the line of a to that of b
		b.Release()
		for _, want := range []string{"first, of both <nil>", "second, of b <nil>", "third, of b <nil>"} {
			if s := <-got; s != want {
				t.Errorf("%s, want %s", s, want)
			}
		}
		time.Sleep(2 * time.Second)
		if s := f.Stats(); s.Holds != 0 || s.Keys != 0 {
			t.Errorf("in the end %+v, want none", s)
		}
	})
}

// A wait ends with its context, and the next in line gets its turn; what is held
// for too long is reclaimed while others wait.
func TestInFlightWaitEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := store.InFlight{MaxWaiting: 2, MaxAge: time.Minute}
		began := time.Now()
		one := store.Count{Key: "a", Max: 2}
		f.Acquire(one)
		soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := f.Wait(soon, store.Count{Key: "a", Max: 2, N: 2})
			first <- err
		}()
		synctest.Wait()
		go func() {
			_, err := f.Wait(t.Context(), one)
			second <- err
		}()
		synctest.Wait()
		if _, err := f.Wait(t.Context(), one); !errors.Is(err, store.ErrInFlightFull) {
			t.Errorf("the third in line: %v, want %v", err, store.ErrInFlightFull)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first: %v, want its deadline", err)
		}
		if err := <-second; err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("the second: %v after %v, want its turn when the first leaves", err, time.Since(began))
		}
		if _, err := f.Wait(t.Context(), one); err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v, want what expires to make room", err, time.Since(began))
		}
		if _, err := f.Wait(soon, one); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an ended context: %v", err)
		}
		for _, never := range [][]store.Count{{{Key: "a"}}, {{Key: "a", Max: 1, N: 2}}, {one, one, one}, {{Key: "a", Max: 1, N: -1}}} {
			if _, err := f.Wait(t.Context(), never...); !errors.Is(err, store.ErrNeverFits) {
				t.Errorf("Wait(%v) = %v, want %v", never, err, store.ErrNeverFits)
			}
		}
	})
}

// Where there is room for no more keys, nobody waits for one.
func TestInFlightWaitMaxKeys(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := store.InFlight{MaxKeys: 1}
		h, _, _ := f.Acquire(store.Count{Key: "a", Max: 1})
		if _, err := f.Wait(t.Context(), store.Count{Key: "b", Max: 1}); !errors.Is(err, store.ErrInFlightFull) {
			t.Errorf("another key: %v, want %v", err, store.ErrInFlightFull)
		}
		got := make(chan error, 1)
		go func() {
			_, err := f.Wait(t.Context(), store.Count{Key: "a", Max: 1}, store.Count{Key: "b", Max: 1})
			got <- err
		}()
		synctest.Wait()
		h.Release()
		if err := <-got; !errors.Is(err, store.ErrInFlightFull) {
			t.Errorf("a and another key: %v, want %v", err, store.ErrInFlightFull)
		}
		if s := f.Stats(); s.Keys != 0 {
			t.Errorf("%+v, want nothing held", s)
		}
		if _, err := f.Wait(t.Context()); err != nil {
			t.Errorf("no counts: %v, want nil", err)
		}
	})
}

// What Wait acquired in its turn counts for MaxAge from then on; Peak stays the most
// that were held.
func TestInFlightWaitsAndAges(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := store.InFlight{MaxAge: time.Minute}
		one := store.Count{Key: "a", Max: 1}
		first, _, _ := f.Acquire(one)
		other, _, _ := f.Acquire(store.Count{Key: "b", Max: 1})
		go func() {
			if _, err := f.Wait(t.Context(), one); err != nil { // it is never released
				t.Error(err)
			}
		}()
		time.Sleep(30 * time.Second)
		other.Release()
		first.Release()
		time.Sleep(time.Minute - 1)
		if _, _, ok := f.Acquire(one); ok {
			t.Error("what waited is reclaimed within MaxAge")
		}
		time.Sleep(time.Nanosecond)
		if _, _, ok := f.Acquire(one); !ok {
			t.Error("what waited is not reclaimed after MaxAge")
		}
		if s := f.Stats(); s.Holds != 1 || s.Peak != 2 || s.Reclaimed != 1 {
			t.Errorf("Stats() = %+v, want 1 held, 2 at most, and 1 reclaimed", s)
		}
		time.Sleep(time.Minute)
		if s := f.Stats(); s.Keys != 0 || s.Holds != 0 || s.Reclaimed != 2 {
			t.Errorf("Stats() = %+v a minute later, want 2 reclaimed, and none held", s)
		}
	})
}

// MaxWaiting counts those in line now: not those that were served, that gave up, or for
// whose other key there was no room.
func TestInFlightCountsWhoWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := store.InFlight{MaxWaiting: 1, MaxKeys: 1}
		a, b := store.Count{Key: "a", Max: 1}, store.Count{Key: "b", Max: 1}
		for _, c := range []struct {
			counts []store.Count
			wait   time.Duration
			want   error
		}{
			{[]store.Count{a}, time.Minute, nil},
			{[]store.Count{a}, time.Second, context.DeadlineExceeded},
			{[]store.Count{a, b}, time.Minute, store.ErrInFlightFull},
			{[]store.Count{a}, time.Minute, nil},
		} {
			h, _, _ := f.Acquire(a)
			time.AfterFunc(time.Minute, h.Release)
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), c.wait+1)
			h, err := f.Wait(ctx, c.counts...)
			cancel()
			if !errors.Is(err, c.want) || time.Since(began) < c.wait {
				t.Errorf("Wait(%v) with nobody in line: %v after %v, want %v after %v", c.counts, err, time.Since(began), c.want, c.wait)
			}
			h.Release()
			time.Sleep(time.Minute)
		}
		ended, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		if _, err := f.Wait(ended, a); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an ended context where there is room: %v, want its error", err)
		}
		if s := f.Stats(); s.Holds != 0 {
			t.Errorf("in the end %+v, want nothing held", s)
		}
	})
}
