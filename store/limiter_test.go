package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

func ExampleLimiter() {
	l := store.Limiter{Limit: limit.Limit{Count: 1, Period: time.Hour, Burst: 2}}
	fmt.Println(l.Allow(), l.Allow(), l.Allow())

	mails := store.Limiter{Limit: limit.Limit{Count: 10, Period: time.Second, Burst: 1}}
	mails.Allow()
	r := mails.Reserve(1)
	fmt.Println(r.OK, time.Until(r.At).Round(100*time.Millisecond))
	r.Cancel() // it is not sent after all
	// Output:
	// true true false
	// true 100ms
}

// Reservations follow each other at the rate, and no further ahead than MaxWait.
func TestLimiterReserves(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := store.Limiter{Limit: limit.Limit{Count: 1, Period: time.Second, Burst: 2}, MaxWait: 3 * time.Second}
		began := time.Now()
		got := ""
		for range 7 {
			r := l.Reserve(1)
			got += fmt.Sprint(r.OK, " ", max(r.At.Sub(began), 0), ", ")
		}
		if want := "true 0s, true 0s, true 1s, true 2s, true 3s, false 0s, false 0s, "; got != want {
			t.Errorf("reserved %s\nwant     %s", got, want)
		}
		if l.Allow() {
			t.Error("Allow passes before what was reserved")
		}
		if l.Reserve(3).OK {
			t.Error("more than the burst is reserved")
		}
		time.Sleep(4 * time.Second)
		a, b := l.Reserve(2), l.Reserve(1) // one is there, one comes in a second
		b.Cancel()
		b.Cancel()
		if at := l.Reserve(1).At; at.Sub(began) != 6*time.Second {
			t.Errorf("after Cancel the next comes after %v, want 6s", at.Sub(began))
		}
		a.Cancel() // others were promised later
		if at := l.Reserve(1).At; at.Sub(began) != 7*time.Second {
			t.Errorf("after Cancel of an earlier one the next comes after %v, want 7s", at.Sub(began))
		}
	})
}

// However many wait, no more pass than the limit says.
func TestLimiterWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := store.Limiter{Limit: limit.Limit{Count: 10, Period: time.Second, Burst: 1}}
		began := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := l.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 4900*time.Millisecond {
			t.Errorf("50 at 10/s take %v, want 4.9s", took)
		}
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := l.Wait(soon); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 4900*time.Millisecond {
			t.Errorf("%v after %v, want to know at once that the deadline comes first", err, time.Since(began))
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, stop)
		if err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want cancelled", err)
		}
		time.Sleep(90 * time.Millisecond)
		if err := l.Wait(ctx); !errors.Is(err, context.Canceled) || !l.Allow() {
			t.Errorf("after %v what was given back is not there", err)
		}
		three := store.Limiter{Limit: limit.Limit{Count: 10, Period: time.Second, Burst: 3}}
		begins := time.Now()
		for _, n := range []int64{3, 2, -1, 3} {
			if err := three.WaitN(t.Context(), n); err != nil {
				t.Errorf("WaitN(%d): %v", n, err)
			}
		}
		if took := time.Since(begins); took != 500*time.Millisecond {
			t.Errorf("8 tokens, 3 of them at once, take %v at 10/s, want 500ms", took)
		}
		if err := three.WaitN(t.Context(), 4); !errors.Is(err, store.ErrNeverFits) {
			t.Errorf("4 of a Burst of 3: %v, want %v", err, store.ErrNeverFits)
		}
		never := store.Limiter{Limit: limit.Limit{Period: time.Second}}
		if err := never.Wait(t.Context()); !errors.Is(err, store.ErrNeverFits) || never.Allow() {
			t.Errorf("a limit of nothing: %v, want %v", err, store.ErrNeverFits)
		}
		far := store.Limiter{Limit: limit.Limit{Count: 1, Period: time.Hour}, MaxWait: time.Second}
		if err := far.Wait(t.Context()); err != nil {
			t.Errorf("the first: %v", err)
		}
		var refused *store.Error
		if err := far.Wait(t.Context()); !errors.As(err, &refused) || refused.Reason != store.ErrTooLong || refused.Wait != time.Hour {
			t.Errorf("an hour beyond a MaxWait of a second: %v, want %v", err, store.ErrTooLong)
		}
		var free store.Limiter
		if err := free.Wait(t.Context()); err != nil || !free.AllowN(1<<40) {
			t.Errorf("the zero Limiter: %v, want all to pass", err)
		}
	})
}

// A Reservation of no tokens takes nothing, so what was promised before it is refunded.
func TestLimiterCancelBeforeNone(t *testing.T) {
	for _, none := range []int64{0, -4} {
		bubble.Test(t, func(t *testing.T) {
			l := store.Limiter{Limit: limit.Limit{Count: 1, Period: time.Second}}
			l.Allow()
			r := l.Reserve(1)
			if z := l.Reserve(none); !z.OK || !z.At.Equal(r.At) {
				t.Errorf("Reserve(%d) = %+v, want it at %v", none, z, r.At)
			}
			r.Cancel()
			if next := l.Reserve(1); time.Until(next.At) != time.Second {
				t.Errorf("Reserve(%d), then Cancel of the one before: the next comes after %v, want 1s", none, time.Until(next.At))
			}
		})
	}
}

// TestLimiterCancelOfACopy: the tokens of a Reservation are refunded once, however many
// copies there are of it.
func TestLimiterCancelOfACopy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := store.Limiter{Limit: limit.Limit{Count: 1, Period: time.Second, Burst: 1}}
		began := time.Now()
		for range 2 {
			l.Reserve(1)
		}
		last := l.Reserve(1)
		again := last
		last.Cancel()
		again.Cancel()
		if next := l.Reserve(1); next.At.Sub(began) != 2*time.Second {
			t.Errorf("after Cancel of both copies the next comes after %v, want 2s", next.At.Sub(began))
		}
	})
}

// A Reservation is not refunded once others came after it, though its time has not come.
func TestLimiterCancelOfAnEarlierOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := store.Limiter{Limit: limit.Limit{Count: 1, Period: time.Second}}
		l.Allow()
		first, second := l.Reserve(1), l.Reserve(1)
		first.Cancel()
		if next := l.Reserve(1); time.Until(next.At) != 3*time.Second {
			t.Errorf("after Cancel of the first of two the next comes after %v, want 3s: the second is at %v", time.Until(next.At), time.Until(second.At))
		}
	})
}

// More than the Burst never passes, however much more, and refunds nothing.
func TestLimiterExtremes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, n := range []int64{4, 1 << 32, math.MaxInt64 - 1, math.MaxInt64} {
			l := store.Limiter{Limit: limit.Limit{Count: 1, Period: time.Second, Burst: 3}}
			l.AllowN(2)
			if l.AllowN(n) || l.Reserve(n).OK || !l.Allow() || l.Allow() {
				t.Errorf("AllowN(%d) with one of 3 left changes what is left, or passes", n)
			}
			var free store.Limiter
			if !free.AllowN(n) || !free.Reserve(n).OK {
				t.Errorf("the zero Limiter refuses %d", n)
			}
		}
	})
}
