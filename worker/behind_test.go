package worker_test

import (
	"context"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// TestSoakBehind consumes what 50 partitions are behind, of which one is stuck, by
// a loop that never waits for the Worker: memory, goroutines and tries in flight
// stay bounded, whatever is left. 10^7 records with THROTTLE_SOAK=1.
func TestSoakBehind(t *testing.T) {
	behind, window := int64(30_000), 200
	if os.Getenv("THROTTLE_SOAK") != "" {
		behind, window = 10_000_000, 1000
	}
	const partitions, inFlight = 50, 64
	th := &throttle.Throttle{Control: new(pace.Fixed), MaxInFlight: inFlight}
	before := used()
	goroutines := runtime.NumGoroutine()
	var tried, now, peak atomic.Int64
	rooms := make(chan int, partitions)
	names := map[*worker.Assignment[[2]int64]]int{}
	w := worker.Worker[[2]int64]{
		Throttle: th, Window: window,
		Offset: func(r [2]int64) int64 { return r[1] },
		Handle: func(ctx context.Context, r [2]int64) error {
			defer now.Add(-1)
			peak.Store(max(peak.Load(), now.Add(1)))
			if tried.Add(1); r == [2]int64{7, 100} {
				<-ctx.Done() // stuck
			} else if r[1]%16 == 0 {
				time.Sleep(10 * time.Microsecond)
			}
			return ctx.Err()
		},
		Room: func(a *worker.Assignment[[2]int64]) { rooms <- names[a] },
	}
	all := make([]*backlog, partitions)
	for p := range all {
		all[p] = &backlog{w.Assign(t.Context(), "", 0), int64(p), 0, behind / partitions}
		names[all[p].Assignment] = p
	}
	for _, b := range all {
		b.add()
	}
	heap, threads := int64(0), 0
	end, look := time.After(10*time.Minute), time.NewTicker(100*time.Millisecond)
	defer look.Stop()
	for left := true; left; {
		select {
		case p := <-rooms:
			all[p].add()
		case <-end:
			t.Fatalf("not done: %+v", w.Stats())
		case <-look.C:
			heap, threads = max(heap, used()-before), max(threads, runtime.NumGoroutine()-goroutines)
		}
		left = false
		for p, a := range all {
			next, _ := a.Frontier()
			left = left || p != 7 && next < behind/partitions
		}
	}
	if s := w.Stats().Assignments[7]; s.Frontier != 100 || s.Gap > window || s.Gap < window*7/8 {
		t.Errorf("the partition that is stuck: %+v, want the frontier 100 and a gap of about %d", s, window)
	}
	t.Logf("%d tries, at most %d in flight, %d goroutines, %d kB", tried.Load(), peak.Load(), threads, heap>>10)
	if limit := int64(partitions*window*400 + 1<<20); heap > limit { // an item is some 250 bytes
		t.Errorf("%d bytes of heap for %d records, want at most %d", heap, behind, limit)
	}
	if n := inFlight + 1 + 16 + partitions + 3; threads > n || peak.Load() > inFlight {
		t.Errorf("%d goroutines and %d in flight, want at most %d and %d", threads, peak.Load(), n, inFlight)
	}
	for _, a := range slices.Backward(all) {
		a.Lost()
	}
	emptied(t, th, goroutines)
}

// emptied waits until nothing is in flight, and no more goroutines are left than
// there were.
func emptied(t *testing.T, th *throttle.Throttle, goroutines int) {
	for i := 0; th.InFlight()+th.Waiting() > 0 || runtime.NumGoroutine() > goroutines+2; i++ {
		if runtime.Gosched(); i > 1_000_000 {
			t.Fatalf("%d in flight, %d goroutines left", th.InFlight(), runtime.NumGoroutine()-goroutines)
		}
	}
}

// backlog is what one partition is behind.
type backlog struct {
	*worker.Assignment[[2]int64]
	name, position, end int64
}

// add adds what there is room for.
func (b *backlog) add() {
	for b.position < b.end {
		n := min(500, b.end-b.position)
		batch := make([][2]int64, n)
		for i := range batch {
			batch[i] = [2]int64{b.name, b.position + int64(i)}
		}
		k := int64(b.Add(batch...))
		if b.position += k; k < n {
			return
		}
	}
}

// used returns the bytes of the heap in use.
func used() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
