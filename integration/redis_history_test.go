package integration

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// redisFollow makes a server a replica of another, and does not wait for it.
func redisFollow(t *testing.T, n *rig.Node, port int) {
	t.Helper()
	n.Must(t, "REPLICAOF", "127.0.0.1", port)
}

// redisServers are what the tests of histories run on.
var redisServers = map[string]func(testing.TB, ...string) *rig.Replicated{
	"Redis": rig.RedisPair, "Redis 8": rig.Redis8Pair, "Valkey": rig.ValkeyPair,
}

// TestRedisFailBack: a server that was demoted, lost writes by that, and is
// promoted again grants no second burst, although its process is the one that
// the fence names. Some customers are answered by the other server meanwhile.
func TestRedisFailBack(t *testing.T) {
	t.Parallel()
	for name, pair := range redisServers {
		for _, c := range []struct{ slots, customers int }{{0, 1}, {1024, 40}} {
			for _, fresh := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d slots/fresh %v", name, c.slots, fresh), func(t *testing.T) {
					t.Parallel()
					failBack(t, pair(t), c.slots, c.customers, fresh)
				})
			}
		}
	}
}

func failBack(t *testing.T, pair *rig.Replicated, slots, customers int, fresh bool) {
	thousand := limit.Limit{Count: 1000, Period: 12 * limit.Month}
	m := &redisMover{}
	a, b := pair.Primary, pair.Replica
	m.point(t, a)
	s := &throttleredis.Store{Do: m.Do, Slots: slots}
	key := func(i int) string { return "customer:" + strconv.Itoa(i) }
	for i := range customers {
		redisTake(t, s, limit.Ask{Key: key(i), Limit: thousand, N: 10})
	}
	rig.Until(t, "the replica has all", pair.InStep)
	pair.Link.Set(rig.Fault{Stall: true})
	got := make([]int64, customers)
	for i := range customers {
		got[i], _ = redisDrain(t, s, key(i), thousand)
	}
	b.Promote(t)
	redisFollow(t, a, b.Port)
	rig.Until(t, "the old primary follows", func() error { return a.Says("replication", "master_link_status:up") })
	m.point(t, b)
	for i := 1; i < customers; i += 3 {
		n, _ := redisDrain(t, s, key(i), thousand)
		got[i] += n
	}
	b.Kill()
	a.Promote(t)
	m.point(t, a)
	if fresh {
		s = &throttleredis.Store{Do: m.Do, Slots: slots}
	}
	twice := 0
	for i := range customers {
		n, _ := redisDrain(t, s, key(i), thousand)
		if 10+got[i]+n > 1000 {
			twice++
		}
	}
	if twice > 0 {
		t.Errorf("%d of %d customers got a second burst, Stats %+v", twice, customers, s.Stats())
	}
	if n := s.Stats().Replaced; !fresh && n < int64(customers) {
		t.Errorf("Stats().Replaced = %d after two fail-overs in %d slots, want at least one each", n, customers)
	}
}

// TestRedisDemotedAlone: a primary that was demoted and promoted again, while
// callers met nobody else, is not the one it was either.
func TestRedisDemotedAlone(t *testing.T) {
	t.Parallel()
	for name, pair := range redisServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pair(t)
			ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
			s := &throttleredis.Store{Do: goRedis(t, p.Primary.Addr)}
			other := &throttleredis.Store{Do: goRedis(t, p.Replica.Addr)}
			redisTake(t, s, limit.Ask{Key: "a", Limit: ten, N: 4})
			rig.Until(t, "the replica has all", p.InStep)
			p.Replica.Promote(t)
			dead := rig.NewProxy(t, p.Replica.Addr)
			dead.Set(rig.Fault{Stall: true})
			redisFollow(t, p.Primary, dead.Port)
			lost, _ := redisDrain(t, other, "a", ten)
			p.Primary.Promote(t)
			if n, _ := redisDrain(t, s, "a", ten); 4+lost+n > 10 {
				t.Errorf("4 of 10, %d on the other and %d after it came back pass", lost, n)
			}
			if n := s.Stats().Replaced; n != 1 {
				t.Errorf("Stats().Replaced = %d, want 1: the process is the same, its data are not", n)
			}
		})
	}
}

// TestRedisComesBack: a primary that was replaced, and that callers meet again
// after the other has answered them, counts all as used, whenever it took over.
func TestRedisComesBack(t *testing.T) {
	second := limit.Limit{Count: 1000, Period: time.Second}
	pair := rig.RedisPair(t)
	m := &redisMover{}
	m.point(t, pair.Primary)
	s := &throttleredis.Store{Do: m.Do}
	redisTake(t, s, limit.Ask{Key: "a", Limit: second, N: 1})
	redisInStep(t, pair)
	rig.Until(t, "it has saved", func() error { // Redis 8 may still save for its replica
		_, err := pair.Primary.Do("SAVE")
		return err
	})
	pair.Primary.Restart(t) // its fence has a time from now on
	rig.Until(t, "all has refilled", func() error {
		if d := redisTake(t, s, limit.Ask{Key: "a", Limit: second}); d.Remaining < 1000 {
			return fmt.Errorf("%d remain", d.Remaining)
		}
		return nil
	})
	pair.Replica.Promote(t)
	m.point(t, pair.Replica)
	begun := redisTake(t, s, limit.Ask{Key: "a", Limit: second}).At // all is used there
	there, _ := redisDrain(t, s, "a", second)
	m.point(t, pair.Primary)
	here, end := redisDrain(t, s, "a", second)
	if most := int64(end.Sub(begun).Seconds() * 1000); there+here > most+1 {
		t.Errorf("in %v after a fail-over %d pass on the new primary and %d on the old one, want %d", end.Sub(begun), there, here, most)
	}
	if n := s.Stats().Replaced; n != 3 {
		t.Errorf("Stats().Replaced = %d, want 3: a restart, and there and back", n)
	}
}

// TestRedisUnusedSlots: in a slot that is first used on a primary whose writes are
// lost, there is no second burst for a Store that has seen the fail-over, nor for
// any if Check has been called before.
func TestRedisUnusedSlots(t *testing.T) {
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	for _, checked := range []bool{false, true} {
		t.Run(fmt.Sprint("checked ", checked), func(t *testing.T) {
			t.Parallel()
			pair := rig.RedisPair(t)
			m := &redisMover{}
			m.point(t, pair.Primary)
			store := func() *throttleredis.Store { return &throttleredis.Store{Do: m.Do, Slots: 1024} }
			s, other := store(), store()
			if checked {
				if err := other.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			redisTake(t, s, limit.Ask{Key: "known", Limit: ten, N: 1})
			redisInStep(t, pair)
			pair.Link.Set(rig.Fault{Stall: true})
			if n, _ := redisDrain(t, other, "lost", ten); n != 10 {
				t.Fatalf("%d pass before the fail-over, want 10", n)
			}
			pair.Primary.Kill()
			pair.Replica.Promote(t)
			m.point(t, pair.Replica)
			if checked {
				s = store()
			} else {
				redisTake(t, s, limit.Ask{Key: "known", Limit: ten})
			}
			if n, _ := redisDrain(t, s, "lost", ten); n != 0 {
				t.Errorf("%d of 10 pass again after the fail-over", n)
			}
		})
	}
}
