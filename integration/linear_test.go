package integration

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/linear"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

const linearGroups, linearEach = 20, 2500 // two groups of keys for each Kind

// TestLinearRedis: whatever is asked at once is answered as if one by one.
func TestLinearRedis(t *testing.T) {
	linear.Check(t, &throttleredis.Store{Do: goRedis(t, rig.SharedRedis(t).Addr), Prefix: "linear:"}, linearGroups, linearEach)
}

// TestLinearPostgres is the same for PostgreSQL, which takes no lock of what it
// only looks at.
func TestLinearPostgres(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), rig.SharedPostgres(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := &throttlesql.Store{Query: clients.Pgx(pool)}
	if err := s.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	linear.CheckKeys(t, s, linearGroups, linearEach)
}

// A linearRacy store reads states from Redis, and writes them back.
type linearRacy struct{ *redis.Client }

func (r linearRacy) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	states := make([]limit.State, len(a))
	for i := range a {
		text, err := r.Get(ctx, "racy:"+a[i].Key).Bytes()
		if err == redis.Nil {
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &states[i])
		}
		if err != nil {
			return false, err
		}
	}
	ok = limit.TakeAll(states, time.Now(), a, d)
	for i := range a {
		text, err := json.Marshal(states[i])
		if err == nil {
			err = r.Set(ctx, "racy:"+a[i].Key, text, time.Hour).Err()
		}
		if err != nil {
			return false, err
		}
	}
	return ok, nil
}

// linearCaught notes that a test would have failed.
type linearCaught struct {
	testing.TB
	failed atomic.Bool
}

func (c *linearCaught) Failed() bool { return c.failed.Load() || c.TB.Failed() }

func (c *linearCaught) Errorf(format string, args ...any) {
	if !strings.Contains(format, "cannot be put in an order") {
		c.TB.Errorf(format, args...)
	}
	c.failed.Store(true)
}

// TestLinearBites: a store that reads, then writes, is caught by a few thousand
// questions.
func TestLinearBites(t *testing.T) {
	c := redis.NewClient(redisPatient(clients.GoRedisOptions(rig.SharedRedis(t).Addr)))
	defer c.Close()
	f := &linearCaught{TB: t}
	linear.CheckKeys(f, store.Func(linearRacy{c}.Take), 1, 5000)
	if !f.Failed() {
		t.Error("a store that reads states and writes them back passes")
	}
}
