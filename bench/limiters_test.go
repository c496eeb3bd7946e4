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

// A quota is what a limiter is made for: n events each period, and so many at once.
type quota struct {
	n     int
	per   time.Duration
	burst int
}

const (
	plenty = 1_000_000_000
	long   = 1000 * time.Hour
)

// usedUp is one event, and no other for as long as anybody looks.
var usedUp = quota{1, long, 1}

// limit returns q for a memory.Store.
func (q quota) limit() limit.Limit {
	return limit.Limit{Count: int64(q.n), Period: q.per, Burst: int64(q.burst)}
}

// second returns how many there are in a second.
func (q quota) second() float64 { return float64(q.n) / q.per.Seconds() }

// window returns in what time there are as many as the burst, for limiters that
// know one number and one time.
func (q quota) window() time.Duration {
	return time.Duration(float64(q.per) / float64(q.n) * float64(q.burst))
}

// A limiterPeer is a limiter that tells its keys apart.
type limiterPeer struct {
	name string
	make func(q quota, keys int) allow
	// never is true where a limiter waits and cannot refuse.
	never bool
	// keeps says how many keys it remembers, and for how long.
	keeps string
}

// ours returns a Store with room for so many keys.
func ours(keys int) *memory.Store { return &memory.Store{MaxKeys: max(keys, manyKeys)} }

func oursAllow(q quota, keys int) allow {
	m, l := ours(keys), q.limit()
	return func(key string) bool { return m.Allow(key, l, 1) }
}

func oursStoreAllow(q quota, keys int) allow {
	m, l, ctx := ours(keys), q.limit(), context.Background()
	return func(key string) bool {
		ok, err := store.Allow(ctx, m, key, l)
		return err == nil && ok
	}
}

func oursTake(q quota, keys int) allow {
	m, l, ctx := ours(keys), q.limit(), context.Background()
	return func(key string) bool {
		d, err := store.Take(ctx, m, key, l, 1)
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

func newRate(q quota) *rate.Limiter { return rate.NewLimiter(rate.Limit(q.second()), q.burst) }

// mutexMap and rwMutexMap are how most programs keep limiters.
func mutexMap(q quota, _ int) allow {
	var mu sync.Mutex
	all := map[string]*rate.Limiter{}
	return func(key string) bool {
		mu.Lock()
		l := all[key]
		if l == nil {
			l = newRate(q)
			all[key] = l
		}
		mu.Unlock()
		return l.Allow()
	}
}

func rwMutexMap(q quota, _ int) allow {
	var mu sync.RWMutex
	all := map[string]*rate.Limiter{}
	return func(key string) bool {
		mu.RLock()
		l := all[key]
		mu.RUnlock()
		if l == nil {
			mu.Lock()
			if l = all[key]; l == nil {
				l = newRate(q)
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

// shardedMap is how a careful program keeps limiters: in 64 maps, each with a mutex.
func shardedMap(q quota, _ int) allow {
	type shard struct {
		mu  sync.Mutex
		all map[string]*rate.Limiter
		_   [48]byte
	}
	var shards [64]shard
	for i := range shards {
		shards[i].all = map[string]*rate.Limiter{}
	}
	seed := maphash.MakeSeed()
	return func(key string) bool {
		s := &shards[maphash.String(seed, key)%64]
		s.mu.Lock()
		l := s.all[key]
		if l == nil {
			l = newRate(q)
			s.all[key] = l
		}
		s.mu.Unlock()
		return l.Allow()
	}
}

// sweepers end those goroutines of limiters that would keep them in memory.
var sweepers []func()

func endSweepers() {
	for _, end := range sweepers {
		end()
	}
	sweepers = nil
}

func sethvargo(q quota, _ int) allow {
	c := &memorystore.Config{Tokens: uint64(q.burst), Interval: q.window(), SweepInterval: long, SweepMinTTL: long}
	s := must(memorystore.New(c))
	ctx := context.Background()
	sweepers = append(sweepers, func() { _ = s.Close(ctx) })
	return func(key string) bool {
		_, _, _, ok, err := s.Take(ctx, key)
		return ok && err == nil
	}
}

func throttledGCRA(q quota, _ int) allow {
	g := must(throttled.NewGCRARateLimiterCtx(must(throttledstore.NewCtx(0)), throttled.RateQuota{
		MaxRate: throttled.PerDuration(q.n, q.per), MaxBurst: q.burst - 1,
	}))
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := g.RateLimitCtx(ctx, key, 1)
		return !limited && err == nil
	}
}

func ulule(q quota, _ int) allow {
	l := limiter.New(ululestore.NewStore(), limiter.Rate{Period: q.window(), Limit: int64(q.burst)})
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

func chi(q quota, _ int) allow {
	l := httprate.NewRateLimiter(q.burst, q.window(), httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	r := must(http.NewRequest(http.MethodGet, "/", nil))
	return func(key string) bool { return !l.OnLimit(nowhere{}, r, key) }
}

func didip(q quota, _ int) allow {
	l := tollbooth.NewLimiter(q.second(), nil).SetBurst(q.burst)
	return func(key string) bool { return !l.LimitReached(key) }
}

func failsafe(q quota, _ int) allow {
	return keyed(func() *ratelimiter.RateLimiter[any] {
		l := ratelimiter.NewBursty[any](uint(q.burst), q.window())
		return &l
	}, func(l *ratelimiter.RateLimiter[any]) bool { return (*l).TryAcquirePermit() })
}

func juju(q quota, _ int) allow {
	return keyed(func() *ratelimit.Bucket {
		return ratelimit.NewBucket(q.per/time.Duration(q.n), int64(q.burst))
	}, func(b *ratelimit.Bucket) bool { return b.TakeAvailable(1) == 1 })
}

// uberTake has a quota of its own, as it makes wait for any other.
func uberTake(quota, int) allow {
	return keyed(func() *uber.Limiter {
		l := uber.New(plenty)
		return &l
	}, func(l *uber.Limiter) bool { (*l).Take(); return true })
}

// bare is what any limiter of many keys does that reads the clock for each
// decision: it hashes the key, reads the clock, and swaps a word in a random line
// of a table of 32 bytes a key. It decides nothing.
func bare(_ quota, keys int) allow {
	lines, seed, base := make([][8]atomic.Uint64, max(keys/2, 1)), maphash.MakeSeed(), time.Now()
	return func(key string) bool {
		at, _ := bits.Mul64(maphash.String(seed, key), uint64(len(lines)))
		word := &lines[at][1]
		was, now := word.Load(), time.Since(base)
		return word.CompareAndSwap(was, was+uint64(now)) || true
	}
}

const (
	allowName      = "**memory.Store.Allow**"
	takeName       = "**store.Take**"
	storeAllowName = "**store.Allow**"
	rateName       = "x/time/rate, one Limiter"

	forEver = "all, for ever"
)

// limiterPeers are ours, whose names begin with two stars, what is none, whose name
// begins with one, and those that are found most.
var limiterPeers = []limiterPeer{
	{name: takeName, make: oursTake, keeps: "MaxKeys, until they owe nothing"},
	{name: storeAllowName, make: oursStoreAllow, keeps: "the same"},
	{name: allowName, make: oursAllow, keeps: "the same"},
	{name: "*a bare loop: hash, clock and a swap*", make: bare, never: true, keeps: "none"},
	{name: rateName, make: func(q quota, _ int) allow {
		l := newRate(q)
		return func(string) bool { return l.Allow() }
	}, keeps: "knows no keys"},
	{name: "x/time/rate, mutex and map", make: mutexMap, keeps: forEver},
	{name: "x/time/rate, RWMutex and map", make: rwMutexMap, keeps: forEver},
	{name: "x/time/rate, 64 mutexes and maps", make: shardedMap, keeps: forEver},
	{name: "x/time/rate, sync.Map", make: func(q quota, _ int) allow {
		return keyed(func() *rate.Limiter { return newRate(q) }, (*rate.Limiter).Allow)
	}, keeps: forEver},
	{name: "sethvargo/go-limiter", make: sethvargo, keeps: "all, until a sweep finds them unused for long"},
	{name: "throttled/throttled", make: throttledGCRA, keeps: "all, or the last n"},
	{name: "ulule/limiter", make: ulule, keeps: "all, until a sweep finds their window over"},
	{name: "go-chi/httprate", make: chi, keeps: "all of two windows, by 64 bits without a seed"},
	{name: "didip/tollbooth", make: didip, keeps: "all, for ten years or as told"},
	{name: "failsafe-go, sync.Map", make: failsafe, keeps: forEver},
	{name: "juju/ratelimit, sync.Map", make: juju, keeps: forEver},
	{name: "uber-go/ratelimit, sync.Map", make: uberTake, never: true, keeps: forEver},
}
