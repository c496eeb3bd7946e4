package throttletest

import (
	"sync"
	"testing"

	"github.com/throttle-go/throttle/limit"
)

const (
	workers = 8
	each    = 25 // questions
)

// together runs f in all workers at once, and waits for them.
func together(f func(worker int)) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() { f(w) })
	}
	all.Wait()
}

// concurrent lets all workers ask for more than there is.
func (s suite) concurrent(t *testing.T) {
	for _, kind := range []limit.Kind{limit.TokenBucket, limit.FixedWindow} {
		const most = 60
		ask := limit.Ask{
			Key:   s.key("concurrent " + kind.String()),
			Limit: limit.Limit{Kind: kind, Count: most, Period: 365 * day},
			N:     1,
		}
		var mu sync.Mutex
		admitted := map[int64]int{} // by window: one may end during the test
		together(func(int) {
			for range each {
				d := make([]limit.Decision, 1)
				ok, err := s.store.Take(t.Context(), []limit.Ask{ask}, d)
				if err != nil {
					t.Errorf("Take(%+v): error %v", ask, err)
					return
				}
				if ok {
					mu.Lock()
					admitted[d[0].At.UnixMicro()/(365*day).Microseconds()]++
					mu.Unlock()
				}
			}
		})
		for _, n := range admitted {
			if n != most && (n > most || len(admitted) == 1) {
				t.Errorf("%v: %d questions admitted %d, want %d", kind, workers*each, n, most)
			}
		}
		if len(admitted) == 0 {
			t.Errorf("%v: none admitted", kind)
		}
	}
}

// concurrentPairs lets all workers ask for two keys at once, half of them in
// the other order, which must neither split a pair nor lock up.
func (s suite) concurrentPairs(t *testing.T) {
	few := limit.Ask{Key: s.key("pairs few"), Limit: limit.Limit{Count: 30, Period: 365 * day}, N: 1}
	many := limit.Ask{Key: s.key("pairs many"), Limit: limit.Limit{Count: 100, Period: 365 * day}, N: 1}
	var mu sync.Mutex
	admitted := int64(0)
	together(func(w int) {
		a := []limit.Ask{few, many}
		if w%2 == 1 {
			a[0], a[1] = a[1], a[0]
		}
		for range each {
			ok, err := s.store.Take(t.Context(), a, make([]limit.Decision, 2))
			if err != nil {
				t.Errorf("Take(%+v): error %v", a, err)
				return
			}
			if ok {
				mu.Lock()
				admitted++
				mu.Unlock()
			}
		}
	})
	few.N, many.N = 0, 0
	got := [...]int64{admitted, s.take(t, few).Remaining, s.take(t, many).Remaining}
	if want := [...]int64{30, 0, 70}; got != want {
		t.Errorf("pairs admitted, and remaining of each: %v, want %v", got, want)
	}
}
