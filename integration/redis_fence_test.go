package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// A redisMover goes to one server, and then to another.
type redisMover struct{ to atomic.Pointer[redis.Client] }

func (m *redisMover) Do(ctx context.Context, args ...any) (any, error) {
	return clients.GoRedis(m.to.Load())(ctx, args...)
}

func (m *redisMover) point(t *testing.T, n *rig.Node) {
	t.Helper()
	c := redis.NewClient(redisPatient(clients.GoRedisOptions(n.Addr)))
	t.Cleanup(func() { c.Close() })
	m.to.Store(c)
}

// redisDrain takes what there is, and says when it took last.
func redisDrain(t *testing.T, s *throttleredis.Store, key string, l limit.Limit) (n int64, at time.Time) {
	t.Helper()
	for {
		d := redisTake(t, s, limit.Ask{Key: key, Limit: l, N: 100, Min: 1})
		n, at = n+d.N, d.At
		if !d.OK {
			return n, at
		}
	}
}

// redisInStep waits until the replica has all that the primary has written.
func redisInStep(t *testing.T, pair *rig.Replicated) {
	t.Helper()
	offset := func(n *rig.Node, name string) string {
		_, rest, _ := strings.Cut(n.Must(t, "INFO", "replication"), name+":")
		rest, _, _ = strings.Cut(rest, "\r")
		return rest
	}
	rig.Until(t, "the replica is in step", func() error {
		if p, r := offset(pair.Primary, "master_repl_offset"), offset(pair.Replica, "slave_repl_offset"); p != r {
			return fmt.Errorf("the primary is at %s, the replica at %s", p, r)
		}
		return nil
	})
}

// fencedLimits hardly refill, and have no edge, during a test.
func fencedLimits() (all []limit.Limit) {
	for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
		all = append(all, limit.Limit{Kind: kind, Count: 1000, Period: 12 * limit.Month})
	}
	return all
}

// TestRedisLossyFailover: what a primary has granted and not replicated when it
// dies is not granted again.
func TestRedisLossyFailover(t *testing.T) {
	for _, fenced := range []bool{true, false} {
		pair := rig.RedisPair(t)
		m := &redisMover{}
		m.point(t, pair.Primary)
		s := &throttleredis.Store{Do: m.Do, Unfenced: !fenced}
		minute := limit.Limit{Count: 1000, Period: time.Minute}
		ten := limit.Ask{Key: "minute", Limit: minute, N: 10}
		begun := redisTake(t, s, ten).At
		for _, l := range fencedLimits() {
			redisTake(t, s, limit.Ask{Key: "lost " + l.Kind.String(), Limit: l, N: 10})
		}
		redisInStep(t, pair)
		pair.Link.Set(rig.Fault{Stall: true})
		before, _ := redisDrain(t, s, "minute", minute)
		took := map[limit.Kind]int64{}
		for _, l := range fencedLimits() {
			took[l.Kind], _ = redisDrain(t, s, "lost "+l.Kind.String(), l)
			took[l.Kind] += 10
		}
		pair.Primary.Kill()
		pair.Replica.Promote(t)
		m.point(t, pair.Replica)
		after, end := redisDrain(t, s, "minute", minute)
		total, most := 10+before+after, 1000+int64(end.Sub(begun).Seconds()*1000/60)
		t.Logf("fenced %v: 1000 a minute: %d + %d admitted, %d with the refill of %v", fenced, 10+before, after, most, end.Sub(begun))
		if (total <= most) != fenced {
			t.Errorf("1000 a minute, fenced %v: %d admitted over both, want at most %d: %v", fenced, total, most, fenced)
		}
		for _, l := range fencedLimits() {
			n, _ := redisDrain(t, s, "lost "+l.Kind.String(), l)
			if n += took[l.Kind]; (n <= 1000) != fenced {
				t.Errorf("%v, fenced %v: %d admitted over both, want at most 1000: %v", l.Kind, fenced, n, fenced)
			}
		}
		if c := s.Stats(); (c.Replaced == 1) != fenced {
			t.Errorf("after one fail-over, fenced %v, Stats() = %+v", fenced, c)
		}
	}
}

// processOf is the run_id of a server.
func processOf(t *testing.T, n *rig.Node) string {
	t.Helper()
	_, rest, _ := strings.Cut(n.Must(t, "INFO", "server"), "run_id:")
	if len(rest) < 40 {
		t.Fatalf("%s has no run_id", n.Addr)
	}
	return rest[:40]
}

// TestRedisRestarts: who restarts has lost what it has not saved.
func TestRedisRestarts(t *testing.T) {
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	for _, c := range []struct {
		name  string
		saves bool // what was taken first
		other bool // another Store asks first afterwards
		store *throttleredis.Store
		want  int64
	}{
		{name: "from an old file", saves: true, want: 0},
		{name: "from an old file, asked by another", saves: true, other: true, want: 0},
		{name: "with nothing", want: 0},
		{name: "with nothing, asked by another", other: true, want: 10},
		{name: "with nothing, strict, asked by another", other: true, store: &throttleredis.Store{Strict: true}, want: 0},
		{name: "from an old file, unfenced", saves: true, store: &throttleredis.Store{Unfenced: true}, want: 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			node := rig.Redis(t)
			if c.store == nil {
				c.store = new(throttleredis.Store)
			}
			first := &throttleredis.Store{Do: goRedis(t, node.Addr), Unfenced: c.store.Unfenced}
			redisTake(t, first, limit.Ask{Key: "a", Limit: ten, N: 1})
			if c.saves {
				node.Must(t, "SAVE")
			}
			if n, _ := redisDrain(t, first, "a", ten); n != 9 {
				t.Fatalf("took %d of the 9 that were left", n)
			}
			node.Kill()
			node.Restart(t)
			c.store.Do = first.Do
			asked := first
			if c.other {
				asked = c.store
			}
			if n, _ := redisDrain(t, asked, "a", ten); n != c.want {
				t.Errorf("after the restart %d pass, want %d", n, c.want)
			}
		})
	}
}

// TestRedisBornAgain: a Store that knows better corrects one that took an empty
// Redis for a new one.
func TestRedisBornAgain(t *testing.T) {
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	node := rig.Redis(t)
	old, other := &throttleredis.Store{Do: goRedis(t, node.Addr)}, &throttleredis.Store{Do: goRedis(t, node.Addr)}
	redisTake(t, old, limit.Ask{Key: "a", Limit: ten, N: 10})
	node.Kill()
	node.Restart(t)
	redisTake(t, other, limit.Ask{Key: "b", Limit: ten, N: 1})
	if d := redisTake(t, old, limit.Ask{Key: "d", Limit: ten, N: 1}); d.OK {
		t.Errorf("one of another key passes: %+v", d)
	}
	for _, key := range []string{"a", "b"} {
		if n, _ := redisDrain(t, old, key, ten); n != 0 {
			t.Errorf("%d of key %s pass, want none", n, key)
		}
	}
	if n, _ := redisDrain(t, other, "c", ten); n != 0 {
		t.Errorf("%d pass for the other Store, want none either", n)
	}
}

// TestRedisPlannedFailover: a process that was announced, and has all that was
// written, goes on where the other stopped; the next one does not.
func TestRedisPlannedFailover(t *testing.T) {
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	pair := rig.RedisPair(t)
	m := &redisMover{}
	m.point(t, pair.Primary)
	s := &throttleredis.Store{Do: m.Do, Slots: 3}
	for _, key := range []string{"a", "b", "c", "d"} {
		redisTake(t, s, limit.Ask{Key: key, Limit: ten, N: 4})
	}
	if err := s.Expect(t.Context(), processOf(t, pair.Replica), time.Minute); err != nil {
		t.Fatal(err)
	}
	redisInStep(t, pair)
	pair.Primary.Kill()
	pair.Replica.Promote(t)
	m.point(t, pair.Replica)
	for _, key := range []string{"a", "b", "c", "d"} {
		if n, _ := redisDrain(t, s, key, ten); n != 6 {
			t.Errorf("%d of key %s pass after the planned fail-over, want 6", n, key)
		}
	}
	pair.Replica.Must(t, "SAVE")
	pair.Replica.Kill()
	pair.Replica.Restart(t)
	pair.Replica.Promote(t) // it is a replica again, by its arguments
	for _, key := range []string{"a", "e"} {
		if n, _ := redisDrain(t, s, key, ten); n != 0 {
			t.Errorf("%d of key %s pass after another restart, want none", n, key)
		}
	}
	if err := s.Expect(t.Context(), "short", time.Minute); err == nil {
		t.Error("Expect of no run_id: no error")
	}
}

// TestRedisSameProcess: a replication id that changes in a running process, as
// when its last replica has been gone for an hour, loses nothing, and no Store
// counts it as a server that was replaced.
func TestRedisSameProcess(t *testing.T) {
	node := rig.Redis(t, "--enable-debug-command", "yes")
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	s, other := &throttleredis.Store{Do: goRedis(t, node.Addr)}, &throttleredis.Store{Do: goRedis(t, node.Addr)}
	redisTake(t, s, limit.Ask{Key: "a", Limit: ten, N: 4})
	redisTake(t, other, limit.Ask{Key: "b", Limit: ten, N: 4})
	node.Must(t, "DEBUG", "CHANGE-REPL-ID")
	for s, key := range map[*throttleredis.Store]string{s: "a", other: "b"} {
		if n, _ := redisDrain(t, s, key, ten); n != 6 || s.Stats().Replaced != 0 {
			t.Errorf("%d of %s pass after the replication id changed, Stats %+v; want 6, and nothing replaced", n, key, s.Stats())
		}
	}
}

// TestRedisOverlap: as long as the old one may answer, nothing passes.
func TestRedisOverlap(t *testing.T) {
	c := newRedisClock(t)
	start := time.UnixMicro(1_700_000_000_000_000)
	prefix := fmt.Sprint("overlap", rand.Int())
	s := &throttleredis.Store{Do: c.Do, Prefix: prefix, MaxBatch: -1, Overlap: 3 * time.Second}
	for _, l := range fencedLimits() {
		l.Period = 50 * time.Second
		key := l.Kind.String()
		redisTakeAt(t, s, start, limit.Ask{Key: key, Limit: l, N: 1})
		c.change(t, prefix+"{0}")
		for _, after := range []time.Duration{0, 2999 * time.Millisecond, 3 * time.Second} {
			d := redisTakeAt(t, s, start.Add(after), limit.Ask{Key: key, Limit: l, N: 1000, Min: 1})
			if d.N != 0 {
				t.Errorf("%v, %v after the fail-over: %d pass, want none", l.Kind, after, d.N)
			}
		}
		d := redisTakeAt(t, s, start.Add(33*time.Second), limit.Ask{Key: key, Limit: l, N: 1000, Min: 1})
		exact := l.Kind == limit.TokenBucket               // so that a look meanwhile has put nothing off
		if d.N > 600 || d.N < 400 || exact && d.N != 600 { // slots give back up to two parts late
			t.Errorf("%v, 30 s after the overlap, at 20 a second: %d pass, want 400 to 600", l.Kind, d.N)
		}
	}
}

// change makes the fence be of another process.
func (c *redisClock) change(t *testing.T, fence string) {
	t.Helper()
	if _, err := c.do(t.Context(), "SET", fence, strings.Repeat("\x00", 7)+"master_replid:"+strings.Repeat("a", 80)); err != nil {
		t.Fatal(err)
	}
}

func redisTakeAt(t *testing.T, s *throttleredis.Store, now time.Time, a limit.Ask) limit.Decision {
	t.Helper()
	d := make([]limit.Decision, 1)
	if _, err := s.Take(redisAt(t.Context(), now), []limit.Ask{a}, d); err != nil {
		t.Fatalf("Take(%+v): error %v", a, err)
	}
	return d[0]
}

// TestRedisFenceRefills: after a fail-over a key is as if all had been used, and
// refills evenly; whatever of it the new process has got.
func TestRedisFenceRefills(t *testing.T) {
	c := newRedisClock(t)
	rng := rand.New(rand.NewPCG(4, 5))
	s := &throttleredis.Store{Do: c.Do, Prefix: "refill", MaxBatch: -1}
	for i := range 400 {
		kind := limit.Kind(i % 7)
		l := limit.Limit{Kind: kind, Count: redisSize(rng, 1e6), Period: time.Duration(redisSize(rng, 1e6)+100) * time.Millisecond}
		if kind == limit.CalendarWindow {
			l.Period = time.Hour
		}
		key := strconv.Itoa(i)
		ask := limit.Ask{Key: key, Limit: l, N: 1 + rng.Int64N(l.Count), Debt: rng.IntN(2) == 0}
		fence := time.UnixMicro(1_700_000_000_000_000 + rng.Int64N(1e12))
		if rng.IntN(3) > 0 { // what the new process has got
			redisTakeAt(t, s, fence.Add(-time.Duration(rng.Int64N(int64(l.Period)))), ask)
		}
		c.change(t, "refill{0}")
		redisTakeAt(t, s, fence, limit.Ask{Key: key, Limit: l})
		refillsEvenly(t, s, rng, fence, key, l, !ask.Debt)
	}
}

// refillsEvenly takes what there is, now and then for a Period: never more than
// has refilled since the fence, and if nothing was owed, hardly less.
func refillsEvenly(t *testing.T, s *throttleredis.Store, rng *rand.Rand, fence time.Time, key string, l limit.Limit, all bool) {
	t.Helper()
	got := int64(0)
	for now := fence; ; {
		into := now.Sub(fence)
		edge := l.Kind == limit.FixedWindow && now.UnixMicro()/l.Period.Microseconds() > fence.UnixMicro()/l.Period.Microseconds() ||
			l.Kind == limit.CalendarWindow && now.Truncate(time.Hour).After(fence)
		if into > l.Period || edge {
			break
		}
		got += redisTakeAt(t, s, now, limit.Ask{Key: key, Limit: l, N: l.Count, Min: 1}).N
		most := float64(l.Count) * float64(into) / float64(l.Period)
		if l.Kind == limit.SlidingWindow {
			most += 0.5 // it rounds to the nearest
		}
		least := most - 1
		switch l.Kind { // these refill in steps
		case limit.SlidingLog:
			least -= float64(l.Count) / 32
		case limit.SlidingSlots:
			least -= float64(l.Count) / 5
		}
		if got > int64(most*(1+1e-9)+1e-9) || all && float64(got) < least*(1-1e-9)-1 {
			t.Errorf("%v, %v after a fail-over: %d admitted since, want %.1f to %.1f", l, into, got, least, most)
			return
		}
		now = now.Add(time.Duration(rng.Int64N(int64(l.Period) / 10))).Truncate(time.Microsecond)
	}
	after := fence.Add(3 * l.Period)
	if d := redisTakeAt(t, s, after, limit.Ask{Key: key, Limit: l, N: l.Count}); !d.OK {
		t.Errorf("%v, three Periods after a fail-over: %+v, want all of it", l, d)
	}
}
