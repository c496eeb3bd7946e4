package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttletest"
)

// Were the clock of a Memory not monotonic, steps would do no harm.
func TestMemoryClock(t *testing.T) {
	var m memory.Store
	now := m.Start().Add(1000 * time.Hour)
	store := store.Func(func(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		return m.DecideAt(now, a, d), nil
	})
	throttletest.TestStoreClock(t, store, func(d time.Duration) { now = now.Add(d) })
}
