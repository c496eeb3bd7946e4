package memory_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// Asks about many keys at once allocate nothing either.
func TestTakeManyAllocatesNothing(t *testing.T) {
	if raced {
		t.Skip("RACE DETECTOR: a sync.Pool drops what it keeps, so allocations are NOT counted; make test RACE= runs it")
	}
	var m memory.Store
	a, d := make([]limit.Ask, 12), make([]limit.Decision, 12)
	for i := range a {
		a[i] = limit.Ask{Key: strconv.Itoa(i), Limit: limit.Limit{Count: int64(i + 1), Period: time.Minute}, N: 1}
	}
	if got := testing.AllocsPerRun(400, func() { _, _ = m.Take(t.Context(), a, d) }); got >= 1 {
		t.Errorf("%v allocations, want none", got)
	}
}

// BenchmarkTakeMany asks about ten keys at once, as ten rules do.
func BenchmarkTakeMany(b *testing.B) {
	var m memory.Store
	a, d := make([]limit.Ask, 10), make([]limit.Decision, 10)
	for i := range a {
		a[i] = limit.Ask{Key: strconv.Itoa(i), Limit: limit.Limit{Count: 1_000_000_000, Period: time.Second}, N: 1}
	}
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := m.Take(b.Context(), a, d); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
