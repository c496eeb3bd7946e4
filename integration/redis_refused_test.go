package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
)

// redisStarts are the servers that a fault of a server alone is tried on.
var redisStarts = map[string]func(testing.TB, ...string) *rig.Node{
	"Redis": rig.Redis, "Redis 8": rig.Redis8, "Valkey": rig.Valkey,
}

// TestRedisDisabled: where a command is renamed, Check names it, and a Take of
// whatever kind either does without or says why, and never what is wrong with a key.
func TestRedisDisabled(t *testing.T) {
	for name, start := range redisStarts {
		for _, command := range []string{
			"EVALSHA", "EVAL", "TIME", "INFO", "GET", "SET", "MGET", "PEXPIRE", "DEL", "STRLEN", "EXISTS", "GETRANGE", "SETRANGE", "APPEND",
		} {
			t.Run(name+"/"+command, func(t *testing.T) {
				t.Parallel()
				node := start(t, "--rename-command", command, "OTHER"+command)
				s := &throttleredis.Store{Do: goRedis(t, node.Addr)}
				err := s.Check(t.Context())
				if err == nil || !strings.Contains(err.Error(), command) || !strings.Contains(err.Error(), "renamed") || strings.Contains(err.Error(), "charged") {
					t.Errorf("Check without %s: %v", command, err)
				}
				for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
					l := limit.Limit{Kind: kind, Count: 10, Period: 12 * limit.Month}
					for _, n := range []int64{1, 1, -1} {
						refusedWell(t, s, limit.Ask{Key: "k", Limit: l, N: n}, "nknown")
					}
				}
			})
		}
	}
}

// refusedWell takes, and checks that an error says why, in the words of one server
// or another, and whether it charged.
func refusedWell(t *testing.T, s *throttleredis.Store, a limit.Ask, why ...string) {
	t.Helper()
	d := make([]limit.Decision, 1)
	_, err := s.Take(t.Context(), []limit.Ask{a}, d)
	var e *throttleredis.Error
	switch {
	case err == nil:
	case !errors.As(err, &e) || !slices.ContainsFunc(why, func(w string) bool { return strings.Contains(err.Error(), w) }):
		t.Errorf("%v: Take of %d: %v, want an Error with %q", a.Limit.Kind, a.N, err, why)
	case !e.Charged:
		a.N, a.Key = 0, a.Key+" "
		if _, err := s.Take(t.Context(), []limit.Ask{a}, d); err == nil && d[0].Remaining < d[0].Max {
			t.Errorf("%v: %v, but of another key: %+v", a.Limit.Kind, err, d[0])
		}
	}
}

// TestRedisLogPermissions: what a user may not do with the key of a log is no fault
// of the key.
func TestRedisLogPermissions(t *testing.T) {
	node := rig.Redis(t)
	redisUser(t, node, "all", redisRules)
	l := limit.Limit{Kind: limit.SlidingLog, Count: 10, Period: 12 * limit.Month}
	for name, do := range redisUsers(t, node.Addr, "all") {
		redisTake(t, &throttleredis.Store{Do: do}, limit.Ask{Key: name, Limit: l, N: 1})
	}
	for _, command := range []string{"strlen", "exists", "getrange", "append", "setrange", "pexpire", "set"} {
		redisUser(t, node, "lacks-"+command, strings.ReplaceAll(redisRules+" ", "+"+command+" ", ""))
		for name, do := range redisUsers(t, node.Addr, "lacks-"+command) {
			for _, key := range []string{name, "fresh"} {
				refusedWell(t, &throttleredis.Store{Do: do}, limit.Ask{Key: key, Limit: l, N: 1},
					"can't run this command", "has no permissions to run the '"+command+"' command")
			}
		}
	}
}

// TestRedisHalfPermitted: a call that wrote one key, and may not write the other, does
// not say that nothing was charged. Which comes first, Redis decides.
func TestRedisHalfPermitted(t *testing.T) {
	node := rig.Redis(t)
	redisUser(t, node, "all", redisRules)
	redisUser(t, node, "half", strings.ReplaceAll(redisRules, "+del ", ""))
	all := &throttleredis.Store{Do: redisUsers(t, node.Addr, "all")["go-redis"]}
	half := &throttleredis.Store{Do: redisUsers(t, node.Addr, "half")["go-redis"]}
	l := limit.Limit{Count: 10, Period: 12 * limit.Month}
	charged := map[bool]int{}
	for i := range 40 {
		set, del := limit.Ask{Key: fmt.Sprint("set", i), Limit: l, N: 1}, limit.Ask{Key: fmt.Sprint("del", i), Limit: l, N: 1}
		redisTake(t, all, del)
		del.N = -1
		_, err := half.Take(t.Context(), []limit.Ask{set, del}, make([]limit.Decision, 2))
		set.N = 0
		left := redisTake(t, all, set).Remaining
		var e *throttleredis.Error
		if !errors.As(err, &e) || e.Charged != (left < 10) {
			t.Fatalf("Take by a user who may not delete: %v, and %d of 10 remain; want an error that says whether it was charged", err, left)
		}
		charged[e.Charged]++
	}
	if len(charged) < 2 {
		t.Errorf("charged before the error or not: %v, want some of both", charged)
	}
}

// TestRedisNoRoom: a server that takes no more clients has charged nothing, where
// the client tells; behind a guard calls are in time, and go on once there is room.
func TestRedisNoRoom(t *testing.T) {
	for name, start := range redisStarts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := start(t, "--maxclients", "32")
			pool := clients.RedigoPool(node.Addr)
			g := goredis.NewClient(clients.GoRedisOptions(node.Addr))
			t.Cleanup(func() { pool.Close(); g.Close() })
			held := fillUp(t, node)
			s := &throttleredis.Store{Do: clients.Redigo(pool)}
			var e *throttleredis.Error
			if _, err := store.Take(t.Context(), s, "k", perMinute, 1); !errors.As(err, &e) || e.Charged {
				t.Errorf("Take of a server without room: %v, want an Error, and nothing charged", err)
			}
			guard := &store.Guard{Store: &throttleredis.Store{Do: clients.GoRedis(g)}, Timeout: tight, Fallback: store.FallbackDeny}
			l := load{store: guard, keys: []string{"k"}, limit: perMinute, callers: 8, deadline: sure}
			got := l.run(t, func() {
				rest(t.Context(), 500*time.Millisecond)
				for _, c := range held {
					c.Close()
				}
				rig.Until(t, "the store decides", func() error {
					if s := guard.Stats(); s.Away || s.Decided < 10 {
						return errors.New("not yet")
					}
					return nil
				})
			})
			got.inTime(t, tight)
			got.within(t, perMinute, 0)
			if n, some := got.failures(); n > 0 {
				t.Errorf("%d guarded calls failed:%s", n, some)
			}
		})
	}
}

// fillUp connects until a server takes no more clients.
func fillUp(t *testing.T, node *rig.Node) (held []redis.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sure)
	defer cancel()
	for ctx.Err() == nil {
		c, err := redis.DialContext(ctx, "tcp", node.Addr)
		if err != nil {
			return held
		}
		t.Cleanup(func() { c.Close() })
		if _, err := c.Do("PING"); err != nil {
			return held
		}
		held = append(held, c)
	}
	t.Fatal("the server takes more and more clients")
	return nil
}
