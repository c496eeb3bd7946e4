package bench

import (
	"context"
	"hash/maphash"
	"math/bits"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-chi/httprate"
	"github.com/juju/ratelimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/memory"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// An allow asks a limiter for one event under a key.
type allow func(key string) bool

// A limiterPeer is a limiter that tells its keys apart. deny says
// whether it allows one event in a thousand hours, or as good as all.
type limiterPeer struct {
	name string
	make func(deny bool, keys int) allow
	// never is true where a limiter waits and cannot refuse.
	never bool
}

const (
	plenty = 1_000_000_000
	long   = 1000 * time.Hour
)

// ours is a Memory and a limit to ask it for. One event is worth 3.6 s, so that
// each key owes something throughout: of keys that owe nothing there would be
// nothing to remember. The burst is a year's worth, a hundred times as many for
// a single key.
func ours(deny bool, keys int) (*memory.Store, limit.Limit) {
	l := limit.Limit{Count: 1, Period: 3600 * time.Millisecond, Burst: 4_000_000}
	if keys == 1 {
		l.Count, l.Burst = 100*l.Count, 100*l.Burst
	}
	if deny {
		l = limit.Limit{Count: 1, Period: long}
	}
	return new(memory.Store), l
}

func oursAllow(deny bool, keys int) allow {
	m, l := ours(deny, keys)
	return func(key string) bool { return m.Allow(key, l, 1) }
}

func oursDecide(deny bool, keys int) allow {
	m, l := ours(deny, keys)
	return func(key string) bool {
		d, err := store.Take(context.Background(), m, key, l, 1)
		return err == nil && d.OK
	}
}

// keyed makes one limiter for each key, found in a sync.Map.
func keyed[T any](fresh func() *T, ask func(*T) bool) allow {
	var all sync.Map
	return func(key string) bool {
		one, ok := all.Load(key)
		if !ok {
			one, _ = all.LoadOrStore(key, fresh())
		}
		return ask(one.(*T))
	}
}

func newRate(deny bool) *rate.Limiter {
	if deny {
		return rate.NewLimiter(rate.Every(long), 1)
	}
	return rate.NewLimiter(plenty, plenty)
}

// mutexMap and rwMutexMap are how most programs keep limiters.
func mutexMap(deny bool, _ int) allow {
	var mu sync.Mutex
	all := map[string]*rate.Limiter{}
	return func(key string) bool {
		mu.Lock()
		l := all[key]
		if l == nil {
			l = newRate(deny)
			all[key] = l
		}
		mu.Unlock()
		return l.Allow()
	}
}

func rwMutexMap(deny bool, _ int) allow {
	var mu sync.RWMutex
	all := map[string]*rate.Limiter{}
	return func(key string) bool {
		mu.RLock()
		l := all[key]
		mu.RUnlock()
		if l == nil {
			mu.Lock()
			if l = all[key]; l == nil {
				l = newRate(deny)
				all[key] = l
			}
			mu.Unlock()
		}
		return l.Allow()
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func sethvargo(deny bool, _ int) allow {
	c := &memorystore.Config{Tokens: plenty, Interval: long, SweepInterval: long, SweepMinTTL: long}
	if deny {
		c.Tokens = 1
	}
	s := must(memorystore.New(c))
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, err := s.Take(ctx, key)
		return ok && err == nil
	}
}

func throttledGCRA(deny bool, _ int) allow {
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(plenty, time.Hour), MaxBurst: plenty}
	if deny {
		quota = throttled.RateQuota{MaxRate: throttled.PerDuration(1, long)}
	}
	g := must(throttled.NewGCRARateLimiterCtx(must(throttledstore.NewCtx(0)), quota))
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := g.RateLimitCtx(ctx, key, 1)
		return !limited && err == nil
	}
}

func ulule(deny bool, _ int) allow {
	r := limiter.Rate{Period: long, Limit: plenty}
	if deny {
		r.Limit = 1
	}
	l := limiter.New(ululestore.NewStore(), r)
	ctx := context.Background()
	return func(key string) bool {
		c, err := l.Get(ctx, key)
		return !c.Reached && err == nil
	}
}

// nowhere is where httprate writes its header fields, of which it is told none.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

func chi(deny bool, _ int) allow {
	n := plenty
	if deny {
		n = 1
	}
	l := httprate.NewRateLimiter(n, long, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	r := must(http.NewRequest(http.MethodGet, "/", nil))
	return func(key string) bool { return !l.OnLimit(nowhere{}, r, key) }
}

func didip(deny bool, _ int) allow {
	l := tollbooth.NewLimiter(plenty, nil).SetBurst(plenty)
	if deny {
		l = tollbooth.NewLimiter(1/long.Seconds(), nil).SetBurst(1)
	}
	return func(key string) bool { return !l.LimitReached(key) }
}

func failsafe(deny bool, _ int) allow {
	return keyed(func() *ratelimiter.RateLimiter[any] {
		l := ratelimiter.NewBursty[any](plenty, time.Second)
		if deny {
			l = ratelimiter.NewBursty[any](1, long)
		}
		return &l
	}, func(l *ratelimiter.RateLimiter[any]) bool { return (*l).TryAcquirePermit() })
}

func juju(deny bool, _ int) allow {
	return keyed(func() *ratelimit.Bucket {
		if deny {
			return ratelimit.NewBucket(long, 1)
		}
		return ratelimit.NewBucketWithRate(plenty, plenty)
	}, func(b *ratelimit.Bucket) bool { return b.TakeAvailable(1) == 1 })
}

func uberTake(bool, int) allow {
	return keyed(func() *uber.Limiter {
		l := uber.New(plenty)
		return &l
	}, func(l *uber.Limiter) bool { (*l).Take(); return true })
}

const (
	oursName = "**memory.Store, Allow**"
	rateName = "x/time/rate, one Limiter"
)

// bare is what any limiter of many keys does that reads the clock for each
// decision: it hashes the key, reads the clock, and swaps a word in a random line
// of a table of 32 bytes a key. It decides nothing.
func bare(_ bool, keys int) allow {
	lines, seed, base := make([][8]atomic.Uint64, max(keys/2, 1)), maphash.MakeSeed(), time.Now()
	return func(key string) bool {
		at, _ := bits.Mul64(maphash.String(seed, key), uint64(len(lines)))
		word := &lines[at][1]
		was, now := word.Load(), time.Since(base)
		return word.CompareAndSwap(was, was+uint64(now)) || true
	}
}

// limiterPeers are ours, and those that are found most.
var limiterPeers = []limiterPeer{
	{name: oursName, make: oursAllow},
	{name: "**store.Take of a memory.Store**", make: oursDecide},
	{name: "*a bare loop: hash, clock and a swap*", make: bare, never: true},
	{name: rateName, make: func(deny bool, _ int) allow {
		l := newRate(deny)
		return func(string) bool { return l.Allow() }
	}},
	{name: "x/time/rate, mutex and map", make: mutexMap},
	{name: "x/time/rate, RWMutex and map", make: rwMutexMap},
	{name: "x/time/rate, sync.Map", make: func(deny bool, _ int) allow {
		return keyed(func() *rate.Limiter { return newRate(deny) }, (*rate.Limiter).Allow)
	}},
	{name: "sethvargo/go-limiter", make: sethvargo},
	{name: "throttled/throttled", make: throttledGCRA},
	{name: "ulule/limiter", make: ulule},
	{name: "go-chi/httprate", make: chi},
	{name: "didip/tollbooth", make: didip},
	{name: "failsafe-go, sync.Map", make: failsafe},
	{name: "juju/ratelimit, sync.Map", make: juju},
	{name: "uber-go/ratelimit, sync.Map", make: uberTake, never: true},
}
