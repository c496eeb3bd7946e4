package memory_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// TestMemoryLogAgrees: a SlidingLog in a Memory is a limit.Log.
func TestMemoryLogAgrees(t *testing.T) {
	agreeApart(t, limit.SlidingLog, func() apart { return new(limit.Log) })
}

// TestMemorySlotsAgree: SlidingSlots in a Memory are limit.Slots.
func TestMemorySlotsAgree(t *testing.T) {
	agreeApart(t, limit.SlidingSlots, func() apart { return new(limit.Slots) })
}

func agreeApart(t *testing.T, kind limit.Kind, fresh func() apart) {
	l := limit.Limit{Kind: kind, Count: 7, Period: time.Second}
	var m memory.Store
	logs := map[string]apart{}
	rng := rand.New(rand.NewPCG(1, 1))
	now := m.Start()
	for range 20_000 {
		now = now.Add(time.Duration(rng.Int64N(int64(30 * time.Millisecond))))
		a := []limit.Ask{{Key: fmt.Sprint(rng.IntN(6)), Limit: l, N: rng.Int64N(5) - 1, Min: rng.Int64N(3), Debt: rng.IntN(9) == 0}}
		log := logs[a[0].Key]
		if log == nil {
			log = fresh()
			logs[a[0].Key] = log
		}
		d := make([]limit.Decision, 1)
		m.DecideAt(now, a, d)
		if want := log.Take(now, a[0]); d[0] != want {
			t.Fatalf("Take(%+v) at %v = %+v, want %+v", a, now, d[0], want)
		}
	}
}

// TestMemoryLogAllOrNothing: a log and states are charged together or not, and
// the answers are those of limit.TakeAll.
func TestMemoryLogAllOrNothing(t *testing.T) {
	log := limit.Limit{Kind: limit.SlidingLog, Count: 3, Period: time.Hour}
	for _, other := range []int64{2, 5} {
		bucket := limit.Limit{Count: other, Period: time.Hour}
		var m memory.Store
		for i := range int64(5) {
			a := []limit.Ask{{Key: "log", Limit: log, N: 1}, {Key: "bucket", Limit: bucket, N: 1}}
			d := make([]limit.Decision, 2)
			ok, err := m.Take(t.Context(), a, d)
			if want := i < min(3, other); ok != want || err != nil {
				t.Errorf("Take %d of 3 and %d = %v, %v, want %v", i, other, ok, err, want)
			}
			used := min(i+1, 3, other)
			for k, want := range []limit.Decision{
				{OK: ok || other < 3, Max: 3, Remaining: 3 - used},
				{OK: ok || other > 3, Max: other, Remaining: other - used},
			} {
				if d[k].OK != want.OK || d[k].Max != want.Max || d[k].Remaining != want.Remaining || (d[k].RetryAfter == 0) != d[k].OK {
					t.Errorf("Take %d of 3 and %d: answer %d is %+v, want %+v", i, other, k, d[k], want)
				}
			}
		}
	}
}

// TestMemoryLogsAreBounded: in keys and in bytes. Those that have used the smallest
// share of their limit are reduced first, and no refusal is forgotten.
func TestMemoryLogsAreBounded(t *testing.T) {
	short := limit.Limit{Kind: limit.SlidingLog, Count: 100, Period: time.Minute}
	long := limit.Limit{Kind: limit.SlidingLog, Count: 100, Period: time.Hour}
	m := memory.Store{MaxBytes: 100_000}
	now := m.Start()
	ask := func(key string, l limit.Limit, n int64) limit.Decision {
		d := make([]limit.Decision, 1)
		m.DecideAt(now, []limit.Ask{{Key: key, Limit: l, N: n}}, d)
		return d[0]
	}
	for i := range 20 {
		ask(fmt.Sprint("debtor ", i), long, 100)
	}
	for i := range 10_000 {
		ask(fmt.Sprint("flood ", i), short, 1)
		now = now.Add(time.Microsecond)
	}
	n := m.Len()
	if rings, bytes := m.Rings(); rings < 200 || rings > 400 || bytes > 100_000 {
		t.Errorf("%d logs in %d bytes, want some 300 in 100 kB", rings, bytes)
	}
	if size := m.Size(); size > 100_000 || n < 3000 || m.Forgotten() != int64(10_020-n) {
		t.Errorf("Len() = %d in a table of %d bytes, Forgotten() = %d, want 3125 and more of 10020 in 100 kB, and the others counted", n, size, m.Forgotten())
	}
	kept := 0
	for i := range 20 {
		if ask(fmt.Sprint("debtor ", i), long, 0).Remaining == 0 {
			kept++
		}
	}
	if kept < 20 {
		t.Errorf("%d of 20 debtors are known after a flood, want all", kept)
	}
	now = now.Add(2 * time.Hour)
	for i := range 200 {
		ask(fmt.Sprint("later ", i), short, 1)
	}
	if n, _ := m.Rings(); n > 260 {
		t.Errorf("%d logs two hours and 200 keys later: what has expired is not dropped", n)
	}
}

// The log of one key may take more bytes than there are for all: it stays until
// another key has one, and then is refused still.
func TestMemoryOneLogIsLargerThanAll(t *testing.T) {
	full := limit.Limit{Kind: limit.SlidingLog, Count: 5000, Period: time.Hour}
	m := memory.Store{MaxBytes: 10_000}
	now := m.Start()
	ask := func(key string) (ok bool) {
		now = now.Add(time.Microsecond)
		return m.DecideAt(now, []limit.Ask{{Key: key, Limit: full, N: 1}}, make([]limit.Decision, 1))
	}
	for range full.Count {
		ask("large")
	}
	if rings, bytes := m.Rings(); rings != 1 || bytes < 16*full.Count {
		t.Errorf("%d logs in %d bytes, want one of all %d instants", rings, bytes, full.Count)
	}
	ask("small")
	if rings, bytes := m.Rings(); rings != 1 || bytes > m.MaxBytes {
		t.Errorf("%d logs in %d bytes, want that of the other key alone, in %d", rings, bytes, m.MaxBytes)
	}
	if ask("large") {
		t.Error("the key whose log was full passes, want it refused as before")
	}
}
