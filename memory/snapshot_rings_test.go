package memory_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

var (
	logOfFive   = limit.Limit{Kind: limit.SlidingLog, Count: 5, Period: time.Hour}
	slotsOfFive = limit.Limit{Kind: limit.SlidingSlots, Count: 5, Period: time.Hour, Slots: 4}
)

// TestMemorySnapshotOfRings: a restart frees no log and no slots, whatever
// the key; they are found under other kinds as well, and what has left its
// Period meanwhile is free.
func TestMemorySnapshotOfRings(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		long := strings.Repeat("long", 1000)
		keys := []string{"", "k", "\x00\n", long, long + "er"}
		for _, l := range []limit.Limit{logOfFive, slotsOfFive} {
			for _, key := range keys {
				m.Decide(limit.Ask{Key: l.String() + key, Limit: l, N: 3})
			}
		}
		time.Sleep(30 * time.Minute)
		for _, l := range []limit.Limit{logOfFive, slotsOfFive} {
			for _, key := range keys {
				m.Decide(limit.Ask{Key: l.String() + key, Limit: l, N: 2})
			}
		}
		snapshot := m.Snapshot()
		time.Sleep(time.Minute)
		for _, as := range []limit.Limit{{}, perMinute, logOfFive, slotsOfFive} {
			var after memory.Store
			if err := after.Restore(snapshot); err != nil {
				t.Fatal(err)
			}
			if n := after.Len(); n != 10 {
				t.Errorf("Len() = %d after Restore, want 10", n)
			}
			for _, l := range []limit.Limit{logOfFive, slotsOfFive} {
				for _, key := range keys {
					a := limit.Ask{Key: l.String() + key, Limit: l, N: 1}
					if as != (limit.Limit{}) {
						a.Limit = as
					}
					got, want := after.Decide(a), m.Decide(limit.Ask{Key: a.Key, Limit: l})
					if got.OK != (as == perMinute) || as == (limit.Limit{}) && got.ResetAfter != want.ResetAfter {
						t.Errorf("after Restore Decide(%.20q, %v) = %+v, before %+v", a.Key, a.Limit, got, want)
					}
				}
			}
		}
		time.Sleep(31 * time.Minute)
		var late memory.Store
		if err := late.Restore(snapshot); err != nil {
			t.Fatal(err)
		}
		d := late.Decide(limit.Ask{Key: logOfFive.String() + "k", Limit: logOfFive})
		if d.Remaining != 3 {
			t.Errorf("an hour after 3 of 5 were taken %d remain, want 3", d.Remaining)
		}
		time.Sleep(2 * time.Hour)
		var later memory.Store
		if err := later.Restore(snapshot); err != nil || later.Len() != 0 {
			t.Errorf("hours later Restore = %v, Len() = %d, want nil and 0", err, later.Len())
		}
		if n := len(m.Snapshot()); n > 200 {
			t.Errorf("the Snapshot of nothing has %d bytes", n)
		}
	})
}

// TestMemorySnapshotOfBefore: snapshots of version 1, which had no logs, and of
// version 2, made by the code before logs were reduced, are still read. They were
// made in the first moment of a bubble's time.
func TestMemorySnapshotOfBefore(t *testing.T) {
	for file, keys := range map[string]int{"memory-1": 15, "memory-2": 2 * keepSomething} {
		bubble.Test(t, func(t *testing.T) {
			old, err := os.ReadFile("testdata/" + file + ".snapshot")
			if err != nil {
				t.Fatal(err)
			}
			var m, fresh memory.Store
			if err := m.Restore(old); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, a := range fill(t, &fresh, keys) {
				got, want := m.Decide(a), fresh.Decide(a)
				if got.Remaining != want.Remaining || got.ResetAfter != want.ResetAfter {
					t.Errorf("%s: after Restore Decide(%+v) = %+v, want %+v", file, a, got, want)
				}
			}
			if got, want := m.Len(), fresh.Len(); got != want || want < 10 {
				t.Errorf("%s: Len() = %d, want %d", file, got, want)
			}
		})
	}
}

// TestMemorySnapshotContradicts: what no Memory has written is refused whole,
// though its sum be right.
func TestMemorySnapshotContradicts(t *testing.T) {
	var m memory.Store
	m.Decide(limit.Ask{Key: "bucket", Limit: perMinute, N: 5})
	m.Decide(limit.Ask{Key: "key of log", Limit: logOfFive, N: 4})
	good := m.Snapshot()
	body := good[len("throttle.Memory 3\n") : len(good)-32]
	at := bytes.Index(body, []byte("\x0bkey of log")) // to the zero at the end
	entry := body[at : len(body)-1]
	tooLong := strings.Repeat("x", 257)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	replaced := func(old, new string) []byte {
		if !bytes.Contains(body, []byte(old)) {
			t.Fatalf("the snapshot has no %q", old)
		}
		return bytes.Replace(body, []byte(old), []byte(new), 1)
	}
	for what, b := range map[string][]byte{
		"twice the same key":           join(body[:at], entry, entry, []byte{0}),
		"another key than its hash":    replaced("key of log", "key of lot"),
		"a limit that keeps states":    replaced("5/h sliding-log", "5/h burst 40000"),
		"no limit":                     replaced("5/h sliding-log", "5/h sliding-lag"),
		"a limit of nothing":           replaced("5/h sliding-log", "0/h sliding-log"),
		"no end":                       body[:len(body)-1],
		"something behind its end":     join(body, []byte{0}),
		"a key that is too long":       join(body[:at], binary.AppendUvarint(nil, 258), []byte(tooLong), binary.LittleEndian.AppendUint64(nil, m.Hash(tooLong)), entry[19:], []byte{0}),
		"a key longer than all of it":  join(body[:at], binary.AppendUvarint(nil, 1<<62), entry[1:], []byte{0}),
		"a log that counts for nobody": join(body[:at], entry[:len(entry)-1], []byte{0, 0}),
	} {
		var after memory.Store
		if err := after.Restore(memory.Sealed(b)); err == nil || !strings.HasPrefix(err.Error(), "memory: ") {
			t.Errorf("Restore of %s: error %v, want one", what, err)
		}
		if n := after.Len(); n != 0 {
			t.Errorf("after %s was refused, Len() = %d, want 0", what, n)
		}
	}
	var after memory.Store
	if err := after.Restore(memory.SealedOld(body)); err == nil {
		t.Error("Restore of a snapshot of version 1 with logs: no error")
	}
	if err := after.Restore(memory.SealedOld(body[:at])); err != nil || after.Len() != 1 {
		t.Errorf("Restore of one without: %v, Len() = %d, want nil and 1", err, after.Len())
	}
	if err := new(memory.Store).Restore(memory.Sealed(body)); err != nil {
		t.Errorf("Restore of a sound one: %v", err)
	}
}

// TestMemoryBothAccounts: a key that has, against all rules, an account as a
// bucket and one as a log owes both, and a peek charges nothing.
func TestMemoryBothAccounts(t *testing.T) {
	var m, bucket, both memory.Store
	body := func(m *memory.Store) []byte {
		b := m.Snapshot()
		return b[len("throttle.Memory 3\n") : len(b)-32]
	}
	m.Decide(limit.Ask{Key: "k", Limit: logOfFive, N: 1})
	withLog := body(&m)
	at := bytes.Index(withLog, []byte("\x02k"))
	if err := bucket.Restore(memory.SealedOld(withLog[:at])); err != nil { // of the same secret
		t.Fatal(err)
	}
	hourly := limit.Limit{Count: 5, Period: time.Hour}
	bucket.Decide(limit.Ask{Key: "k", Limit: hourly, N: 2})
	withBucket := body(&bucket)
	joined := append(bytes.Clone(withBucket[:len(withBucket)-1]), withLog[at:]...)
	if err := both.Restore(memory.Sealed(joined)); err != nil || both.Len() != 2 {
		t.Fatalf("Restore = %v, Len() = %d, want nil and 2", err, both.Len())
	}
	for i, step := range []struct{ n, left int64 }{{0, 2}, {0, 2}, {6, 2}, {1, 1}, {0, 1}} {
		d := both.Decide(limit.Ask{Key: "k", Limit: logOfFive, N: step.n})
		if d.Remaining != step.left {
			t.Errorf("step %d: Decide(%d) = %+v, want %d left", i, step.n, d, step.left)
		}
	}
	if n := both.Len(); n != 1 {
		t.Errorf("Len() = %d, want 1", n)
	}
}

// TestMemorySnapshotOfMany: a smaller Memory takes in as many logs as it may, and
// reduces the others.
func TestMemorySnapshotOfMany(t *testing.T) {
	var m memory.Store
	for i := range 3000 {
		m.Decide(limit.Ask{Key: fmt.Sprint(i), Limit: logOfFive, N: 1})
	}
	small := memory.Store{MaxBytes: 100_000}
	if err := small.Restore(m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	n, bytes := small.Rings()
	if n < 200 || bytes > 100_000 || small.Forgotten() != int64(3000-small.Len()) || small.Len() < 2900 {
		t.Errorf("of 3000 logs %d are kept, in %d bytes, %d are known and %d forgotten; want some 300 in 100 kB", n, bytes, small.Len(), small.Forgotten())
	}
}

// TestMemorySnapshotUnderRace: a key that changes from log to bucket and back
// while snapshots are taken is in each of them once.
func TestMemorySnapshotUnderRace(t *testing.T) {
	var m memory.Store
	bucket := limit.Limit{Count: 5, Period: time.Hour}
	m.Decide(limit.Ask{Key: "k", Limit: bucket, N: 3})
	stop := make(chan struct{})
	done := make(chan struct{})
	defer func() {
		close(stop)
		<-done
	}()
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				m.Decide(limit.Ask{Key: "k", Limit: logOfFive, N: 6})
				m.Decide(limit.Ask{Key: "k", Limit: bucket, N: 6})
			}
		}
	}()
	for range size(3000) {
		var after memory.Store
		if err := after.Restore(m.Snapshot()); err != nil {
			t.Fatal(err)
		}
		d := after.Decide(limit.Ask{Key: "k", Limit: bucket})
		if n := after.Len(); n != 1 || d.Remaining != 2 {
			t.Fatalf("after Restore Len() = %d and %d remain, want 1 and 2", n, d.Remaining)
		}
	}
}
