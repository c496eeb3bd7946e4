package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttletest"
)

var perMinute = limit.Limit{Count: 10, Period: time.Minute}

func TestMemory(t *testing.T) {
	throttletest.TestStore(t, new(throttle.Memory))
}

func TestMemoryThroughWrappers(t *testing.T) {
	// FailOpen lets bad questions pass too: tested apart.
	throttletest.TestStore(t, throttle.StoreFunc(new(throttle.Memory).Take))
}

func take(t *testing.T, s throttle.Store, key string, l limit.Limit, n int64) limit.Decision {
	t.Helper()
	d, err := throttle.Take(t.Context(), s, key, l, n)
	if err != nil {
		t.Fatalf("Take(%q, %+v, %d): error %v", key, l, n, err)
	}
	return d
}

func TestMemoryOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m throttle.Memory
		for _, step := range []struct {
			wait      time.Duration
			n         int64
			ok        bool
			remaining int64
			retry     time.Duration
		}{
			{0, 10, true, 0, 0},
			{0, 1, false, 0, 6 * time.Second},
			{5 * time.Second, 1, false, 0, time.Second},
			{time.Second, 1, true, 0, 0},
			{time.Hour, 0, true, 10, 0},
			{0, 4, true, 6, 0},
		} {
			time.Sleep(step.wait)
			d := take(t, &m, "k", perMinute, step.n)
			if d.OK != step.ok || d.Remaining != step.remaining || d.RetryAfter != step.retry || !d.At.Equal(time.Now()) {
				t.Errorf("%v later, Take(%d) = %+v, want %+v", step.wait, step.n, d, step)
			}
		}
	})
}

func TestMemoryDenialsAndPeeksWriteNothing(t *testing.T) {
	var m throttle.Memory
	for i := range 100 {
		key := fmt.Sprint(i)
		take(t, &m, key, perMinute, 0)
		take(t, &m, key, perMinute, 11)
		take(t, &m, key, perMinute, -1)
		take(t, &m, key, limit.Limit{}, 1)
	}
	if n := m.Len(); n != 0 {
		t.Errorf("after 100 peeks, refusals, refunds of nothing and unlimited keys: Len() = %d, want 0", n)
	}
}

func TestMemoryRefundForgets(t *testing.T) {
	var m throttle.Memory
	take(t, &m, "k", perMinute, 3)
	before := m.Len()
	take(t, &m, "k", perMinute, -3)
	if after := m.Len(); before != 1 || after != 0 {
		t.Errorf("Len() = %d then %d, want 1 then 0", before, after)
	}
}

func TestMemoryDropsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m throttle.Memory
		for i := range 100_000 {
			take(t, &m, fmt.Sprint(i), perMinute, 1) // expires after 6 s
			time.Sleep(6 * time.Millisecond)         // so 1000 are alive
		}
		// Where 8 looks drop one for each one added, an eighth is expired.
		if n := m.Len(); n < 1000 || n > 1400 {
			t.Errorf("Len() = %d, want about 1143, of which 1000 have not expired", n)
		}
		if n := m.Forgotten(); n != 0 {
			t.Errorf("Forgotten() = %d, want 0", n)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := throttle.Memory{Keys: 1000}
		for i := range 100 {
			take(t, &m, fmt.Sprint("debtor ", i), perMinute, 10)
		}
		for i := range 20_000 {
			take(t, &m, fmt.Sprint("flood ", i), perMinute, 1)
			if n := m.Len(); n > 1000 {
				t.Fatalf("Len() = %d, want at most 1000", n)
			}
		}
		if n := m.Forgotten(); n != 19_100 {
			t.Errorf("Forgotten() = %d, want 19100", n)
		}
		kept := 0
		for i := range 100 {
			if d := take(t, &m, fmt.Sprint("debtor ", i), perMinute, 0); d.Remaining == 0 {
				kept++
			}
		}
		// Eight debtors in one sample of eight have a chance of 1e-8.
		if kept != 100 {
			t.Errorf("after a flood of small debts %d of 100 large ones are known, want all", kept)
		}
	})
}

func TestMemoryOfOneKey(t *testing.T) {
	m := throttle.Memory{Keys: 1}
	a := []limit.Ask{{Key: "a", Limit: perMinute, N: 1}, {Key: "b", Limit: perMinute, N: 1}}
	for range 3 {
		if ok, err := m.Take(t.Context(), a, make([]limit.Decision, 2)); !ok || err != nil {
			t.Fatalf("Take(%+v) = %v, %v, want true", a, ok, err)
		}
	}
	if n := m.Len(); n != 1 {
		t.Errorf("Len() = %d, want 1", n)
	}
}

func TestMemoryManyAsks(t *testing.T) {
	var m throttle.Memory
	var a []limit.Ask
	for i := range 40 {
		a = append(a, limit.Ask{Key: fmt.Sprint(i), Limit: perMinute, N: 1})
	}
	if ok, err := m.Take(t.Context(), a, make([]limit.Decision, 40)); !ok || err != nil {
		t.Errorf("Take of 40 = %v, %v, want true", ok, err)
	}
	a[39].Key = a[3].Key
	if ok, err := m.Take(t.Context(), a, make([]limit.Decision, 40)); err == nil {
		t.Errorf("Take of 40, two of one key = %v, want an error", ok)
	}
	if n := m.Len(); n != 40 {
		t.Errorf("Len() = %d, want 40", n)
	}
}

// A long key is remembered by its digest; a key that is the digest is another.
func TestMemoryLongKeys(t *testing.T) {
	one := limit.Limit{Count: 1, Period: time.Hour}
	var m throttle.Memory
	long := strings.Repeat("x", 1_000_000)
	if d := take(t, &m, long, one, 1); !d.OK {
		t.Fatalf("first of the long key: %+v", d)
	}
	if d := take(t, &m, long, one, 1); d.OK {
		t.Errorf("second of the long key: %+v, want refused", d)
	}
	digest := throttle.Short(long)
	if len(digest) != 33 {
		t.Errorf("a long key is kept as %d bytes, want 33", len(digest))
	}
	if d := take(t, &m, digest, one, 1); !d.OK {
		t.Errorf("first of the key that equals the digest: %+v, want OK", d)
	}
}

func TestFailOpen(t *testing.T) {
	broken := throttle.StoreFunc(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
		return false, errors.New("no connection")
	})
	d, err := throttle.Take(t.Context(), broken, "k", perMinute, 1)
	if err == nil || d.OK {
		t.Errorf("Take of a broken store = %+v, %v, want an error and not OK", d, err)
	}
	d = take(t, throttle.FailOpen(broken), "k", perMinute, 3)
	if !d.OK || d.N != 0 || d.Remaining != 10 || d.Most != 10 || d.At.IsZero() {
		t.Errorf("FailOpen of a broken store = %+v, want OK, nothing charged, 10 remaining of 10", d)
	}
	d = take(t, throttle.FailOpen(broken), "k", limit.Limit{}, 3)
	if !d.OK || d.Remaining != math.MaxInt64 {
		t.Errorf("FailOpen without a limit = %+v, want OK", d)
	}
	sound := throttle.FailOpen(new(throttle.Memory))
	if d := take(t, sound, "k", perMinute, 11); d.OK {
		t.Errorf("FailOpen of a sound store = %+v, want refused", d)
	}
}

func BenchmarkMemoryTake(b *testing.B) {
	var m throttle.Memory
	l := limit.Limit{Count: 1_000_000, Period: 24 * time.Hour, Burst: 1 << 40}
	ctx := context.Background()
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 1) % len(keys)
		if _, err := throttle.Take(ctx, &m, keys[i], l, 1); err != nil {
			b.Fatal(err)
		}
	}
}
