package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// charged is a memory.Store that counts what it grants of each key. It panics once if told.
type charged struct {
	memory.Store
	granted map[string]int64
	panics  bool
}

func (c *charged) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	if c.panics {
		c.panics = false
		panic("boo")
	}
	ok, err := c.Store.Take(ctx, a, d)
	if ok {
		for i := range a {
			c.granted[a[i].Key] += d[i].N
		}
	}
	return ok, err
}

// Whatever is asked for, no more of a key is admitted than the Store charged.
func TestLeasesAdmitWhatWasCharged(t *testing.T) {
	for seed := range uint64(6) {
		bubble.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s := &charged{granted: map[string]int64{}}
			l := &store.Leases{Store: s, MaxKeys: 1 + r.IntN(100)}
			used := map[string]int64{}
			for range 3000 {
				a := []limit.Ask{{Key: fmt.Sprint(r.IntN(3)), Limit: tenThousand, N: 1 + r.Int64N(9)}}
				if r.IntN(8) == 0 {
					a = append(a, limit.Ask{Key: "with", Limit: tenThousand, N: 1 + r.Int64N(30)})
				}
				d := make([]limit.Decision, len(a))
				ok, err := l.Take(t.Context(), a, d)
				if err != nil {
					t.Fatal(err)
				}
				for i := range a {
					if ok {
						used[a[i].Key] += d[i].N
					}
					if used[a[i].Key] > s.granted[a[i].Key] {
						t.Fatalf("seed %d: Take(%+v) = %v, %+v: %d admitted, %d charged", seed, a, ok, d, used[a[i].Key], s.granted[a[i].Key])
					}
				}
				time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
			}
			if n := l.Stats(); n.Local < n.Calls/2 {
				t.Errorf("%+v, want hot keys", n)
			}
		})
	}
}

// A Store that panics holds up nobody, also where more was asked for than was needed.
func TestLeasesPanicHoldsNobodyUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &charged{granted: map[string]int64{}}
		l := &store.Leases{Store: s, Life: time.Minute}
		for range 100 {
			take(t, l, "k", tenThousand, 1)
		}
		time.Sleep(time.Minute)
		s.panics = true
		func() {
			defer func() { _ = recover() }()
			take(t, l, "k", tenThousand, 1)
			t.Error("the Store did not panic")
		}()
		began := time.Now()
		if d := take(t, l, "k", tenThousand, 1); !d.OK || time.Since(began) != 0 {
			t.Errorf("after a panic: %+v after %v, want it to pass at once", d, time.Since(began))
		}
	})
}

// Fields below zero mean their defaults.
func TestFieldsBelowZero(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := store.InFlight{MaxKeys: -1, MaxWaiting: -1, MaxAge: -1}
		one := store.Count{Key: "a", Max: 1}
		h, _, ok := f.Acquire(one)
		time.AfterFunc(time.Hour, h.Release)
		if _, err := f.Wait(t.Context(), one); !ok || err != nil {
			t.Errorf("an InFlight with fields below zero: Acquire %v, Wait %v", ok, err)
		}
		l := &store.Leases{Store: new(memory.Store), MaxKeys: -1, Life: -1}
		for range 100 {
			take(t, l, "a", tenThousand, 1)
			take(t, l, "b", tenThousand, 1)
		}
		if s := l.Stats(); s.Local < 100 {
			t.Errorf("a Leases with fields below zero: %+v, want hot keys", s)
		}
	})
}
