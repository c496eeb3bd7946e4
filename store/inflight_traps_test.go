package store

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
)

// golang/go#80183: a negative weight makes room that there is not.
func TestTrapNegativeWeights(t *testing.T) {
	var f InFlight
	f.Acquire(Count{"a", 3, 3})
	for _, n := range []int64{-1, -3, math.MinInt64} {
		if _, refused, ok := f.Acquire(Count{"a", 3, n}); ok || refused != 0 {
			t.Errorf("Acquire of %d = %d, %v, want a refusal", n, refused, ok)
		}
	}
	under(t, &f, "a", 3, 3)
}

// alibaba/sentinel-golang#599: to look and to count are two steps, and four are
// in flight where three may be.
func TestTrapFourWhereThree(t *testing.T) {
	var f InFlight
	for range 200 {
		var all sync.WaitGroup
		var acquired atomic.Int64
		start := make(chan struct{})
		for range 8 {
			all.Go(func() {
				<-start
				if _, _, ok := f.Acquire(Count{"a", 3, 1}); ok {
					acquired.Add(1)
				}
			})
		}
		close(start)
		all.Wait()
		if n := acquired.Load(); n != 3 {
			t.Fatalf("%d under way where 3 may be", n)
		}
		f = InFlight{}
	}
}

// resilience4j#2489: after the limit was lowered, to release breaks.
func TestTrapReleaseAfterLowering(t *testing.T) {
	var f InFlight
	var held []Hold
	for range 10 {
		h, _, _ := f.Acquire(Count{"a", 10, 1})
		held = append(held, h)
	}
	for i, h := range held {
		if _, _, ok := f.Acquire(Count{"a", 2, 1}); ok != (10-i < 2) {
			t.Errorf("%d under way where 2 may be: acquired %v", 10-i, ok)
		}
		h.Release()
	}
}
