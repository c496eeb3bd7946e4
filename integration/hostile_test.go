package integration

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// hostileKeys are keys that could be taken for others, or for something else.
func hostileKeys(rng *rand.Rand) []string {
	long := strings.Repeat("k", 1<<20)
	keys := []string{
		"", " ", "\x00", "\x00\x00", "a\x00b", "a", "a\x00", "\xff\xfe\xfd", "\xc3\x28", "é", "e\u0301", "\u202e", "'; drop table throttle; --", `\`, `\\x00`, `"`, "$1", "%s", "*", "?", "[a]",
		"{", "}", "{}", "{}a", "{a}", "{a}b", "a{b}c", "{a{b}c}", "}{", "{0}", "throttle:{0}:a", "=a", ":a", "#", "##", "#check", ":#check", "\r\n", "a\r\nDEL throttle:{0}",
		long, long + "k", long[:1<<20-1] + "l", strings.Repeat("k", 199), strings.Repeat("k", 200), strings.Repeat("k", 201), strings.Repeat("k", 255), strings.Repeat("k", 256), strings.Repeat("k", 257),
		"#" + strings.Repeat("k", 43), "\x00" + strings.Repeat("k", 32), "back", "NULL", "null", "{{}}", strings.Repeat("{", 300), strings.Repeat("\x00", 300),
	}
	const bytes = "{}:=#\x00\xff\\'\"a\r\n"
	for range 150 {
		b := make([]byte, 1+rng.IntN(6))
		for i := range b {
			b[i] = bytes[rng.IntN(len(bytes))]
		}
		keys = append(keys, string(b))
	}
	seen := map[string]bool{}
	var all []string
	for _, key := range keys {
		if !seen[key] {
			seen[key] = true
			all = append(all, key)
		}
	}
	return all
}

// hostileStores are real ones; those of a Cluster have many slots.
func hostileStores(t *testing.T) map[string]store.Store {
	all := map[string]store.Store{
		"Redis":      &throttleredis.Store{Do: goRedis(t, rig.SharedRedis(t).Addr), Prefix: t.Name()},
		"Redis 8":    &throttleredis.Store{Do: goRedis(t, rig.Redis8(t).Addr)},
		"Valkey":     &throttleredis.Store{Do: goRedis(t, rig.Valkey(t).Addr), Slots: 7},
		"PostgreSQL": created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, rig.SharedPostgres(t).Database(t)))}),
		"lib/pq":     created(t, &throttlesql.Store{Query: clients.LibPQ(openDB(t, "postgres", rig.SharedPostgres(t).Database(t)+"&binary_parameters=yes"))}),
	}
	for name, s := range clusterStores(t, rig.SharedCluster(t).Addrs(), sure) {
		all["Cluster "+name] = &throttleredis.Store{Do: s.Do, Slots: 1024, Prefix: t.Name() + name}
	}
	return all
}

// TestHostileKeys: every string is a key of its own, some of a bucket, some of a log.
func TestHostileKeys(t *testing.T) {
	seed := rand.Uint64()
	keys := hostileKeys(rand.New(rand.NewPCG(seed, 2)))
	for name, s := range hostileStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for round := range int64(2) {
				for i, key := range keys {
					n := 1 + int64(i%7)
					l := limit.Limit{Count: 1000, Period: 12 * limit.Month}
					if i%2 == 1 {
						l.Kind = limit.SlidingLog
					}
					d, err := store.Take(t.Context(), s, key, l, n)
					if want := 1000 - n*(round+1); err != nil || !d.OK || d.Remaining != want {
						t.Fatalf("seed %d, round %d, key %.40q of %d bytes, %v: %+v, %v, want %d remaining", seed, round, key, len(key), l.Kind, d, err, want)
					}
				}
			}
		})
	}
}

// TestHostileNumbers: extreme limits and costs are decided as package limit decides
// them, or are an error of the call; never by a crash, and never by granting more
// than there is.
func TestHostileNumbers(t *testing.T) {
	seed := rand.Uint64()
	for name, s := range hostileStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 3))
			for i := range seldom(600) {
				hostileNumber(t, s, rng, fmt.Sprint("n", i), seed)
			}
		})
	}
}

func hostileNumber(t *testing.T, s store.Store, rng *rand.Rand, key string, seed uint64) {
	t.Helper()
	counts := []int64{1, 2, 1000, 1e9, 1e12, 1 << 50, 1<<50 + 1, math.MaxInt64, 0, -1, math.MinInt64}
	periods := []time.Duration{time.Second, time.Microsecond, time.Nanosecond, 365 * 24 * time.Hour, 71 * 365 * 24 * time.Hour, math.MaxInt64, 0, -1}
	costs := []int64{0, 1, -1, 2, 1e9, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, 1 << 53, -(1 << 53)}
	l := limit.Limit{Kind: limit.Kind(rng.IntN(7)), Count: counts[rng.IntN(len(counts))], Period: periods[rng.IntN(len(periods))]}
	if rng.IntN(3) == 0 {
		l.Burst = counts[rng.IntN(len(counts))]
	}
	var passed, back float64
	for range 4 {
		a := limit.Ask{Key: key, Limit: l, N: costs[rng.IntN(len(costs))], Debt: rng.IntN(8) == 0}
		if rng.IntN(4) == 0 {
			a.Min = 1
		}
		d := make([]limit.Decision, 1)
		ok, err := s.Take(t.Context(), []limit.Ask{a}, d)
		if err != nil {
			if strings.Contains(err.Error(), "not known") || strings.Contains(err.Error(), "delete it") || strings.Contains(err.Error(), "SQLSTATE") {
				t.Errorf("seed %d: Take(%+v): %v, want an error of the call", seed, a, err)
			}
			return
		}
		d[0].At = time.Time{}
		if ok != d[0].OK || d[0].RetryAfter < 0 || d[0].ResetAfter < 0 || ok && !a.Debt && a.N > 0 && d[0].N > a.N {
			t.Errorf("seed %d: Take(%+v) = %+v", seed, a, d[0])
		}
		if a.Debt {
			return
		}
		if d[0].N > 0 {
			passed += float64(d[0].N)
		} else {
			back -= float64(d[0].N)
		}
		if l.Period >= 365*24*time.Hour && l.Count > 0 && l.Count < 1<<30 && passed-back > float64(max(l.Max(), 0))+1+float64(l.Count)/1e5 {
			t.Errorf("seed %d: %v: %g passed, want at most its maximum, %d", seed, l, passed, l.Max())
		}
	}
}
