package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// crowdOut fills so many other logs, with so much, that all before are reduced.
func crowdOut(m *memory.Store, now time.Time, batch int) {
	l, d := limit.Limit{Kind: limit.SlidingLog, Count: 1000, Period: time.Hour}, make([]limit.Decision, 1)
	for i := range 400 {
		m.DecideAt(now, []limit.Ask{{Key: fmt.Sprint("crowd ", batch, " ", i), Limit: l, N: 1000}}, d)
	}
}

// TestReducedRefusal: a log or slots that had to go leaves its refusal behind, and
// the key is a new one when it was told that it may pass.
func TestReducedRefusal(t *testing.T) {
	for _, l := range []limit.Limit{logOfFive, slotsOfFive} {
		m := memory.Store{MaxBytes: 60_000}
		now, d := m.Start().Truncate(time.Hour).Add(time.Hour), make([]limit.Decision, 1)
		take := func(at time.Duration, n int64) limit.Decision {
			m.DecideAt(now.Add(at), []limit.Ask{{Key: "k", Limit: l, N: n}}, d)
			return d[0]
		}
		take(0, 3)
		take(20*time.Minute, 2)
		told := take(20*time.Minute, 1).RetryAfter
		crowdOut(&m, now.Add(20*time.Minute), 0)
		crowdOut(&m, now.Add(20*time.Minute), 1)
		if again := take(21*time.Minute, 1); again.OK || again.RetryAfter != told-time.Minute || again.Max != 5 {
			t.Errorf("%v: told to wait %v, and a minute later, reduced, %+v", l.Kind, told, again)
		}
		after := memory.Store{MaxBytes: 60_000}
		if err := after.Restore(m.Snapshot()); err != nil {
			t.Fatal(err)
		}
		after.DecideAt(now.Add(21*time.Minute), []limit.Ask{{Key: "k", Limit: l, N: 1}}, d)
		if d[0].OK || d[0].RetryAfter != told-time.Minute {
			t.Errorf("%v: and after a restart %+v", l.Kind, d[0])
		}
		if n := m.Forgotten(); n != 0 {
			t.Errorf("%v: Forgotten() = %d, want 0: all are in the table", l.Kind, n)
		}
		until := 20*time.Minute + told
		if d := take(until-time.Microsecond, 1); d.OK || d.RetryAfter != time.Microsecond {
			t.Errorf("%v: a microsecond before its time %+v, want refused", l.Kind, d)
		}
		if d := take(until, 5); !d.OK || d.Remaining != 0 {
			t.Errorf("%v: at its time Take(5) = %+v, want OK", l.Kind, d)
		}
		if d := take(until+59*time.Minute, 1); d.OK {
			t.Errorf("%v: 59 minutes later %+v, want refused: it is what it was", l.Kind, d)
		}
	}
}

// TestReducedInUse: what is reduced is charged, given back to, peeked at and
// carried over to other limits as ever, and grants nothing that the log had not.
func TestReducedInUse(t *testing.T) {
	m := memory.Store{MaxBytes: 60_000}
	now, d := m.Start(), make([]limit.Decision, 2)
	other := logOfFive
	other.Count = 12
	bucket := limit.Limit{Count: 8, Period: time.Hour}
	m.DecideAt(now, []limit.Ask{{Key: "k", Limit: logOfFive, N: 3}}, d[:1])
	crowdOut(&m, now, 0)
	crowdOut(&m, now, 1)
	for i, step := range []struct {
		limit.Limit
		n    int64
		ok   bool
		left int64
	}{
		{logOfFive, 0, true, 2},
		{logOfFive, 3, false, 2},
		{logOfFive, 1, true, 1},
		{logOfFive, -2, true, 3},
		{logOfFive, 3, true, 0},
		{logOfFive, 1, false, 0},
		{other, 0, true, 7}, // peeks change nothing
		{bucket, 0, true, 3},
		{logOfFive, 0, true, 0},
		{logOfFive, -1, true, 1},
		{bucket, 2, true, 2},
		{logOfFive, 1, false, 0},
		{other, 1, true, 5},
	} {
		m.DecideAt(now, []limit.Ask{{Key: "k", Limit: step.Limit, N: step.n}, {Key: "beside", Limit: bucket}}, d)
		if d[0].OK != step.ok || d[0].Remaining != step.left {
			t.Errorf("step %d: Take(%v, %d) = %+v, want %v, %d left", i, step.Limit, step.n, d[0], step.ok, step.left)
		}
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}

// TestRestoreIntoLess: a smaller Store keeps those who are over their limits, of
// every kind, and forgets those who have used least.
func TestRestoreIntoLess(t *testing.T) {
	memory.OneGoroutine(t)
	mixed := func(i int) limit.Limit { return floodKinds[i%len(floodKinds)] }
	sizes := []int{1, 100, 1000, 10_000}
	if raced {
		sizes = []int{1, 1000}
	}
	for _, share := range []int64{0, 50} {
		for _, maxKeys := range sizes {
			bubble.Test(t, func(t *testing.T) {
				f := newFlooded(100_000, mixed, madeUp{[]limit.Limit{floodKinds[0], floodKinds[2], perDay(floodKinds[3], 60)}, share})
				time.Sleep(10 * time.Second)
				f.now = time.Now()
				f.send(15_000)
				f.useUp(0)
				f.send(15_000)
				before := f.Len()
				small := *f
				small.Store = &memory.Store{MaxKeys: maxKeys}
				if err := small.Restore(f.Snapshot()); err != nil {
					t.Fatalf("MaxKeys %d: Restore: %v", maxKeys, err)
				}
				if n := small.Len(); small.Forgotten() != int64(before-n) || n > before/2 {
					t.Errorf("MaxKeys %d: %d of %d keys are known, Forgotten() = %d", maxKeys, n, before, small.Forgotten())
				}
				if n := small.Size(); n > max(int64(maxKeys)*32, 16<<10) {
					t.Errorf("MaxKeys %d: the table has %d bytes", maxKeys, n)
				}
				if err := small.Check(); err != nil {
					t.Errorf("MaxKeys %d: %v", maxKeys, err)
				}
				if n := small.offendAll(); n < offenders-5 {
					t.Errorf("MaxKeys %d, %d%%: %d of %d offenders are refused", maxKeys, share, n, offenders)
				}
				small.send(5000)
				if before, then := small.inTheEnd(); before < offenders-5 || then > 1 {
					t.Errorf("MaxKeys %d, %d%%: %d of %d offenders are refused until their time, and %d then", maxKeys, share, before, offenders, then)
				}
			})
		}
	}
}
