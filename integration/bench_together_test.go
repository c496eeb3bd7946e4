package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// togetherRounds are the rounds of BenchmarkTogether, each some 100 ms of both ways.
const togetherRounds = 10

// BenchmarkTogether: requests about 1, 2 and 4 descriptors, decided by one call of the Store
// and by a call for each descriptor. Both take turns in one run; the figures are the medians of the rounds.
func BenchmarkTogether(b *testing.B) {
	c := redis.NewClient(redisPatient(clients.GoRedisOptions(rig.SharedRedis(b).Addr)))
	b.Cleanup(func() { c.Close() })
	p, err := pgxpool.New(b.Context(), rig.SharedPostgres(b).Database(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	far := rig.NewProxy(b, rig.SharedRedis(b).Addr)
	far.Set(rig.Fault{Delay: 500 * time.Microsecond})
	for _, of := range []struct {
		name  string
		store store.Store
	}{
		{"far-redis", &throttleredis.Store{Do: goRedis(b, far.Addr), Prefix: "together:"}},
		{"redis", &throttleredis.Store{Do: clients.GoRedis(c), Prefix: "together:"}},
		{"postgres", created(b, &throttlesql.Store{Query: clients.Pgx(p)})},
	} {
		for _, n := range []int{1, 2, 4} {
			for _, callers := range []int{1, 16} {
				b.Run(fmt.Sprintf("%s/descriptors=%d/callers=%d", of.name, n, callers), func(b *testing.B) { togetherTurns(b, of.store, n, callers) })
			}
		}
	}
}

// togetherTurns lets both ways take turns.
func togetherTurns(b *testing.B, s store.Store, descriptors, callers int) {
	figures := map[string][]float64{}
	for b.Loop() {
		for range togetherRounds + 1 { // of which the first fills caches
			for _, way := range []struct {
				name  string
				store store.Store
			}{{"together", s}, {"apart", oneByOne(s)}} {
				took := togetherRound(b, way.store, descriptors, callers)
				at := func(q float64) float64 {
					return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1000
				}
				for unit, x := range map[string]float64{"p50-us": at(0.5), "p99-us": at(0.99), "calls/s": float64(len(took)) * 10} {
					figures[way.name+"-"+unit] = append(figures[way.name+"-"+unit], x)
				}
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for unit, all := range figures {
		b.ReportMetric(median(all[1:]), unit)
	}
}

// togetherRound is how long each decision took, the shortest first, of callers that never
// rest for 100 ms.
func togetherRound(b *testing.B, s store.Store, descriptors, callers int) []time.Duration {
	control := &admit.Control{Store: s, Limit: ample}
	var mu sync.Mutex
	var all []time.Duration
	var wait sync.WaitGroup
	begin := time.Now()
	for range callers {
		wait.Go(func() {
			var own []time.Duration
			for now := time.Now(); now.Sub(begin) < 100*time.Millisecond; now = time.Now() {
				q, a := make([]admit.Request, descriptors), make([]*admit.Admission, descriptors)
				for i := range q {
					q[i], a[i] = admit.Request{Key: strconv.Itoa(rand.IntN(benchKeys) + i*benchKeys)}, new(admit.Admission)
				}
				if err := control.BeginAll(context.Background(), q, a); err != nil {
					b.Error(err)
					return
				}
				own = append(own, time.Since(now))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	wait.Wait()
	slices.Sort(all)
	return all
}

// oneByOne is a Store that decides about one key at a time, as one in several slots does.
func oneByOne(s store.Store) store.Store {
	return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if len(a) > 1 {
			return false, limit.ErrAsks
		}
		return s.Take(ctx, a, d)
	})
}
