package integration

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// TestRedisLists: logs and slots that have long been in use, with many entries.
func TestRedisLists(t *testing.T) {
	c := newRedisClock(t)
	rng := rand.New(rand.NewPCG(6, 7))
	for _, l := range []limit.Limit{
		{Kind: limit.SlidingLog, Count: 1000, Period: time.Second},
		{Kind: limit.SlidingLog, Count: 5, Period: time.Second},
		{Kind: limit.SlidingSlots, Count: 1000, Period: time.Second, Slots: 300},
		{Kind: limit.SlidingSlots, Count: 40, Period: time.Second},
	} {
		s := &throttleredis.Store{Do: c.Do, Prefix: "lists" + strconv.FormatUint(rng.Uint64(), 36), MaxBatch: -1}
		var k redisAccount
		now := time.UnixMicro(1_750_000_000_000_000)
		for range 3000 {
			now = now.Add(time.Duration(rng.Int64N(int64(2*time.Second)/l.Count) / 1000 * 1000))
			a := limit.Ask{Key: "a", Limit: l, N: 1 + rng.Int64N(3)}
			switch rng.IntN(40) {
			case 0:
				a.N = -rng.Int64N(l.Count)
			case 1:
				now = now.Add(-time.Duration(rng.Int64N(int64(3*time.Second)) / 1000 * 1000))
			case 2:
				a.N, a.Debt = l.Count/2, true
			case 3:
				now = now.Add(time.Duration(rng.Int64N(int64(2*time.Second)) / 1000 * 1000))
			}
			got, want := redisTakeAt(t, s, now, a), k.take(now, a)
			if want.At = got.At; got != want {
				t.Fatalf("%v, Take(%+v)\n at   %v\n got  %+v\n want %+v", l, a, now.UnixMicro(), got, want)
			}
		}
	}
}

// TestRedisSlotsRefit: under other slots than before, what was taken counts
// until its old slot has left, and later only as new slots are coarser.
func TestRedisSlotsRefit(t *testing.T) {
	c := newRedisClock(t)
	rng := rand.New(rand.NewPCG(8, 9))
	s := &throttleredis.Store{Do: c.Do, Prefix: "refit", MaxBatch: -1}
	for i := range 300 {
		var slots limit.Slots
		l := limit.Limit{Kind: limit.SlidingSlots, Count: 50, Period: time.Second, Slots: 1 + rng.Int32N(30)}
		now := time.UnixMicro(1_750_000_000_000_000)
		for range 12 {
			now = now.Add(time.Duration(rng.Int64N(200_000)) * time.Microsecond)
			a := limit.Ask{Key: strconv.Itoa(i), Limit: l, N: 1 + rng.Int64N(5), Debt: true}
			got, want := redisTakeAt(t, s, now, a), slots.Take(now, a)
			if want.At = got.At; got != want {
				t.Fatalf("%v, Take(%+v)\n at   %v\n got  %+v\n want %+v", l, a, now.UnixMicro(), got, want)
			}
			if rng.IntN(4) == 0 {
				l.Slots, l.Period = 1+rng.Int32N(30), time.Duration(1+rng.Int64N(3_000_000))*time.Microsecond
			}
		}
	}
}

// TestRedisKinds: a key that changes to a log or from it is reset, and
// between other kinds carries over what it owes.
func TestRedisKinds(t *testing.T) {
	s := &throttleredis.Store{Do: goRedis(t, rig.SharedRedis(t).Addr), Prefix: "kinds"}
	for from := limit.TokenBucket; from <= limit.CalendarWindow; from++ {
		for to := limit.TokenBucket; to <= limit.CalendarWindow; to++ {
			if from == to {
				continue
			}
			key := from.String() + to.String()
			ask := limit.Ask{Key: key, Limit: limit.Limit{Kind: from, Count: 10, Period: 12 * limit.Month}, N: 6}
			redisTake(t, s, ask)
			ask.Limit.Kind, ask.N = to, 1
			want := int64(3)
			for _, kind := range []limit.Kind{from, to} {
				if kind == limit.SlidingLog {
					want = 9
				}
			}
			if d := redisTake(t, s, ask); d.Remaining != want {
				t.Errorf("6 of 10 taken as %v, then 1 as %v: %d remain, want %d", from, to, d.Remaining, want)
			}
		}
	}
}

// TestRedisExtremes: limits so small that every microsecond matters, and so
// large that every digit does.
func TestRedisExtremes(t *testing.T) {
	c := newRedisClock(t)
	rng := rand.New(rand.NewPCG(10, 11))
	s := &throttleredis.Store{Do: c.Do, Prefix: "extremes", MaxBatch: -1}
	for i := range 240 {
		kind := []limit.Kind{limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.FirstHitWindow}[i%4]
		l := limit.Limit{Kind: kind, Count: 1 + rng.Int64N(7), Period: time.Duration(2+rng.Int64N(12)) * time.Microsecond}
		step := int64(3)
		if i%2 == i/4%2 {
			l.Count, l.Period = 1<<50-rng.Int64N(1000), 70*years-time.Duration(rng.Int64N(1e15))
			step = l.Period.Microseconds() / 50 // so that no sum of three reaches 2^53 before 2112
		}
		var k redisAccount
		k.limit = l
		now := time.UnixMicro(1_750_000_000_000_000)
		for range 40 {
			now = now.Add(time.Duration(rng.Int64N(step)) * time.Microsecond)
			a := limit.Ask{Key: strconv.Itoa(i), Limit: l, N: 1 + rng.Int64N(l.Count), Min: rng.Int64N(2), Debt: rng.IntN(9) == 0}
			if rng.IntN(9) == 0 {
				a.N = -a.N / 2
			}
			got, want := redisTakeAt(t, s, now, a), k.take(now, a)
			if want.At = got.At; got != want {
				t.Fatalf("%v, Take(%+v)\n at   %v\n got  %+v\n want %+v", l, a, now.UnixMicro(), got, want)
			}
		}
	}
}
