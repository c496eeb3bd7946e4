package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// Many goroutines that ask for one key at a time use each token that was granted
// once, and nearly all of them, and each call is counted: while the lease is
// collected and lent again, the limit changes, the key is forgotten, and others
// ask for several keys.
func TestLeasesShared(t *testing.T) {
	var granted, used, calls atomic.Int64
	s := store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		for i := range a {
			if a[i].Key == "k" {
				granted.Add(a[i].N)
			}
			d[i] = limit.Decision{OK: true, N: a[i].N, Max: 1 << 40}
		}
		return true, nil
	})
	l := &store.Leases{Store: s, Life: time.Hour, MaxKeys: 64}
	plenty := limit.Limit{Count: 1 << 30, Period: time.Hour}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range 20_000 {
				a := []limit.Ask{{Key: "k", Limit: plenty, N: 1 + random.Int64N(3)}, {Key: fmt.Sprint(i % 500), Limit: plenty, N: 1}}
				d := make([]limit.Decision, 2)
				some := 1
				if i%50 == 0 {
					some = 2
				}
				calls.Add(1)
				if ok, err := l.Take(t.Context(), a[:some], d[:some]); !ok || err != nil || d[0].N != a[0].N || d[0].Remaining < 0 {
					t.Errorf("Take(%+v) = %v, %v, %+v", a[:some], ok, err, d[:some])
				}
				used.Add(a[0].N)
			}
		})
	}
	all.Wait()
	if u, n := used.Load(), granted.Load(); u > n {
		t.Errorf("%d were used, %d granted", u, n)
	}
	if c := l.Stats(); c.Calls+c.Local != calls.Load() || c.Calls > calls.Load()/2 {
		t.Errorf("Stats() = %+v after %d calls", c, calls.Load())
	}
}

// A limit is kept to the last token by many who ask at a time, and by all that
// are refused.
func TestLeasesSharedToTheEnd(t *testing.T) {
	var m memory.Store
	l := &store.Leases{Store: &m, Life: time.Hour}
	few := limit.Limit{Kind: limit.FixedWindow, Count: 50_000, Period: 10_000 * time.Hour}
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20_000 {
				if d, err := store.Take(t.Context(), l, "k", few, 1); err != nil || !d.OK && d.RetryAfter <= 0 {
					t.Errorf("Take = %+v, %v", d, err)
				} else if d.OK {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	for d := (limit.Decision{OK: true}); d.OK; { // what those that were refused meanwhile have left
		if d, _ = store.Take(t.Context(), l, "k", few, 1); d.OK {
			passed.Add(1)
		}
	}
	if n := passed.Load(); n > 50_000 || n < 47_500 {
		t.Errorf("%d passed, want at most 50,000, and 47,500: some is lost when a goroutine is stopped as it takes its part", n)
	}
}

// BenchmarkLeasesCores compares two goroutines that ask for one key with one that
// does, and with two that ask for a key each: the best of many short runs, as others
// may use the machine.
func BenchmarkLeasesCores(b *testing.B) {
	l := &store.Leases{Store: new(memory.Store), Life: time.Hour}
	endless := limit.Limit{Count: 1 << 50, Period: time.Second}
	run := func(keys ...string) (rate float64) {
		const each = 20_000
		for range 60 {
			var all sync.WaitGroup
			began := time.Now()
			for _, key := range keys {
				all.Go(func() {
					for range each {
						if d, err := store.Take(b.Context(), l, key, endless, 1); !d.OK || err != nil {
							b.Error(d, err)
						}
					}
				})
			}
			all.Wait()
			rate = max(rate, float64(each*len(keys))/time.Since(began).Seconds())
		}
		return rate
	}
	for b.Loop() {
		one, same, two := run("k"), run("k", "k"), run("k", "other")
		b.ReportMetric(one/1e6, "M/s,1")
		b.ReportMetric(same/one, "×,2,same")
		b.ReportMetric(two/one, "×,2,other")
	}
}
