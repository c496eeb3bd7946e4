package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// redisSpoil is what something else may have written into a key.
func redisSpoil(name string) map[string][]any {
	return map[string][]any{
		"a list":           {"RPUSH", name, "x"},
		"a hash":           {"HSET", name, "x", "y"},
		"a stream":         {"XADD", name, "*", "x", "y"},
		"nothing":          {"SET", name, ""},
		"a byte":           {"SET", name, "\x00"},
		"text":             {"SET", name, "hello, world: some text of a program"},
		"a number":         {"SET", name, "42"},
		"zeros":            {"SET", name, strings.Repeat("\x00", 40)},
		"ones":             {"SET", name, strings.Repeat("\xff", 35)},
		"half a state":     {"SET", name, "\x00\x04\x0a\x80\xc2\xd7\x01\x02\x03"},
		"a wrong limit":    {"SET", name, "\x00\x02\x80\x80" + strings.Repeat("\x07", 14)},
		"half a log":       {"SET", name, strings.Repeat("\x00", 30)},
		"a log of nothing": {"SET", name, strings.Repeat("\x00", 21)},
		"another format":   {"SET", name, "\x08\x02\x0a\x0b" + strings.Repeat("\x06", 14)},
	}
}

// TestRedisSpoiltKeys: a key that something else has written fails the asks for
// it, in words that name it and with nothing charged, alone and beside others,
// and keeps what it has; all others are answered.
func TestRedisSpoiltKeys(t *testing.T) {
	node := rig.Redis(t)
	do := goRedis(t, node.Addr)
	for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
		l := limit.Limit{Kind: kind, Count: 10, Period: 12 * limit.Month}
		for what := range redisSpoil("") {
			s := &throttleredis.Store{Do: do, Prefix: fmt.Sprint(int(kind), what)}
			mark := ":"
			if kind == limit.SlidingLog {
				mark = "="
			}
			name := s.Prefix + "{0}" + mark + "bad"
			node.Must(t, redisSpoil(name)[what]...)
			before := node.Must(t, "DUMP", name)
			redisTake(t, s, limit.Ask{Key: "good", Limit: l, N: 1})
			for _, asks := range [][]limit.Ask{
				{{Key: "bad", Limit: l, N: 1}},
				{{Key: "bad", Limit: l}},
				{{Key: "bad", Limit: l, N: -1}},
				{{Key: "good", Limit: l, N: 1}, {Key: "bad", Limit: l, N: 1}},
				{{Key: "bad", Limit: l, N: 1}, {Key: "new", Limit: l, N: 1}},
			} {
				_, err := s.Take(t.Context(), asks, make([]limit.Decision, len(asks)))
				var e *throttleredis.Error
				if !errors.As(err, &e) || e.Charged || !strings.Contains(err.Error(), `key "bad"`) || !strings.Contains(err.Error(), "delete it") {
					t.Errorf("%v, %s, Take(%+v): error %v, want one that names the key, and nothing charged", kind, what, asks, err)
				}
			}
			if after := node.Must(t, "DUMP", name); after != before {
				t.Errorf("%v: a key that holds %s was overwritten", kind, what)
			}
			for key, want := range map[string]int64{"good": 9, "new": 10} {
				if d := redisTake(t, s, limit.Ask{Key: key, Limit: l}); d.Remaining != want {
					t.Errorf("%v, %s: %d of key %s remain, want %d", kind, what, d.Remaining, key, want)
				}
			}
		}
	}
}

// TestRedisSpoiltBatches: who shares a call with an ask for a spoilt key is
// answered, and the key keeps what it has.
func TestRedisSpoiltBatches(t *testing.T) {
	node := rig.Redis(t)
	for what := range redisSpoil("") {
		spoiltBatch(t, node, what, 7)
		spoiltBatch(t, node, what, 1) // buckets alone
	}
}

// spoiltBatch asks for keys of so many kinds, and for one that is spoilt.
func spoiltBatch(t *testing.T, node *rig.Node, what string, kinds int) {
	s := &throttleredis.Store{Do: goRedis(t, node.Addr), Prefix: fmt.Sprint(what, kinds)}
	name := s.Prefix + "{0}:bad"
	node.Must(t, redisSpoil(name)[what]...)
	node.Must(t, redisSpoil(s.Prefix + "{0}=bad")[what]...)
	before := node.Must(t, "DUMP", name)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for round := range 20 {
				kind := limit.Kind((i + round) % kinds)
				a := limit.Ask{Key: fmt.Sprint(i, kind), Limit: limit.Limit{Kind: kind, Count: 1000, Period: 12 * limit.Month}, N: 1}
				bad := i%16 == 0
				if bad {
					a.Key = "bad"
				}
				_, err := s.Take(context.Background(), []limit.Ask{a}, make([]limit.Decision, 1))
				if (err != nil) != bad {
					t.Errorf("%s in another key, Take(%q, %v): error %v", what, a.Key, kind, err)
				}
			}
		})
	}
	all.Wait()
	if after := node.Must(t, "DUMP", name); after != before {
		t.Errorf("%d kinds: a key that holds %s was overwritten", kinds, what)
	}
}

// TestRedisTwoLimits: processes that hold two versions of a limit for some time,
// and ask one key all at once, get no error; no more passes than under the larger
// limit, and hardly less than under the smaller.
func TestRedisTwoLimits(t *testing.T) {
	t.Parallel()
	node := rig.Redis(t)
	second := func(kind limit.Kind, count int64) limit.Limit {
		return limit.Limit{Kind: kind, Count: count, Period: time.Second}
	}
	for name, pair := range map[string][2]limit.Limit{
		"buckets":           {second(limit.TokenBucket, 500), second(limit.TokenBucket, 1000)},
		"a longer period":   {second(limit.TokenBucket, 1000), {Count: 30_000, Period: time.Minute, Burst: 700}},
		"windows":           {second(limit.FixedWindow, 500), second(limit.FixedWindow, 1000)},
		"sliding windows":   {second(limit.SlidingWindow, 500), second(limit.SlidingWindow, 1000)},
		"first-hit windows": {second(limit.FirstHitWindow, 500), second(limit.FirstHitWindow, 1000)},
		"slots":             {second(limit.SlidingSlots, 500), second(limit.SlidingSlots, 1000)},
		"bucket and window": {second(limit.TokenBucket, 1000), second(limit.SlidingWindow, 1000)},
		"bucket and slots":  {second(limit.TokenBucket, 1000), second(limit.SlidingSlots, 1000)},

		// The smaller cannot owe what the larger admits.
		"fewer of a bucket":            {second(limit.TokenBucket, 20), second(limit.TokenBucket, 1000)},
		"fewer of a window":            {second(limit.FixedWindow, 20), second(limit.FixedWindow, 1000)},
		"fewer of a sliding window":    {second(limit.SlidingWindow, 20), second(limit.SlidingWindow, 1000)},
		"fewer of a first-hit window":  {second(limit.FirstHitWindow, 20), second(limit.FirstHitWindow, 1000)},
		"fewer of slots":               {second(limit.SlidingSlots, 20), second(limit.SlidingSlots, 1000)},
		"slots, and fewer of a bucket": {second(limit.TokenBucket, 20), second(limit.SlidingSlots, 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			taken, end := twoLimits(t, node.Addr, pair)
			first := taken[0].At
			for _, d := range taken {
				if d.At.Before(first) {
					first = d.At
				}
			}
			var n int64
			for _, d := range taken {
				n += d.N
			}
			took := end.Sub(first).Seconds()
			// The burst and the refill; windows may pass one more at an edge.
			// A machine under load asks for less than that.
			fewer := float64(min(pair[0].Count, 500)) / 1.25
			most, least := int64(1000+1000*took), min(int64(fewer*took), int64(len(taken)/4))
			if pair[0].Kind == limit.FixedWindow || pair[0].Kind == limit.FirstHitWindow {
				most += 1000
			}
			t.Logf("%d of %d admitted in %.1f s, want %d to %d", n, len(taken), took, least, most)
			if n > most+2 || n < least {
				t.Errorf("eight Stores that alternate between %v: %d admitted in %.1f s, want %d to %d", pair, n, took, least, most)
			}
		})
	}
}

// twoLimits has eight Stores ask for one key, two callers each, under one limit
// and then the other, for a second and a half by the clock of Redis.
func twoLimits(t *testing.T, addr string, pair [2]limit.Limit) (taken []limit.Decision, end time.Time) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 8 {
		s := &throttleredis.Store{Do: goRedis(t, addr), Prefix: t.Name()}
		for range 2 {
			all.Go(func() {
				var until time.Time
				for turn := i; ; turn++ {
					d := make([]limit.Decision, 1)
					if _, err := s.Take(context.Background(), []limit.Ask{{Key: "k", Limit: pair[turn%2], N: 1}}, d); err != nil {
						t.Errorf("Take under %v: %v", pair[turn%2], err)
						return
					}
					if until.IsZero() {
						until = d[0].At.Add(1500 * time.Millisecond)
					}
					mu.Lock()
					taken = append(taken, d[0])
					if d[0].At.After(end) {
						end = d[0].At
					}
					mu.Unlock()
					if d[0].At.After(until) {
						return
					}
				}
			})
		}
	}
	all.Wait()
	return taken, end
}
