package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttletest"
)

var perMinute = limit.Limit{Count: 10, Period: time.Minute}

func TestMemory(t *testing.T) {
	throttletest.TestStore(t, new(memory.Store))
}

func TestMemoryThroughWrappers(t *testing.T) {
	// FailOpen lets bad questions pass too: tested apart.
	throttletest.TestStore(t, store.Func(new(memory.Store).Take))
}

func take(t *testing.T, s store.Store, key string, l limit.Limit, n int64) limit.Decision {
	t.Helper()
	d, err := store.Take(t.Context(), s, key, l, n)
	if err != nil {
		t.Fatalf("Take(%q, %+v, %d): error %v", key, l, n, err)
	}
	return d
}

func TestMemoryOverTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
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
	var m memory.Store
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
	var m memory.Store
	take(t, &m, "k", perMinute, 3)
	before := m.Len()
	take(t, &m, "k", perMinute, -3)
	if after := m.Len(); before != 1 || after != 0 {
		t.Errorf("Len() = %d then %d, want 1 then 0", before, after)
	}
}

func TestMemoryDropsExpired(t *testing.T) {
	memory.OneGoroutine(t)
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		for i := range 100_000 {
			take(t, &m, fmt.Sprint(i), perMinute, 1) // expires after 6 s
			time.Sleep(60 * time.Millisecond)        // so 100 are alive
		}
		if n := m.Len(); n != 99 {
			t.Errorf("Len() = %d, want 99, those of the last 6 s", n)
		}
		if n := m.Forgotten(); n != 0 || m.Size() > 512<<10 {
			t.Errorf("Forgotten() = %d and the table grew to %d bytes, want 0 and at most 512 KiB", n, m.Size())
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := memory.Store{MaxKeys: 1000}
		for i := range 100 {
			take(t, &m, fmt.Sprint("debtor ", i), perMinute, 10)
		}
		for i := range 20_000 {
			take(t, &m, fmt.Sprint("flood ", i), perMinute, 1)
		}
		n := m.Len()
		if n > 2000 || m.Size() > 1000*32 {
			t.Errorf("Len() = %d and the table has %d bytes, want at most 2000 in 32000", n, m.Size())
		}
		if got := m.Forgotten(); got != int64(20_100-n) {
			t.Errorf("Forgotten() = %d, want all of 20100 but the %d that are there", got, n)
		}
		kept := 0
		for i := range 100 {
			if d := take(t, &m, fmt.Sprint("debtor ", i), perMinute, 0); d.Remaining == 0 {
				kept++
			}
		}
		// Eight debtors in the two lines of one key have a chance of 1e-7.
		if kept != 100 {
			t.Errorf("after a flood of small debts %d of 100 large ones are known, want all", kept)
		}
	})
}

// Bytes bounds the table as well, and the smaller bound holds.
func TestMemorySizes(t *testing.T) {
	memory.OneGoroutine(t)
	for _, c := range []struct {
		m           *memory.Store
		least, most int64
	}{
		{&memory.Store{MaxKeys: 1}, 64, 64},
		{&memory.Store{MaxKeys: 20_000}, 630_000, 640_000},
		{&memory.Store{MaxKeys: 20_000, MaxBytes: 200_000}, 198_000, 200_000},
		{&memory.Store{MaxKeys: 1000, MaxBytes: 200_000}, 31_500, 32_000},
		{&memory.Store{MaxBytes: 200_000}, 198_000, 200_000},
		{&memory.Store{MaxKeys: -1, MaxBytes: 1}, 64, 64},
	} {
		if n := c.m.Size(); n > 16<<10 {
			t.Errorf("Keys %d, Bytes %d: a new table has %d bytes, want at most 16 KiB", c.m.MaxKeys, c.m.MaxBytes, n)
		}
		now := c.m.Start()
		for i := range c.most / 16 {
			c.m.AllowAt(now, fmt.Sprint(i), perMinute)
		}
		if n := c.m.Size(); n < c.least || n > c.most {
			t.Errorf("Keys %d, Bytes %d: a full table has %d bytes, want %d to %d", c.m.MaxKeys, c.m.MaxBytes, n, c.least, c.most)
		}
	}
}

// A table that holds no more than four takes on more at once, and forgets.
func TestMemoryOfOneKey(t *testing.T) {
	m := memory.Store{MaxKeys: 1}
	for _, n := range []int{2, 4, 9} {
		var a []limit.Ask
		for i := range n {
			a = append(a, limit.Ask{Key: fmt.Sprint(n, " ", i), Limit: perMinute, N: 1})
		}
		for range 3 {
			if ok, err := m.Take(t.Context(), a, make([]limit.Decision, n)); !ok || err != nil {
				t.Fatalf("Take(%+v) = %v, %v, want true", a, ok, err)
			}
		}
	}
	if n := m.Len(); n != 4 {
		t.Errorf("Len() = %d, want 4, which fit into one line", n)
	}
}

// Nothing is allocated, also for a key that is new, unless the table doubles.
func TestMemoryAllocatesNothing(t *testing.T) {
	var m *memory.Store
	ctx := t.Context()
	keys := make([]string, 0, 1000)
	for i := range cap(keys) {
		keys = append(keys, fmt.Sprint("a key that is not so short ", i))
	}
	two, d := make([]limit.Ask, 2), make([]limit.Decision, 2)
	i := 0
	next := func() string { i++; return keys[i%len(keys)] }
	window := limit.Limit{Kind: limit.FixedWindow, Count: 1_000_000, Period: time.Hour}
	for what, f := range map[string]func(){
		"Allow":    func() { m.Allow(next(), perMinute, 1) },
		"Allow 2":  func() { m.Allow(next(), perMinute, 2) },
		"Decide":   func() { m.Decide(limit.Ask{Key: next(), Limit: perMinute, N: 1}) },
		"a window": func() { m.Decide(limit.Ask{Key: next(), Limit: window, N: 70_000}) },
		"Take of one": func() {
			two[0] = limit.Ask{Key: next(), Limit: perMinute, N: 1}
			_, _ = m.Take(ctx, two[:1], d[:1])
		},
		"Take of two": func() {
			two[0] = limit.Ask{Key: next(), Limit: perMinute, N: 1}
			two[1] = limit.Ask{Key: next(), Limit: window, N: 1}
			_, _ = m.Take(ctx, two, d)
		},
	} {
		m = new(memory.Store)
		m.Start()
		if got := testing.AllocsPerRun(400, f); got != 0 {
			t.Errorf("%s allocates %v times, want 0", what, got)
		}
	}
}

func TestMemoryManyAsks(t *testing.T) {
	var m memory.Store
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
	var m memory.Store
	long := strings.Repeat("x", 1_000_000)
	if d := take(t, &m, long, one, 1); !d.OK {
		t.Fatalf("first of the long key: %+v", d)
	}
	if d := take(t, &m, long, one, 1); d.OK {
		t.Errorf("second of the long key: %+v, want refused", d)
	}
	digest := memory.RingKey(long)
	if len(digest) != 33 {
		t.Errorf("a long key is kept as %d bytes, want 33", len(digest))
	}
	if d := take(t, &m, digest, one, 1); !d.OK {
		t.Errorf("first of the key that equals the digest: %+v, want OK", d)
	}
}

func BenchmarkMemoryTake(b *testing.B) {
	var m memory.Store
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
		if _, err := store.Take(ctx, &m, keys[i], l, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// Allow charges as many as Take does, also none, several, or some back.
func TestAllowOfSeveral(t *testing.T) {
	for k := limit.Kind(0); k.String() != "unknown"; k++ {
		var allows, takes memory.Store
		l := limit.Limit{Kind: k, Count: 10, Period: limit.Month}
		for i, n := range []int64{3, 0, 3, 3, 3, 1, 0, 1, -4, 5, 4, 1, -20, 11, 10} {
			got := allows.Allow("k", l, n)
			if want, _, _, _, _, _, _ := takes.TakeKey("k", l, n); got != want {
				t.Errorf("%v: call %d, Allow of %d = %t, want %t, as Take", k, i, n, got, want)
			}
		}
	}
}
