// Under the race detector frames are larger.

//go:build !race

package throttle_test

import (
	"context"
	"runtime"
	"runtime/metrics"
	"testing"
	"testing/synctest"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
)

// What a call touches of its stack before it waits is kept while it does: a stack grows to
// twice its size, and does not shrink while a quarter of it is in use.
func TestACallThatWaitsHasASmallStack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const calls, most = 1000, 5 << 10 // 4 KiB each, besides what is kept for goroutines to come
		th := throttle.Throttle{MaxInFlight: 1}
		ctx, cancel := context.WithCancel(t.Context())
		runtime.GC() // the stacks of goroutines that have ended are given back
		before := stacks()
		for range calls {
			go th.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}
		synctest.Wait()
		if n := th.Waiting(); n != calls-1 {
			t.Fatalf("%d calls wait, want all but one of %d", n, calls)
		}
		each := (stacks() - before) / calls
		t.Logf("%d bytes each", each)
		if each > most {
			t.Errorf("each of %d calls that wait has a stack of %d bytes, want at most %d", calls, each, most)
		}
		cancel()
	})
}

// stacks is how many bytes all stacks have.
func stacks() int {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}
