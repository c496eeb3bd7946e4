package throttletest

import (
	"sync"
	"testing"

	"github.com/throttle-go/throttle/limit"
)

const (
	workers = 8
	each    = 10 // questions
)

// atOnce runs f in all workers at once, and waits for them.
func atOnce(f func(worker int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for w := range workers {
		all.Go(func() {
			<-begin
			f(w)
		})
	}
	close(begin)
	all.Wait()
}

// concurrent lets all workers ask for more than there is, under every Kind.
func (s suite) concurrent(t *testing.T) {
	for _, kind := range allKinds {
		const most = 30
		ask := limit.Ask{
			Key:   s.key("concurrent " + kind.String()),
			Limit: limit.Limit{Kind: kind, Count: most, Period: 365 * day},
			N:     1,
		}
		var mu sync.Mutex
		admitted := map[int64]int64{} // by window: one may end during the test
		atOnce(func(int) {
			for range each {
				d, ok, err := s.ask(t, ask)
				if err != nil {
					t.Errorf("Take(%s): error %v", told([]limit.Ask{ask}), err)
					return
				}
				if ok {
					mu.Lock()
					admitted[windowOf(kind, d[0])] += d[0].N
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

// windowOf tells windows with edges of their own apart.
func windowOf(kind limit.Kind, d limit.Decision) int64 {
	switch kind {
	case limit.FixedWindow:
		return d.At.UnixMicro() / (365 * day).Microseconds()
	case limit.CalendarWindow:
		return int64(d.At.UTC().Year())
	}
	return 0
}

// concurrentPairs lets all workers ask for two keys at once, half of them in
// the other order, which must neither split a pair nor lock up.
func (s suite) concurrentPairs(t *testing.T) {
	few := limit.Ask{Key: s.together("pairs few"), Limit: limit.Limit{Count: 30, Period: 365 * day}, N: 1}
	many := limit.Ask{Key: s.together("pairs many"), Limit: limit.Limit{Count: 100, Period: 365 * day}, N: 1}
	var mu sync.Mutex
	admitted := int64(0)
	atOnce(func(w int) {
		a := []limit.Ask{few, many}
		if w%2 == 1 {
			a[0], a[1] = a[1], a[0]
		}
		for range 2 * each {
			_, ok, err := s.ask(t, a...)
			if err != nil {
				t.Errorf("Take(%s): error %v", told(a), err)
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
