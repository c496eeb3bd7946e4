package stores

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/stores/rig"
	"github.com/throttle-go/throttle/throttleredis"
)

// pipelined is a client that sends the calls of all its callers down one
// connection.
func pipelinedDo(t testing.TB, addr string) doFunc {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, DisableRetry: true,
		ConnWriteTimeout: quick, AlwaysPipelining: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return func(ctx context.Context, args ...any) (any, error) {
		text := make([]string, len(args))
		for i, a := range args {
			text[i] = fmt.Sprint(a)
		}
		return c.Do(ctx, c.B().Arbitrary(text...).Build()).ToAny()
	}
}

// TestFaultWire spoils the connections to a server in every way, and checks
// that every call ends in time, that no caller is ever given an answer to the
// question of another, that nothing is left over, and that calls are answered
// again when it is over.
func TestFaultWire(t *testing.T) { // not beside others: it counts goroutines
	n := rig.Redis(t)
	for name, do := range map[string]func(testing.TB, string) doFunc{"a pool": singleDo, "a pipeline": pipelinedDo} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			t.Run("faults", func(t *testing.T) { // its clients close with it
				p := rig.NewProxy(t, n.Addr)
				w := newWitnesses(t, &throttleredis.Store{Do: do(t, p.Addr)}, name)
				for _, f := range []rig.Fault{
					{}, {Slice: true}, {Delay: 5 * time.Millisecond}, {Delay: tight}, {Stall: true},
					{Reset: 1}, {Reset: 100}, {Reset: 999}, {Truncate: 1}, {Truncate: 101}, {Truncate: 1001},
				} {
					w.suffer(t, p, f)
				}
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
	store throttle.Store
	keys  []string
	most  []int64 // at most so many are left: all that was answered is charged
	least []int64 // at least so many: all that was asked is charged
}

// apart is by how many what is left to two witnesses differs.
const apart = 100_000

// slow refills next to nothing while the test runs.
var slow = limit.Limit{Count: 1 << 30, Period: 10 * 365 * 24 * time.Hour}

func newWitnesses(t *testing.T, s throttle.Store, name string) *witnesses {
	w := &witnesses{store: s}
	for i := range 16 {
		key := fmt.Sprint(name, i)
		rig.Until(t, "the store answers", func() error {
			_, err := throttle.Take(t.Context(), s, key, slow, 0)
			return err
		})
		d, err := throttle.Take(t.Context(), s, key, slow, int64(i+1)*apart)
		if err != nil {
			t.Fatal(err)
		}
		w.keys, w.most, w.least = append(w.keys, key), append(w.most, d.Remaining), append(w.least, d.Remaining)
	}
	return w
}

// suffer asks during a fault and after it.
func (w *witnesses) suffer(t *testing.T, p *rig.Proxy, f rig.Fault) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	late, began := time.Duration(0), time.Now()
	all.Go(func() { late = lateness(ctx, tight) })
	p.Set(f)
	took := make([][]call, len(w.keys))
	var asking sync.WaitGroup
	for i := range w.keys {
		asking.Go(func() {
			for range 30 {
				took[i] = append(took[i], w.ask(t, i))
				if time.Since(began) > 2*tight {
					return
				}
			}
		})
	}
	asking.Wait()
	stop()
	all.Wait()
	got := calls{late: late}
	for _, one := range took {
		got.all = append(got.all, one...)
	}
	failed, some := got.failures()
	t.Logf("%+v: %d of %d calls failed", f, failed, len(got.all))
	got.inTime(t, tight)
	if f == (rig.Fault{}) && failed > 0 {
		t.Errorf("without a fault %d of %d calls failed:%s", failed, len(got.all), some)
	}
	p.Heal()
	for i := range w.keys {
		rig.Until(t, "calls are answered again", func() error { return w.ask(t, i).err })
	}
}

// ask makes one call for witness i and checks what it is told.
func (w *witnesses) ask(t *testing.T, i int) call {
	t.Helper()
	c := call{key: w.keys[i], began: time.Now()}
	ctx, cancel := context.WithDeadline(t.Context(), c.began.Add(tight))
	defer cancel()
	w.least[i]--
	c.d, c.err = throttle.Take(ctx, w.store, w.keys[i], slow, 1)
	c.took = time.Since(c.began)
	if c.err != nil {
		return c
	}
	const refilled = 1000 // in five minutes
	if left := c.d.Remaining; !c.d.OK || left >= w.most[i]+refilled || left < w.least[i] {
		t.Errorf("Take(%q) = %+v, want at most %d remaining, and at least %d: is this another's answer?", c.key, c.d, w.most[i], w.least[i])
	}
	w.most[i] = c.d.Remaining
	return c
}
