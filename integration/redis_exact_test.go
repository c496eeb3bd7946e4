package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttletest"
)

// A redisClock is a Do to a Redis that shows the time of a test: the script
// is the real one but for where it asks for the time, and that keys expire days
// later: by the time of Redis, which is another.
type redisClock struct {
	do throttleredis.Do

	mu      sync.Mutex
	patched string // name of the script, once it is known
}

type fakeNow struct{}

// redisAt is a context in which a clock shows now.
func redisAt(ctx context.Context, now time.Time) context.Context {
	return context.WithValue(ctx, fakeNow{}, now)
}

func (c *redisClock) Do(ctx context.Context, args ...any) (any, error) {
	now := ctx.Value(fakeNow{}).(time.Time).UnixMicro()
	name := args[1].(string)
	c.mu.Lock()
	patched := c.patched
	c.mu.Unlock()
	switch {
	case args[0] == "EVALSHA" && patched == "":
		return nil, errors.New("NOSCRIPT it was not seen yet")
	case args[0] == "EVAL":
		const (
			asks, told    = "call('TIME')", "{ ARGV[#ARGV - 1], ARGV[#ARGV] }"
			expires, late = "1000 - floor(", "1000000000 - floor("
		)
		if a, b := strings.Count(name, asks), strings.Count(name, expires); a != 1 || b != 4 {
			return nil, fmt.Errorf("the script has %q %d times, and %q %d times; want once and 4 times", asks, a, expires, b)
		}
		v, err := c.do(ctx, "SCRIPT", "LOAD", strings.NewReplacer(asks, told, expires, late).Replace(name))
		if err != nil {
			return nil, err
		}
		patched = v.(string)
		c.mu.Lock()
		c.patched = patched
		c.mu.Unlock()
	}
	args = append([]any{"EVALSHA", patched}, args[2:]...)
	args = append(args, strconv.FormatInt(now/1e6, 10), fmt.Sprintf("%06d", now%1e6))
	return c.do(ctx, args...)
}

func newRedisClock(t *testing.T) *redisClock {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: rig.SharedRedis(t).Addr})
	t.Cleanup(func() { rdb.Close() })
	c := &redisClock{}
	c.do = func(ctx context.Context, args ...any) (any, error) { return rdb.Do(ctx, args...).Result() }
	return c
}

func TestRedisClockJumps(t *testing.T) {
	now := time.Now()
	c := newRedisClock(t)
	s := &throttleredis.Store{Do: func(ctx context.Context, args ...any) (any, error) {
		now = now.Add(time.Microsecond)
		return c.Do(redisAt(ctx, now), args...)
	}}
	throttletest.TestStoreClock(t, s, func(by time.Duration) { now = now.Add(by) })
}

// an account is what package limit knows of a key.
type redisAccount struct {
	both  bool // the store keeps both states where a refusal would forgive
	limit limit.Limit
	state limit.State
	log   limit.Log
	slots limit.Slots
}

// take is what a Store should answer. pretend looks only.
func (k *redisAccount) take(now time.Time, a limit.Ask) (d limit.Decision) {
	switch {
	case a.Limit.Kind == limit.SlidingLog:
		return k.log.Take(now, a)
	case a.Limit.Kind == limit.SlidingSlots:
		return k.slots.Take(now, a)
	}
	s := limit.Change(k.state, now, k.limit, a.Limit)
	next, d := limit.Take(s, now, a)
	if !d.OK && k.stays(now, a.Limit) {
		return d
	}
	if next != s || s != k.state && a.N != 0 {
		k.state, k.limit = next, a.Limit
	}
	return d
}

// stays tells whether a refusal under the limit l writes nothing.
func (k *redisAccount) stays(now time.Time, l limit.Limit) bool {
	return !k.both && limit.Forgives(k.state, now, k.limit, l)
}

// passes tells whether a would pass.
func (k *redisAccount) passes(now time.Time, a limit.Ask) bool {
	if a.Limit.Kind != limit.SlidingLog && a.Limit.Kind != limit.SlidingSlots {
		_, d := limit.Take(limit.Change(k.state, now, k.limit, a.Limit), now, a)
		return d.OK
	}
	d := k.take(now, limit.Ask{Limit: a.Limit})
	least := a.N
	if a.Min > 0 {
		least = min(a.N, a.Min)
	}
	return a.N == 0 && d.OK || a.N < 0 || a.N > 0 && (a.Debt || least <= d.Remaining)
}

func redisTakeAll(k []*redisAccount, now time.Time, a []limit.Ask, d []limit.Decision) (ok bool) {
	ok = true
	passed := make([]bool, len(a))
	for i := range a {
		passed[i] = k[i].passes(now, a[i])
		ok = ok && passed[i]
	}
	for i, ask := range a {
		if !ok && passed[i] {
			ask.N, ask.Min, ask.Debt = 0, 0, false
		}
		changes := a[i].N != 0 && ask.N == 0 && k[i].limit != ask.Limit && !k[i].stays(now, ask.Limit)
		before := limit.Change(k[i].state, now, k[i].limit, ask.Limit)
		d[i] = k[i].take(now, ask)
		if changes && before != k[i].state {
			k[i].state, k[i].limit = before, ask.Limit
		}
		if passed[i] {
			d[i].OK, d[i].RetryAfter = true, 0
		}
	}
	return ok
}

// redisSize is a number of any size up to most.
func redisSize(rng *rand.Rand, most float64) int64 {
	return int64(math.Exp(rng.Float64() * math.Log(most)))
}

const years = 365 * 24 * time.Hour

func redisLimit(rng *rand.Rand, kind limit.Kind) limit.Limit {
	l := limit.Limit{Kind: kind, Count: redisSize(rng, 1<<50), Period: time.Duration(redisSize(rng, float64(70*years)))}
	if rng.IntN(2) == 0 { // of everyday size
		l.Count, l.Period = 1+rng.Int64N(20), time.Duration(redisSize(rng, float64(time.Hour)))
	}
	switch kind {
	case limit.TokenBucket:
		if rng.IntN(2) == 0 {
			l.Burst = redisSize(rng, float64(l.Count)*2)
		}
		if l.Max() > 1<<50 || float64(l.Max())/float64(l.Count)*float64(l.Period) > float64(70*years) {
			l.Burst = 0
		}
	case limit.SlidingSlots:
		l.Slots = rng.Int32N(20)
		if rng.IntN(20) == 0 {
			l.Slots = 1000
		}
	case limit.CalendarWindow:
		l.Period = []time.Duration{time.Minute, time.Hour, 24 * time.Hour, limit.Week, limit.Month, 12 * limit.Month, 25 * time.Hour, 1}[rng.IntN(8)]
		l.Zone = []*time.Location{nil, time.FixedZone("east", 5*3600+45*60), newYork}[rng.IntN(3)]
	}
	return l
}

var newYork = func() *time.Location {
	z, err := time.LoadLocation("America/New_York")
	if err != nil {
		return time.UTC
	}
	return z
}()

func redisAsk(rng *rand.Rand, key string, l limit.Limit) limit.Ask {
	a := limit.Ask{Key: key, Limit: l, N: 1}
	most := l.Max()
	switch rng.IntN(12) {
	case 0:
		a.N = 0
	case 1:
		a.N = -rng.Int64N(4)
	case 2:
		a.N = rng.Int64N(10)
	case 3, 4:
		a.N = 1 + rng.Int64N(most)
	case 5:
		a.N, a.Min = 1+rng.Int64N(most), 1+rng.Int64N(most)
	case 6:
		a.N, a.Debt = rng.Int64N(most)+1, true
	case 7:
		a.N = -rng.Int64N(most)
	case 8:
		a.N, a.Debt = []int64{math.MaxInt64, math.MinInt64, 1 << 53, -1 << 53, 2*most + 1}[rng.IntN(5)], rng.IntN(2) == 0
	case 9:
		a.N, a.Min = most+rng.Int64N(3)-1, rng.Int64N(3)
	case 10:
		a.N, a.Min = math.MaxInt64, rng.Int64N(most+2)
	}
	return a
}

// TestRedisExact: what the scripts make of a state is what package limit makes
// of it, for limits of every size, by a clock that goes forward and back.
func TestRedisExact(t *testing.T) {
	c := newRedisClock(t)
	const workers = 4
	steps := seldom(27_000)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			s := &throttleredis.Store{Do: c.Do, Prefix: "exact" + strconv.Itoa(w), MaxBatch: -1}
			redisWalk(t, s, rand.New(rand.NewPCG(3, uint64(w))), steps)
		})
	}
	all.Wait()
}

var stateKinds = []limit.Kind{
	limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.FirstHitWindow, limit.CalendarWindow,
}

// redisWalk puts random questions, and compares.
func redisWalk(t *testing.T, s *throttleredis.Store, rng *rand.Rand, steps int) {
	now := time.Now()
	accounts := map[string]*redisAccount{}
	var keys []string
	limits := map[string]limit.Limit{}
	for i := range 40 {
		key := fmt.Sprint("k", i)
		keys = append(keys, key)
		kind := stateKinds[i%5]
		switch {
		case i >= 34:
			kind = limit.SlidingSlots
		case i >= 28:
			kind = limit.SlidingLog
		}
		limits[key] = redisLimit(rng, kind)
		accounts[key] = &redisAccount{limit: limits[key]}
	}
	for range steps {
		size := max(1, rng.IntN(5)-1)
		var a []limit.Ask
		var k []*redisAccount
		for _, i := range rng.Perm(len(keys))[:size] {
			key := keys[i]
			l := limits[key]
			if rng.IntN(50) == 0 {
				kind := l.Kind
				if i < 28 && rng.IntN(2) == 0 {
					kind = stateKinds[rng.IntN(5)]
				}
				if l.Count = redisSize(rng, 1<<50); kind != limit.SlidingSlots {
					l = redisLimit(rng, kind)
				}
				limits[key] = l
			}
			a, k = append(a, redisAsk(rng, key, l)), append(k, accounts[key])
		}
		now = redisClockOn(rng, now, a[0].Limit)
		got, want := make([]limit.Decision, size), make([]limit.Decision, size)
		ok, err := s.Take(redisAt(context.Background(), now), a, got)
		if err != nil {
			t.Errorf("Take(%+v): error %v", a, err)
			return
		}
		before := fmt.Sprintf("%+v", redisStates(k))
		wantOK := redisTakeAll(k, now, a, want)
		for i := range got {
			if !got[i].At.Equal(want[i].At) {
				t.Errorf("Take(%+v): At = %v, want %v", a, got[i].At, want[i].At)
				return
			}
			got[i].At = want[i].At
		}
		if ok != wantOK || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("Take(%+v)\n at   %v, of %s\n got  %v %+v\n want %v %+v", a, now.UnixMicro(), before, ok, got, wantOK, want)
			return
		}
	}
}

func redisStates(k []*redisAccount) (s []limit.State) {
	for _, k := range k {
		s = append(s, k.state)
	}
	return s
}

// redisClockOn moves the clock by what is small or large for the limit, at times back.
func redisClockOn(rng *rand.Rand, now time.Time, l limit.Limit) time.Time {
	by := time.Duration(0)
	switch rng.IntN(10) {
	case 0, 1, 2:
		by = time.Duration(rng.Int64N(int64(l.Period)/max(l.Count, 1)*2 + 2))
	case 3, 4:
		by = time.Duration(rng.Int64N(int64(min(l.Period, years)) + 1))
	case 5:
		by = time.Duration(redisSize(rng, float64(years/10)))
	case 6:
		by = -time.Duration(rng.Int64N(int64(2 * time.Second)))
	case 7:
		by = -time.Duration(redisSize(rng, float64(years/20)))
	}
	now = now.Add(by).Truncate(time.Microsecond)
	if now.Year() < 2000 || now.Year() > 2100 {
		return time.UnixMicro(1.7e15)
	}
	return now
}

// TestRedisDebtUnderAnother: a debt is charged under the limit asked for, also
// where that owes all that it can by what was used under a higher one before.
func TestRedisDebtUnderAnother(t *testing.T) {
	s := &throttleredis.Store{Do: newRedisClock(t).Do, Prefix: fmt.Sprint("debt", rand.Int())}
	high := limit.Limit{Count: 1000, Period: time.Minute}
	for _, kind := range stateKinds {
		low := limit.Limit{Kind: kind, Count: 10, Period: time.Minute}
		account, now := &redisAccount{limit: high}, time.UnixMicro(1_700_000_001_000_000)
		for _, step := range []struct {
			after time.Duration
			limit.Ask
		}{
			{0, limit.Ask{Limit: high, N: 1000}},
			{time.Second, limit.Ask{Limit: low, N: 5, Debt: true}},
			{61 * time.Second, limit.Ask{Limit: low, N: 2}},
		} {
			now, step.Key = now.Add(step.after), "k"+kind.String()
			got, want := redisTakeAt(t, s, now, step.Ask), account.take(now, step.Ask)
			if want.At = got.At; got != want {
				t.Errorf("Take(%+v) after %v = %+v, want %+v", step.Ask, step.after, got, want)
			}
		}
	}
}

// TestRedisConvertsAfterAStep: what a bucket has used counts under slots as package
// limit says, also after the clock was put back by more than the bucket ever owes.
func TestRedisConvertsAfterAStep(t *testing.T) {
	s := &throttleredis.Store{Do: newRedisClock(t).Do, Prefix: fmt.Sprint("step", rand.Int())}
	slots := limit.Limit{Kind: limit.SlidingSlots, Count: 10_000, Period: time.Hour}
	for i, bucket := range []limit.Limit{
		{Count: 5, Period: time.Second},
		{Count: 3, Period: time.Second, Burst: 7},
		{Count: 7, Period: 10 * time.Second, Burst: 3},
	} {
		start := time.UnixMicro(1_700_000_001_000_000)
		ask := limit.Ask{Key: fmt.Sprint("k", i), Limit: bucket, N: bucket.Max()}
		redisTakeAt(t, s, start, ask)
		state, _ := limit.Take(limit.State{}, start, ask)
		back := start.Add(-time.Hour)
		ask.Limit, ask.N = slots, 0
		used := limit.Used(state, back, bucket)
		if d := redisTakeAt(t, s, back, ask); d.Remaining != slots.Count-used {
			t.Errorf("%v used up, an hour earlier under %v: %d remain, want %d", bucket, slots, d.Remaining, slots.Count-used)
		}
	}
}
