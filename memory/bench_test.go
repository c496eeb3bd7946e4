package memory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// BenchmarkMemory measures each way that a decision may take: fast and slow, one
// key and two, states that pack into a word, states that do not, and logs.
func BenchmarkMemory(b *testing.B) {
	plenty := limit.Limit{Count: 1_000_000, Period: 24 * time.Hour, Burst: 1 << 40}
	wide := limit.Limit{Count: 99_991, Period: 24 * time.Hour, Burst: 1 << 40}
	window := limit.Limit{Kind: limit.FixedWindow, Count: 50_000, Period: time.Hour}
	log := limit.Limit{Kind: limit.SlidingLog, Count: 5, Period: time.Second}
	hourly := limit.Limit{Count: 10, Period: time.Hour}
	ctx := context.Background()
	for _, c := range []struct {
		name string
		keys int
		ask  func(m *memory.Store, key string, i int)
	}{
		{"allow", 10_000, func(m *memory.Store, key string, _ int) { m.Allow(key, plenty, 1) }},
		{"allow-far", 1_000_000, func(m *memory.Store, key string, _ int) { m.Allow(key, plenty, 1) }},
		{"take-one", 10_000, func(m *memory.Store, key string, _ int) {
			_, _ = m.TakeOne(ctx, limit.Ask{Key: key, Limit: plenty, N: 1})
		}},
		{"take-far", 1_000_000, func(m *memory.Store, key string, _ int) {
			_, _ = m.TakeOne(ctx, limit.Ask{Key: key, Limit: plenty, N: 1})
		}},
		{"wide", 5000, func(m *memory.Store, key string, _ int) { m.Allow(key, wide, 1) }},
		{"window", 10_000, func(m *memory.Store, key string, _ int) { m.Allow(key, window, 1) }},
		{"log", 1000, func(m *memory.Store, key string, _ int) { m.Allow(key, log, 1) }},
		{"change", 10_000, func(m *memory.Store, key string, i int) {
			l := plenty
			l.Count += int64(i % 3)
			m.Allow(key, l, 1)
		}},
		{"new", 1_000_000, func(m *memory.Store, key string, i int) {
			m.Allow(key[:len(key)-1]+string(rune('a'+i%26)), hourly, 1)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var m memory.Store
			keys := benchKeys(c.keys)
			for i, key := range keys {
				c.ask(&m, key, i)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.ask(&m, keys[i%len(keys)], i)
				i += 7919 // a prime, so that keys do not come in order
			}
		})
	}
	b.Run("take-two", func(b *testing.B) {
		var m memory.Store
		keys := benchKeys(10_000)
		a, d := make([]limit.Ask, 2), make([]limit.Decision, 2)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			a[0] = limit.Ask{Key: keys[i%len(keys)], Limit: plenty, N: 1}
			a[1] = limit.Ask{Key: keys[(i+1)%len(keys)], Limit: window, N: 1}
			if _, err := m.Take(ctx, a, d); err != nil {
				b.Fatal(err)
			}
			i += 7919
		}
	})
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	return keys
}
