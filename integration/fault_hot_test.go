package integration

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// TestFaultHotKey: four processes ask about one key 10,000 times a second, ahead
// of use. The store is asked for at most a tenth of it, what they admit together
// is within the bound of leases, and nothing of the limit is wasted.
func TestFaultHotKey(t *testing.T) {
	t.Parallel()
	const processes, each, callers = 4, 2500, 4
	for name, connect := range map[string]func(*testing.T) (again func() store.Store, asked *atomic.Int64){
		"Redis": hotRedis, "PostgreSQL": hotPostgres,
	} {
		for _, l := range []limit.Limit{
			{Count: 5000, Period: time.Second, Burst: 500}, // half of it is refused
			{Count: 20_000, Period: time.Second},           // none
			{Kind: limit.FixedWindow, Count: 5000, Period: time.Second},
		} {
			t.Run(name+"/"+l.String(), func(t *testing.T) {
				again, asked := connect(t)
				var all sync.WaitGroup
				made := make([]calls, processes*callers)
				const seconds = 1
				leases := make([]*store.Leases, processes)
				for i := range leases {
					leases[i] = &store.Leases{Store: again()}
					back(t, leases[i]) // it is connected
				}
				asked.Store(0)
				start := time.Now()
				for i := range leases {
					for k := range callers {
						all.Go(func() { made[i*callers+k] = steady(t, leases[i], l, start, each/callers, seconds) })
					}
				}
				all.Wait()
				var c calls
				for _, some := range made {
					c.add(some)
				}
				c.answered(t)
				if got, most := asked.Load(), int64(len(c.all))/10; got > most {
					t.Errorf("the store was asked %d times for %d decisions, want at most %d times", got, len(c.all), most)
				}
				if l.Kind == limit.TokenBucket {
					c.within(t, l, l.Count/int64(time.Second/limit.DefaultLife))
				} else {
					windows := map[int64]int64{}
					for _, one := range c.all {
						windows[one.d.At.UnixMicro()/l.Period.Microseconds()] += one.d.N
					}
					for w, n := range windows {
						if n > l.Count {
							t.Errorf("%d were admitted in the window %d, want at most %d", n, w, l.Count)
						}
					}
				}
				possible := float64(l.Count) * seconds
				if l.Kind == limit.TokenBucket {
					possible += float64(l.Max())
				}
				possible = min(possible, float64(len(c.all)))
				part := 0.8
				if raced {
					part = 0.5 // what refills while the machine does something else is lost
				}
				if got := float64(c.admitted("hot")); got < part*possible {
					t.Errorf("%v were admitted, want at least %v of %v", got, part, possible)
				}
				t.Logf("%d decisions in %v, %d of them admitted; the store was asked %d times", len(c.all), time.Since(start), c.admitted("hot"), asked.Load())
			})
		}
	}
}

// answered holds that calls were answered: all, or under the race detector 99 in
// 100, as answers are late where the machine stands still for a Life.
func (c calls) answered(t *testing.T) {
	t.Helper()
	failed := 0
	if raced {
		failed = len(c.all) / 100
	}
	if n, some := c.failures(); n > failed {
		t.Errorf("%d calls failed, want at most %d:%s", n, failed, some)
	}
}

// steady asks so many times a second, whatever becomes of it, and catches up if
// it is late.
func steady(t *testing.T, s store.Store, l limit.Limit, start time.Time, rate, seconds int) (c calls) {
	for i := range rate * seconds {
		rest(t.Context(), time.Until(start.Add(time.Duration(i)*time.Second/time.Duration(rate))))
		one := call{key: "hot", began: time.Now()}
		one.d, one.err = store.Take(t.Context(), s, one.key, l, 1)
		c.all = append(c.all, one)
	}
	return c
}

func hotRedis(t *testing.T) (again func() store.Store, asked *atomic.Int64) {
	n, asked := rig.SharedRedis(t), new(atomic.Int64)
	prefix := "hot " + t.Name()
	return func() store.Store {
		do := goRedis(t, n.Addr)
		return &throttleredis.Store{Prefix: prefix, Do: func(ctx context.Context, args ...any) (any, error) {
			asked.Add(1)
			return do(ctx, args...)
		}}
	}, asked
}

func hotPostgres(t *testing.T) (again func() store.Store, asked *atomic.Int64) {
	url, asked := rig.SharedPostgres(t).Database(t), new(atomic.Int64)
	created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, url))})
	return func() store.Store {
		query := clients.Pgx(pool(t, url))
		return &throttlesql.Store{Query: func(ctx context.Context, sql string, args ...any) throttlesql.Row {
			asked.Add(1)
			return query(ctx, sql, args...)
		}}
	}, asked
}
