package throttle_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// job makes calls at once, and returns how long all of them take.
func job(t *testing.T, calls int, call func() error) time.Duration {
	t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// service makes calls at random times, rate a second, for so long. It returns how long each took,
// sorted.
func service(t *testing.T, rate float64, long time.Duration, call func(random *rand.Rand) error) (took []time.Duration) {
	t.Helper()
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		began  = time.Now()
		random = rand.New(rand.NewPCG(1, 1))
	)
	for time.Since(began) < long {
		time.Sleep(time.Duration(random.ExpFloat64() / rate * 1e9))
		own := rand.New(rand.NewPCG(random.Uint64(), 1))
		all.Go(func() {
			came := time.Now()
			if err := call(own); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(came))
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}
