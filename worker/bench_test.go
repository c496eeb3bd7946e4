package worker_test

import (
	"context"
	"testing"

	"github.com/throttle-go/throttle/worker"
)

// BenchmarkWorker is one record: added, tried, done.
func BenchmarkWorker(b *testing.B) {
	w := worker.Worker[int]{Throttle: free(), MaxInFlight: 64, Handle: func(context.Context, int) error { return nil }}
	a := w.Assign(b.Context(), "all", 0)
	records := make([]int, 500)
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(records) {
		if err := a.Put(b.Context(), records...); err != nil {
			b.Fatal(err)
		}
	}
	if err := a.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
}
