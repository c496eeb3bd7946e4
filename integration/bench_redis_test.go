package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// BenchmarkRedisRate compares a decision with one of go-redis/redis_rate,
// through the same go-redis client: one call a decision, and with calls shared
// by whoever waits. The ratios are the medians of rounds that took turns: short
// ones, as how long a call takes changes several times over whenever the threads
// of client and server are put on other processors.
func BenchmarkRedisRate(b *testing.B) {
	o := redisPatient(clients.GoRedisOptions(rig.SharedRedis(b).Addr))
	o.PoolSize = 64
	c := redis.NewClient(o)
	b.Cleanup(func() { c.Close() })
	peer := redis_rate.NewLimiter(c)
	ample := redis_rate.Limit{Rate: 1_000_000, Period: 1e9, Burst: 1_000_000}
	rate := &race{name: "redis_rate", decide: func(key string) error {
		r, err := peer.Allow(context.Background(), "rate:"+key, ample)
		if err == nil && r.Allowed != 1 {
			err = fmt.Errorf("redis_rate: %+v, want it allowed", r)
		}
		return err
	}}
	alone := redisRace("alone", &throttleredis.Store{Do: clients.GoRedis(c), MaxBatch: -1})
	shared := redisRace("shared", &throttleredis.Store{Do: clients.GoRedis(c)})
	for b.Loop() {
		b.Run("callers-1", func(b *testing.B) { redisTurns(b, 1, 5*time.Millisecond, rate, alone, shared) })
		b.Run("callers-64", func(b *testing.B) { redisTurns(b, 64, 25*time.Millisecond, rate, alone, shared) })
	}
}

// redisTurns lets all take turns of a span, for two seconds each, and reports how
// they compare to the first.
func redisTurns(b *testing.B, callers int, span time.Duration, all ...*race) {
	for _, r := range all {
		r.rates = nil
		redisRound(b, callers, benchRound, r) // fills caches
	}
	for range 2 * time.Second / span {
		for _, k := range rand.Perm(len(all)) {
			all[k].rates = append(all[k].rates, redisRound(b, callers, span, all[k]))
		}
	}
	report(b, all)
}

// redisRound is decisions a second of callers that never rest.
func redisRound(b *testing.B, callers int, span time.Duration, r *race) float64 {
	var n atomic.Int64
	var wait sync.WaitGroup
	begin := time.Now()
	for range callers {
		wait.Go(func() {
			for time.Since(begin) < span {
				if err := r.decide("key" + strconv.Itoa(rand.IntN(benchKeys))); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wait.Wait()
	return float64(n.Load()) / time.Since(begin).Seconds()
}

func redisRace(name string, s *throttleredis.Store) *race {
	l := limit.Limit{Count: 1_000_000, Period: 1e9}
	return &race{name: name, decide: func(key string) error {
		a, d := [1]limit.Ask{{Key: key, Limit: l, N: 1}}, [1]limit.Decision{}
		ok, err := s.Take(context.Background(), a[:], d[:])
		if err == nil && !ok {
			err = fmt.Errorf("%s: %+v, want it allowed", name, d[0])
		}
		return err
	}}
}

// allocations is how many one decision after the other makes.
func allocations(b *testing.B, r *race) float64 {
	const n = 2000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		if err := r.decide("key0"); err != nil {
			b.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n
}
