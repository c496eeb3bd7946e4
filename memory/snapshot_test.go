package memory_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// fill takes something of n keys under all kinds of limits.
func fill(t *testing.T, m *memory.Store, n int) (asks []limit.Ask) {
	t.Helper()
	for i := range n {
		a := limit.Ask{Key: fmt.Sprint("customer ", i), Limit: memoryLimits[i%keepSomething], N: int64(1 + i%3)}
		m.Decide(a)
		a.N = 0
		asks = append(asks, a)
	}
	return asks
}

// TestMemorySnapshot: after a restart each key is as it was, be the table as
// large or not.
func TestMemorySnapshot(t *testing.T) {
	memory.OneGoroutine(t)
	bubble.Test(t, func(t *testing.T) {
		m := memory.Store{MaxKeys: 100_000}
		asks := fill(t, &m, 2000)
		snapshot := m.Snapshot()
		time.Sleep(500 * time.Millisecond)
		for _, after := range []*memory.Store{{MaxKeys: 100_000}, {MaxKeys: 20_000}, {}, {MaxKeys: 1_000_000}} {
			if err := after.Restore(snapshot); err != nil {
				t.Fatalf("Restore into Keys %d: %v", after.MaxKeys, err)
			}
			for _, a := range asks {
				got, want := after.Decide(a), m.Decide(a)
				if got.Remaining != want.Remaining || got.ResetAfter != want.ResetAfter {
					t.Fatalf("Keys %d: after Restore Decide(%+v) = %+v, before %+v", after.MaxKeys, a, got, want)
				}
			}
			if got, want := after.Len(), m.Len(); got != want || after.Forgotten() != 0 {
				t.Errorf("after Restore Len() = %d, Forgotten() = %d, want %d, 0", got, after.Forgotten(), want)
			}
			fill(t, after, 20_000) // it grows as ever
		}
		small := memory.Store{MaxKeys: 1000}
		if err := small.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		if n := small.Len(); n > 2000 || n < 800 || small.Forgotten() != int64(m.Len()-n) {
			t.Errorf("of %d keys, a Memory of 1000 has %d and has forgotten %d", m.Len(), n, small.Forgotten())
		}
		time.Sleep(150 * 365 * 24 * time.Hour)
		var late memory.Store
		if err := late.Restore(snapshot); err != nil || late.Len() != 0 {
			t.Errorf("150 years later Restore = %v, Len() = %d, want nil and 0", err, late.Len())
		}
	})
}

// TestMemorySnapshotIsWhole: any that was cut or changed is refused, and the
// Memory begins empty.
func TestMemorySnapshotIsWhole(t *testing.T) {
	var m memory.Store
	fill(t, &m, 20)
	good := m.Snapshot()
	refused := func(what string, b []byte) {
		t.Helper()
		var after memory.Store
		err := after.Restore(b)
		if err == nil || !strings.HasPrefix(err.Error(), "memory: ") || strings.Contains(err.Error(), "\n") {
			t.Fatalf("Restore of a snapshot %s: error %v, want one line", what, err)
		}
		if n := after.Len(); n != 0 {
			t.Fatalf("after a snapshot %s was refused, Len() = %d, want 0", what, n)
		}
	}
	for i := range good {
		refused(fmt.Sprint("cut at ", i), good[:i])
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		refused(fmt.Sprint("changed at ", i), bad)
	}
	refused("that is too long", append(bytes.Clone(good), 0))
	if err := m.Restore(good); err == nil {
		t.Error("Restore of a Memory in use: no error")
	}
}

func FuzzMemoryRestore(f *testing.F) {
	var m memory.Store
	for i := range 20 {
		m.Decide(limit.Ask{Key: fmt.Sprint(i), Limit: memoryLimits[i%keepSomething], N: 1})
	}
	good := m.Snapshot()
	f.Add(good[18 : len(good)-32])
	f.Fuzz(func(t *testing.T, b []byte) {
		after := memory.Store{MaxKeys: 10_000}
		if err := after.Restore(memory.Sealed(b)); err != nil && after.Len() != 0 {
			t.Errorf("Restore: %v, and Len() = %d", err, after.Len())
		}
		after.Allow("k", perMinute, 1)
		if err := after.Check(); err != nil {
			t.Error(err)
		}
	})
}

// TestMemorySnapshotOfLongKeys: long keys are found again after a Restore, also those
// that were hashed in the way of version 2, and after the next one.
func TestMemorySnapshotOfLongKeys(t *testing.T) {
	for version, serial := range map[string]bool{"2": true, "3": false} {
		bubble.Test(t, func(t *testing.T) {
			var m memory.Store
			if serial {
				m.HashSerially()
			}
			var asks []limit.Ask
			for i := range 5 * keepSomething {
				key := strings.Repeat("/part of a path", i) + fmt.Sprint(i)
				a := limit.Ask{Key: key, Limit: memoryLimits[i%keepSomething], N: 1}
				m.Decide(a)
				a.N = 0
				asks = append(asks, a)
			}
			before := &m
			for range 2 {
				after, snapshot := new(memory.Store), before.Snapshot()
				if want := "throttle.Memory " + version + "\n"; !bytes.HasPrefix(snapshot, []byte(want)) {
					t.Fatalf("a snapshot begins with %q, want %q", snapshot[:len(want)], want)
				}
				if err := after.Restore(snapshot); err != nil {
					t.Fatal(err)
				}
				for _, a := range asks {
					got, want := after.Decide(a), m.Decide(a)
					if got.Remaining != want.Remaining || got.ResetAfter != want.ResetAfter {
						t.Errorf("version %s: after Restore Decide(%+v) = %+v, before %+v", version, a, got, want)
					}
				}
				before = after
			}
		})
	}
}

// TestSnapshotZoneOfTwoLines: a time zone that the program has named in two lines
// leaves the limits of other keys as they are.
func TestSnapshotZoneOfTwoLines(t *testing.T) {
	zone := time.FixedZone("two\nlines", 3600)
	asks := []limit.Ask{
		{Key: "zone", Limit: limit.Limit{Kind: limit.CalendarWindow, Count: 5, Period: 24 * time.Hour, Zone: zone}, N: 4},
		{Key: "bucket", Limit: limit.Limit{Count: 10, Period: 24 * time.Hour}, N: 4},
		{Key: "window", Limit: limit.Limit{Kind: limit.FirstHitWindow, Count: 5, Period: 24 * time.Hour}, N: 4},
	}
	var old, m memory.Store
	for _, a := range asks {
		old.Decide(a)
	}
	if err := m.Restore(old.Snapshot()); err != nil {
		t.Fatal(err)
	}
	for _, a := range asks {
		left := a.Limit.Count - a.N
		a.N = 0
		if d := m.Decide(a); d.Remaining != left {
			t.Errorf("%q after Restore: %+v, want %d remaining", a.Key, d, left)
		}
	}
}
