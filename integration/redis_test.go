package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttletest"
)

func goRedis(t testing.TB, addr string) throttleredis.Do {
	t.Helper()
	c := redis.NewClient(redisPatient(clients.GoRedisOptions(addr)))
	t.Cleanup(func() { c.Close() })
	return clients.GoRedis(c)
}

// redisPatient are options for tests that do not look at time, on a busy machine.
func redisPatient(o *redis.Options) *redis.Options {
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 30*time.Second, 30*time.Second, 30*time.Second
	return o
}

func rueidisPatient(o rueidis.ClientOption) rueidis.ClientOption {
	o.ConnWriteTimeout, o.Dialer.Timeout = 30*time.Second, 30*time.Second
	return o
}

func valkeyPatient(o valkey.ClientOption) valkey.ClientOption {
	o.ConnWriteTimeout, o.Dialer.Timeout = 30*time.Second, 30*time.Second
	return o
}

func redigoPatient(p *redigo.Pool, addr string, o ...redigo.DialOption) *redigo.Pool {
	p.DialContext = func(ctx context.Context) (redigo.Conn, error) { return redigo.DialContext(ctx, "tcp", addr, o...) }
	return p
}

// redisClients are those that a server alone is tried through.
func redisClients(t *testing.T, addr string) map[string]throttleredis.Do {
	t.Helper()
	ro := rueidisPatient(clients.RueidisOptions(addr))
	r := connected(t, func() (rueidis.Client, error) { return rueidis.NewClient(ro) })
	t.Cleanup(r.Close)
	vo := valkeyPatient(clients.ValkeyOptions(addr))
	v := connected(t, func() (valkey.Client, error) { return valkey.NewClient(vo) })
	t.Cleanup(v.Close)
	pool := redigoPatient(clients.RedigoPool(addr), addr)
	t.Cleanup(func() { pool.Close() })
	return map[string]throttleredis.Do{
		"go-redis": goRedis(t, addr), "rueidis": clients.Rueidis(r), "valkey-go": clients.Valkey(v), "redigo": clients.Redigo(pool),
	}
}

func TestRedisClients(t *testing.T) {
	for name, do := range redisClients(t, rig.SharedRedis(t).Addr) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			throttletest.TestStore(t, &throttleredis.Store{Do: do, Prefix: name})
		})
	}
}

func TestRedisUnbatched(t *testing.T) {
	throttletest.TestStore(t, &throttleredis.Store{Do: goRedis(t, rig.SharedRedis(t).Addr), MaxBatch: -1, Unfenced: true, Slots: 100})
}

func TestValkey(t *testing.T) {
	throttletest.TestStore(t, &throttleredis.Store{Do: goRedis(t, rig.Valkey(t).Addr)})
}

func TestRedis8(t *testing.T) {
	node := rig.Redis8(t)
	throttletest.TestStore(t, &throttleredis.Store{Do: goRedis(t, node.Addr)})
	if v := node.Must(t, "INFO", "server"); !strings.Contains(v, "redis_version:8.") {
		t.Errorf("the server says it is %.60q, want Redis 8", v)
	}
}

func TestRedisCluster(t *testing.T) {
	cluster := rig.SharedCluster(t)
	o := clients.GoRedisClusterOptions(cluster.Addrs()...)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 30*time.Second, 30*time.Second, 30*time.Second
	g := redis.NewClusterClient(o)
	defer g.Close()
	ro := rueidisPatient(clients.RueidisOptions(cluster.Addrs()...))
	r := connected(t, func() (rueidis.Client, error) { return rueidis.NewClient(ro) })
	defer r.Close()
	vo := valkeyPatient(clients.ValkeyOptions(cluster.Addrs()...))
	v := connected(t, func() (valkey.Client, error) { return valkey.NewClient(vo) })
	defer v.Close()
	for name, do := range map[string]throttleredis.Do{
		"go-redis": clients.GoRedis(g), "rueidis": clients.Rueidis(r), "valkey-go": clients.Valkey(v),
	} {
		s := &throttleredis.Store{Do: do, Prefix: name, Slots: 64}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		throttletest.TestStore(t, s)
	}
}

// redisTake asks one question that must have an answer.
func redisTake(t testing.TB, s *throttleredis.Store, a limit.Ask) limit.Decision {
	t.Helper()
	d := make([]limit.Decision, 1)
	if _, err := s.Take(t.Context(), []limit.Ask{a}, d); err != nil {
		t.Fatalf("Take(%+v): error %v", a, err)
	}
	return d[0]
}

// redisCounter is a Do that counts what it is asked to do.
type redisCounter struct {
	do    throttleredis.Do
	calls atomic.Int64
	mu    sync.Mutex
	names map[string]int
}

func (c *redisCounter) Do(ctx context.Context, args ...any) (any, error) {
	c.calls.Add(1)
	c.mu.Lock()
	if c.names == nil {
		c.names = map[string]int{}
	}
	c.names[args[0].(string)]++
	c.mu.Unlock()
	return c.do(ctx, args...)
}

// TestRedisCalls: one call for each decision, two where the script is not known,
// and two where the limit is another and something is to be written.
func TestRedisCalls(t *testing.T) {
	node := rig.Redis(t)
	c := &redisCounter{do: goRedis(t, node.Addr)}
	s := &throttleredis.Store{Do: c.Do}
	hour := limit.Limit{Count: 10, Period: time.Hour}
	fewer := limit.Limit{Count: 5, Period: time.Hour}
	for i, step := range []struct {
		do   func()
		asks []limit.Ask
		want int64
	}{
		{nil, []limit.Ask{{Key: "a", Limit: hour, N: 1}}, 2},
		{nil, []limit.Ask{{Key: "a", Limit: hour, N: 1}}, 1},
		{nil, []limit.Ask{{Key: "a", Limit: hour, N: 1}, {Key: "b", Limit: hour, N: 100}}, 1},
		{nil, []limit.Ask{{Key: "a", Limit: fewer}}, 1},
		{nil, []limit.Ask{{Key: "a", Limit: fewer, N: 1}}, 2},
		{nil, []limit.Ask{{Key: "a", Limit: fewer, N: 1}}, 1},
		{nil, []limit.Ask{{Key: "a", N: 1}}, 0},
		{func() { node.Must(t, "SCRIPT", "FLUSH") }, []limit.Ask{{Key: "a", Limit: fewer, N: 1}}, 2},
		{nil, []limit.Ask{{Key: "c", Limit: limit.Limit{Kind: limit.CalendarWindow, Count: 5, Period: limit.Month}, N: 1}}, 1},
		{nil, []limit.Ask{{Key: "c", Limit: limit.Limit{Kind: limit.CalendarWindow, Count: 5, Period: limit.Month}, N: 1}}, 1},
	} {
		if step.do != nil {
			step.do()
		}
		before := c.calls.Load()
		if _, err := s.Take(t.Context(), step.asks, make([]limit.Decision, len(step.asks))); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got := c.calls.Load() - before; got != step.want {
			t.Errorf("step %d, Take(%+v): %d calls, want %d", i, step.asks, got, step.want)
		}
	}
	if d := redisTake(t, s, limit.Ask{Key: "a", Limit: fewer}); d.Remaining != 0 {
		t.Errorf("after 5 of 5: %+v, want none remaining", d)
	}
}

// TestRedisExpiry: every key lives until a second after there is nothing to
// remember, for every kind, and a refusal and a peek write nothing.
func TestRedisExpiry(t *testing.T) {
	node := rig.Redis(t)
	s := &throttleredis.Store{Do: goRedis(t, node.Addr)}
	for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
		l := limit.Limit{Kind: kind, Count: 3, Period: time.Hour}
		ask := limit.Ask{Key: "e", Limit: l}
		node.Must(t, "FLUSHDB")
		redisTake(t, s, ask)
		ask.N = 4
		redisTake(t, s, ask)
		if n := node.Must(t, "DBSIZE"); n != "1" {
			t.Errorf("%v: after a peek and a refusal there are %s keys, want the fence alone", kind, n)
		}
		ask.N = 2
		d := redisTake(t, s, ask)
		key := "throttle:{0}:e"
		if kind == limit.SlidingLog {
			key = "throttle:{0}=e"
		}
		var ms int64
		fmt.Sscan(node.Must(t, "PTTL", key), &ms)
		late := ms - d.ResetAfter.Milliseconds()
		if late > 1001 || late < -rigPatience {
			t.Errorf("%v: expires in %d ms, and is full in %v: want a second later", kind, ms, d.ResetAfter)
		}
		size := node.Must(t, "MEMORY", "USAGE", key)
		t.Logf("%v: MEMORY USAGE of a key of %d bytes: %s", kind, len(key), size)
		ask.N = -2
		redisTake(t, s, ask)
		if n := node.Must(t, "EXISTS", key); n != "0" {
			t.Errorf("%v: when all was given back there is still a key", kind)
		}
	}
}

// rigPatience is how long, in milliseconds, a busy machine may be between two
// commands.
const rigPatience = 30_000

func TestRedisCheck(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--maxmemory", "20mb"}, ""},
		{[]string{"--maxmemory-policy", "allkeys-lru"}, ""},
		{[]string{"--maxmemory", "20mb", "--maxmemory-policy", "volatile-ttl"}, "maxmemory 20971520, maxmemory-policy volatile-ttl"},
	} {
		err := (&throttleredis.Store{Do: goRedis(t, rig.Redis(t, c.args...).Addr)}).Check(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("Check of a redis-server %v = %v, want %q", c.args, err, c.want)
		}
	}
}
