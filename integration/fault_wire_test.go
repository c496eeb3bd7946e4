package integration

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// wired are stores of every kind, each through a client of its own kind. What
// they start they end with the test.
var wired = map[string]func(*testing.T, string) store.Store{
	"go-redis": func(t *testing.T, addr string) store.Store {
		return &throttleredis.Store{Do: quickDo(t, addr)}
	},
	"go-redis, unbatched": func(t *testing.T, addr string) store.Store {
		return &throttleredis.Store{Do: quickDo(t, addr), MaxBatch: -1}
	},
	"rueidis": func(t *testing.T, addr string) store.Store {
		c := connected(t, func() (rueidis.Client, error) { return rueidis.NewClient(clients.RueidisOptions(addr)) })
		t.Cleanup(c.Close)
		return &throttleredis.Store{Do: clients.Rueidis(c), MaxBatch: -1}
	},
	"valkey-go": func(t *testing.T, addr string) store.Store {
		c := connected(t, func() (valkey.Client, error) { return valkey.NewClient(clients.ValkeyOptions(addr)) })
		t.Cleanup(c.Close)
		return &throttleredis.Store{Do: clients.Valkey(c), MaxBatch: -1}
	},
	"redigo": func(t *testing.T, addr string) store.Store {
		p := clients.RedigoPool(addr)
		t.Cleanup(func() { p.Close() })
		return &throttleredis.Store{Do: clients.Redigo(p)}
	},
	"pgx": func(t *testing.T, addr string) store.Store {
		return created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, "postgres://postgres@"+addr+"/postgres?sslmode=disable"))})
	},
}

// TestFaultWire spoils the connections to a server in every way, and checks
// that every call ends in time, that no caller is ever given an answer to the
// question of another, that nothing is left over, and that calls are answered
// again when it is over.
func TestFaultWire(t *testing.T) { spoil(t, tight) } // not beside others: it counts goroutines

// TestSoakFaultWire is TestFaultWire with some millions of calls.
func TestSoakFaultWire(t *testing.T) {
	soak(t)
	spoil(t, 10*time.Second)
}

// soak leaves a test out that takes minutes.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("SOAK NOT RUN: it takes minutes; make soak runs it")
	}
}

// spoil is every fault for so long.
func spoil(t *testing.T, each time.Duration) {
	redis, postgres := rig.Redis(t).Addr, rig.Postgres(t).Addr
	for name, connect := range wired {
		addr := redis
		if name == "pgx" {
			addr = postgres
		}
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			t.Run("faults", func(t *testing.T) { // its clients close with it
				p := rig.NewProxy(t, addr)
				w := newWitnesses(t, connect(t, p.Addr), name)
				for _, f := range []rig.Fault{
					{},
					{Slice: true},
					{Delay: 5 * time.Millisecond},
					{Delay: tight},
					{Stall: true},
					{Reset: 1},
					{Reset: 100},
					{Reset: 999},
					{Truncate: 1},
					{Truncate: 101},
					{Truncate: 1001},
				} {
					w.suffer(t, p, f, each)
				}
				w.made.inTime(t, tight)
			})
			rig.Until(t, "no goroutine is left", func() error {
				if now := runtime.NumGoroutine(); now > before {
					return fmt.Errorf("there are %d, want at most %d", now, before)
				}
				return nil
			})
		})
	}
}

// witnesses are callers who each know what their next answer may be: the
// numbers left under their keys are far apart, and nobody else asks for them.
type witnesses struct {
	store store.Store
	keys  []string
	most  []int64 // at most so many are left: all that was answered is charged
	least []int64 // at least so many: all that was asked is charged
	made  calls
}

// apart is by how many what is left to two witnesses differs.
const apart = 100_000

// slow refills next to nothing while the test runs.
var slow = limit.Limit{Count: 1 << 30, Period: 10 * 365 * 24 * time.Hour}

func newWitnesses(t *testing.T, s store.Store, name string) *witnesses {
	w := &witnesses{store: s}
	for i := range 16 {
		key := fmt.Sprint(name, i)
		rig.Until(t, "the store answers", func() error {
			_, err := store.Take(t.Context(), s, key, slow, 0)
			return err
		})
		d, err := store.Take(t.Context(), s, key, slow, int64(i+1)*apart)
		if err != nil {
			t.Fatal(err)
		}
		w.keys, w.most, w.least = append(w.keys, key), append(w.most, d.Remaining), append(w.least, d.Remaining)
	}
	return w
}

// suffer asks during a fault and after it. Without a fault most are answered, at
// least when it is tried again, as the machine may be busy.
func (w *witnesses) suffer(t *testing.T, p *rig.Proxy, f rig.Fault, each time.Duration) {
	t.Helper()
	p.Set(f)
	got := w.during(t, each)
	failed, some := got.failures()
	for try := 1; f == (rig.Fault{}) && failed > len(got.all)/2; try++ {
		if try == 20 {
			t.Errorf("without a fault %d of %d calls failed, in the last of %d tries:%s", failed, len(got.all), try, some)
			break
		}
		got = w.during(t, each)
		failed, some = got.failures()
	}
	t.Logf("%+v: %d of %d calls failed", f, failed, len(got.all))
	p.Heal()
	for i := range w.keys {
		rig.Until(t, "calls are answered again", func() error { return w.ask(t, i).err })
	}
}

// during lets all witnesses ask for so long, and returns their calls.
func (w *witnesses) during(t *testing.T, each time.Duration) calls {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	began := time.Now()
	late, took := make([]time.Duration, len(w.keys)), make([][]call, len(w.keys))
	var timing, asking sync.WaitGroup
	for i := range w.keys {
		timing.Go(func() { late[i] = lateness(ctx) })
		asking.Go(func() {
			for time.Since(began) < each {
				took[i] = append(took[i], w.ask(t, i))
			}
		})
	}
	asking.Wait()
	stop()
	timing.Wait()
	got := calls{slices.Concat(took...), slices.Max(late)}
	w.made.add(got)
	return got
}

// ask makes one call for witness i and checks what it is told.
func (w *witnesses) ask(t *testing.T, i int) call {
	t.Helper()
	c := call{key: w.keys[i], began: time.Now()}
	ctx, cancel := context.WithDeadline(t.Context(), c.began.Add(tight))
	defer cancel()
	w.least[i]--
	c.d, c.err = store.Take(ctx, w.store, w.keys[i], slow, 1)
	c.took = time.Since(c.began)
	if c.err != nil {
		return c
	}
	const refilled = 5000 // in half an hour
	if left := c.d.Remaining; !c.d.OK || left >= w.most[i]+refilled || left < w.least[i] {
		t.Errorf("Take(%q) = %+v, want at most %d remaining, and at least %d: is this another's answer?", c.key, c.d, w.most[i], w.least[i])
	}
	w.most[i] = c.d.Remaining
	return c
}
