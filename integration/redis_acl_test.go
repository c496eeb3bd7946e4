package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttletest"
)

// redisRules are those of docs/redis.md.
const redisRules = "on >secret resetkeys ~throttle:* resetchannels -@all +eval +evalsha +time +info " +
	"+get +mget +exists +strlen +getrange +set +setrange +append +pexpire +del " +
	"+hello +ping +cluster|slots +cluster|shards"

// redisUser makes a user of a server.
func redisUser(t *testing.T, n *rig.Node, name, rules string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset"}
	for _, rule := range strings.Fields(rules) {
		args = append(args, rule)
	}
	n.Must(t, args...)
}

// redisUsers are the clients of a server as a user.
func redisUsers(t *testing.T, addr, user string) map[string]throttleredis.Do {
	t.Helper()
	o := redisPatient(clients.GoRedisOptions(addr))
	o.Username, o.Password = user, "secret"
	g := goredis.NewClient(o)
	ro := rueidisPatient(clients.RueidisOptions(addr))
	ro.Username, ro.Password = user, "secret"
	r := connected(t, func() (rueidis.Client, error) { return rueidis.NewClient(ro) })
	vo := valkeyPatient(clients.ValkeyOptions(addr))
	vo.Username, vo.Password = user, "secret"
	v := connected(t, func() (valkey.Client, error) { return valkey.NewClient(vo) })
	pool := redigoPatient(clients.RedigoPool(addr), addr, redis.DialUsername(user), redis.DialPassword("secret"))
	t.Cleanup(func() { g.Close(); r.Close(); v.Close(); pool.Close() })
	return map[string]throttleredis.Do{
		"go-redis": clients.GoRedis(g), "rueidis": clients.Rueidis(r), "valkey-go": clients.Valkey(v), "redigo": clients.Redigo(pool),
	}
}

// TestRedisRestrictedUser: the rules of docs/redis.md are all that a Store needs,
// through each client.
func TestRedisRestrictedUser(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *rig.Node{
		"Redis": rig.Redis, "Redis 8": rig.Redis8, "Valkey": rig.Valkey,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := start(t)
			redisUser(t, node, "throttle", redisRules)
			for client, do := range redisUsers(t, node.Addr, "throttle") {
				s := &throttleredis.Store{Do: do, Prefix: "throttle:" + client + ":", Slots: 4}
				if err := s.Check(t.Context()); err != nil {
					t.Errorf("%s: Check as the documented user: %v", client, err)
				}
				throttletest.TestStore(t, s)
				if err := s.Expect(t.Context(), strings.Repeat("a", 40), time.Second); err != nil {
					t.Errorf("%s: Expect: %v", client, err)
				}
			}
			log, err := node.Do("ACL", "LOG")
			if text := fmt.Sprintf("%s", log); err != nil || strings.Contains(text, "lua") || strings.Contains(text, "script") {
				t.Errorf("ACL LOG: %s, %v, want no command of a script", text, err)
			}
		})
	}
}

// TestRedisRestrictedCluster: so they are in a Cluster.
func TestRedisRestrictedCluster(t *testing.T) {
	c := rig.SharedCluster(t)
	for _, n := range c.Nodes {
		redisUser(t, n, "throttle", redisRules)
	}
	o := clients.GoRedisClusterOptions(c.Addrs()...)
	o.Username, o.Password = "throttle", "secret"
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 30*time.Second, 30*time.Second, 30*time.Second
	g := goredis.NewClusterClient(o)
	ro := rueidisPatient(clients.RueidisOptions(c.Addrs()...))
	ro.Username, ro.Password = "throttle", "secret"
	r := connected(t, func() (rueidis.Client, error) { return rueidis.NewClient(ro) })
	vo := valkeyPatient(clients.ValkeyOptions(c.Addrs()...))
	vo.Username, vo.Password = "throttle", "secret"
	v := connected(t, func() (valkey.Client, error) { return valkey.NewClient(vo) })
	t.Cleanup(func() { g.Close(); r.Close(); v.Close() })
	for client, do := range map[string]throttleredis.Do{
		"go-redis": clients.GoRedis(g), "rueidis": clients.Rueidis(r), "valkey-go": clients.Valkey(v),
	} {
		s := &throttleredis.Store{Do: do, Prefix: "throttle:" + client + ":", Slots: 64}
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("%s: Check as the documented user: %v", client, err)
		}
		for i := range 100 {
			redisTake(t, s, limit.Ask{Key: fmt.Sprint(i), Limit: perMinute, N: 1})
		}
	}
}

// TestRedisMissingPermissions: Check names each rule that is missing, and a Take
// that fails for it says that nothing was charged.
func TestRedisMissingPermissions(t *testing.T) {
	node := rig.Redis(t)
	for _, rule := range strings.Fields(redisRules) {
		command := strings.TrimPrefix(rule, "+")
		if command == rule || strings.Contains("hello ping cluster|slots cluster|shards", command) {
			continue
		}
		redisUser(t, node, "lacks-"+command, strings.ReplaceAll(redisRules+" ", rule+" ", ""))
		missing(t, node, command)
	}
	redisUser(t, node, "lacks-key", strings.ReplaceAll(redisRules, "~throttle:*", "~other:*"))
	missing(t, node, "key")
}

func missing(t *testing.T, node *rig.Node, what string) {
	t.Helper()
	for client, do := range redisUsers(t, node.Addr, "lacks-"+what) {
		s := &throttleredis.Store{Do: do, Prefix: "throttle:"}
		err := s.Check(t.Context())
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), what) || !strings.Contains(err.Error(), "ACL SETUSER") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: Check of a user that lacks %s: %v", client, what, err)
		}
		if !strings.Contains("eval evalsha time info get set key", what) {
			continue // a token bucket does without
		}
		node.Must(t, "SCRIPT", "FLUSH") // so that EVAL is needed
		_, err = s.Take(t.Context(), []limit.Ask{{Key: "a", Limit: perMinute, N: 1}}, make([]limit.Decision, 1))
		var e *throttleredis.Error
		if what == "evalsha" && err == nil || !errors.As(err, &e) || e.Charged {
			t.Errorf("%s: Take of a user that lacks %s: %v, want an error, and nothing charged", client, what, err)
		}
	}
}

// TestRedisUnreachable: what could not connect has charged nothing.
func TestRedisUnreachable(t *testing.T) {
	node := rig.Redis(t)
	redisUser(t, node, "throttle", redisRules)
	all := redisUsers(t, node.Addr, "throttle")
	for name, do := range redisClients(t, node.Addr) {
		all[name+" as nobody"] = do
	}
	for client, do := range all {
		s := &throttleredis.Store{Do: do, Prefix: "throttle:", MaxBatch: -1}
		redisTake(t, s, limit.Ask{Key: client, Limit: perMinute, N: 1})
	}
	node.Kill()
	for client, do := range all {
		s := &throttleredis.Store{Do: do, Prefix: "throttle:", MaxBatch: -1}
		rig.Until(t, "all connections are known to be closed", func() error {
			_, err := s.Take(t.Context(), []limit.Ask{{Key: client, Limit: perMinute, N: 1}}, make([]limit.Decision, 1))
			var e *throttleredis.Error
			if !errors.As(err, &e) || e.Charged {
				return fmt.Errorf("%s: Take of a Redis that is gone: %w (%#v), want nothing charged", client, err, err)
			}
			return nil
		})
	}
}
