package integration

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// BenchmarkRedis measures decisions on ten thousand keys, by how many ask at
// once, through go-redis.
func BenchmarkRedis(b *testing.B) {
	do := goRedis(b, rig.SharedRedis(b).Addr)
	for _, callers := range []int{1, 16, 64} {
		for _, c := range []struct {
			name  string
			store *throttleredis.Store
		}{
			{"batched", &throttleredis.Store{Do: do}},
			{"alone", &throttleredis.Store{Do: do, MaxBatch: -1}},
			{"alone-unfenced", &throttleredis.Store{Do: do, MaxBatch: -1, Unfenced: true}},
		} {
			b.Run(c.name+"/callers-"+strconv.Itoa(callers), func(b *testing.B) {
				b.ReportAllocs()
				redisLoad(b, c.store, callers)
			})
		}
	}
}

func redisLoad(b *testing.B, s *throttleredis.Store, callers int) {
	l := limit.Limit{Count: 1000, Period: time.Second}
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error)
	for range callers {
		go func() {
			a, d := make([]limit.Ask, 1), make([]limit.Decision, 1)
			for {
				i := left.Add(-1)
				if i < 0 {
					done <- nil
					return
				}
				a[0] = limit.Ask{Key: strconv.FormatInt(i%10_000, 10), Limit: l, N: 1}
				if _, err := s.Take(context.Background(), a, d); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}
