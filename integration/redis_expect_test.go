package integration

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// TestRedisExpectEnds: a planned fail-over that was given up, by its time or by
// Unexpect, does not make a later one that loses writes a planned one.
func TestRedisExpectEnds(t *testing.T) {
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	for _, c := range []struct {
		name   string
		within time.Duration
		undo   bool
		again  bool // announced once more at the end
		want   int64
	}{
		{"holds", time.Minute, false, false, 10},
		{"ends", time.Microsecond, false, false, 0},
		{"taken back", time.Minute, true, false, 0},
		{"taken back and announced again", time.Minute, true, true, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pair := rig.RedisPair(t)
			m := &redisMover{}
			m.point(t, pair.Primary)
			s := &throttleredis.Store{Do: m.Do, Slots: 3}
			keys := []string{"a", "b", "c", "d"}
			for _, key := range keys {
				redisTake(t, s, limit.Ask{Key: key, Limit: ten})
			}
			steps := []func() error{func() error { return s.Expect(t.Context(), processOf(t, pair.Replica), c.within) }}
			if c.undo {
				steps = append(steps, func() error { return s.Unexpect(t.Context()) })
			}
			if c.again {
				steps = append(steps, steps[0])
			}
			for _, step := range steps {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			redisInStep(t, pair)
			pair.Link.Set(rig.Fault{Stall: true})
			pair.Primary.Kill()
			pair.Replica.Promote(t)
			m.point(t, pair.Replica)
			for _, key := range keys {
				if n, _ := redisDrain(t, s, key, ten); n != c.want {
					t.Errorf("%d of key %s pass after the fail-over, want %d", n, key, c.want)
				}
			}
		})
	}
}

func TestRedisExpectRefuses(t *testing.T) {
	s := &throttleredis.Store{Do: goRedis(t, rig.SharedRedis(t).Addr), Prefix: t.Name()}
	for _, c := range []struct {
		process string
		within  time.Duration
	}{
		{"short", time.Minute},
		{"", time.Minute},
		{strings.Repeat("a", 40), 0},
		{strings.Repeat("a", 40), -1},
		{strings.Repeat("a", 40), throttleredis.MaxExpect + 1},
	} {
		if err := s.Expect(t.Context(), c.process, c.within); err == nil {
			t.Errorf("Expect(%q, %v): no error", c.process, c.within)
		}
	}
	if err := s.Unexpect(t.Context()); err != nil {
		t.Errorf("Unexpect without any announcement: %v", err)
	}
}

// TestRedisFlushed: that all keys are gone is counted, once for each slot and by
// each Store that was answered before, and is no fail-over.
func TestRedisFlushed(t *testing.T) {
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	for _, how := range []string{"FLUSHALL", "FLUSHDB"} {
		node := rig.Redis(t)
		do := goRedis(t, node.Addr)
		for _, c := range []struct {
			s        *throttleredis.Store
			flushed  int64
			replaced int64
			passes   int64
		}{
			{&throttleredis.Store{Do: do, Prefix: "one"}, 1, 0, 10},
			{&throttleredis.Store{Do: do, Prefix: "many", Slots: 64}, 2, 0, 10},
			{&throttleredis.Store{Do: do, Prefix: "strict", Strict: true}, 0, 1, 0},
		} {
			other := &throttleredis.Store{Do: do, Prefix: c.s.Prefix, Slots: c.s.Slots, Strict: c.s.Strict}
			for _, s := range []*throttleredis.Store{c.s, other} {
				redisTake(t, s, limit.Ask{Key: "a", Limit: ten, N: 1})
				redisTake(t, s, limit.Ask{Key: "b", Limit: ten, N: 1})
			}
			node.Must(t, how)
			n, _ := redisDrain(t, c.s, "a", ten)
			redisTake(t, c.s, limit.Ask{Key: "b", Limit: ten})
			if got := c.s.Stats(); got.Flushed != c.flushed || got.Replaced != c.replaced || n != c.passes {
				t.Errorf("%s, Store %s: %d pass and Stats() = %+v, want %d, Flushed %d, Replaced %d", how, c.s.Prefix, n, got, c.passes, c.flushed, c.replaced)
			}
			redisTake(t, other, limit.Ask{Key: "a", Limit: ten})
			redisTake(t, other, limit.Ask{Key: "b", Limit: ten})
			if got := other.Stats(); got.Flushed != c.flushed || got.Replaced != c.replaced {
				t.Errorf("%s, another Store %s: Stats() = %+v, want Flushed %d, Replaced %d", how, c.s.Prefix, got, c.flushed, c.replaced)
			}
		}
	}
}

// TestRedisExpectClocks: a planned fail-over is one where the clocks differ, by
// less than a minute.
func TestRedisExpectClocks(t *testing.T) {
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	for _, off := range []time.Duration{-30 * time.Second, 30 * time.Second} {
		clock := rig.NewClock(t)
		clock.Shift(t, off)
		primary := rig.Redis(t)
		replica := clock.Redis(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.Port))
		rig.Until(t, "the replica follows", func() error { return replica.Says("replication", "master_link_status:up") })
		m := &redisMover{}
		m.point(t, primary)
		stores := []*throttleredis.Store{{Do: m.Do}, {Do: m.Do}, {Do: m.Do}}
		for _, s := range stores {
			redisTake(t, s, limit.Ask{Key: "a", Limit: ten, N: 1})
			redisTake(t, s, limit.Ask{Key: "a", Limit: ten})
		}
		if err := stores[0].Expect(t.Context(), processOf(t, replica), 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		redisInStep(t, &rig.Replicated{Primary: primary, Replica: replica})
		primary.Kill()
		replica.Promote(t)
		m.point(t, replica)
		for i, s := range stores {
			if d := redisTake(t, s, limit.Ask{Key: "a", Limit: ten, N: 1}); !d.OK {
				t.Errorf("clock off by %v, Store %d after a planned fail-over: %+v, want one of the 7 that are left", off, i, d)
			}
		}
	}
}
