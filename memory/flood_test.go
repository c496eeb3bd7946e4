package memory_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// TestSoakFloodLatency: while another processor floods a full table with keys
// that come once, decisions about other keys take hardly longer.
func TestSoakFloodLatency(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: it measures times; make soak runs it")
	}
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("LOUD: one processor cannot do two things at once")
	}
	m := memory.Store{MaxKeys: 100_000}
	l := limit.Limit{Count: 1, Period: time.Minute, Burst: 1_000_000}
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("customer-%04d", i)
	}
	p99 := func() time.Duration {
		took := make([]time.Duration, 400_000)
		for i := range took {
			began := time.Now()
			m.Allow(keys[i%len(keys)], l, 1)
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	p99()
	var quiet, flooded []time.Duration
	for range 9 { // in turns, so that both meet the same machine
		quiet = append(quiet, p99())
		var stop atomic.Bool
		var flood sync.WaitGroup
		flood.Go(func() {
			for i := 0; !stop.Load(); i++ {
				m.Allow(fmt.Sprintf("made-up-%d-%d", len(quiet), i), limit.Limit{Count: 10, Period: time.Hour}, 1)
			}
		})
		flooded = append(flooded, p99())
		stop.Store(true)
		flood.Wait()
	}
	slices.Sort(quiet)
	slices.Sort(flooded)
	t.Logf("p99 %v, in the flood %v (medians of 9); %d keys, %d forgotten", quiet[4], flooded[4], m.Len(), m.Forgotten())
	if flooded[4] > 2*quiet[4] {
		t.Errorf("p99 in the flood is %v, want at most twice %v", flooded[4], quiet[4])
	}
}
