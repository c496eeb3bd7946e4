package admit

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// A caller that becomes the first while it is calling the Store by a limit that has
// changed since calls again: nothing else would wake it, or those behind it.
func TestQueueChangeWhileTheSecondAsks(t *testing.T) {
	type caller struct{}
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		slow, fast := limit.Limit{Count: 10, Period: time.Minute}, limit.Limit{Count: 1000, Period: time.Second}
		q := Queue{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			who := ctx.Value(caller{})
			if who == 0 { // sees room for all that have come meanwhile
				time.Sleep(5 * ms)
			} else if a[0].Limit == slow { // others have taken it since
				store.Take(ctx, &m, "k", slow, 9)
			}
			ok, err := m.Take(ctx, a, d)
			if who == 2 && a[0].Limit == slow { // is told after the second was served
				time.Sleep(10 * ms)
			}
			return ok, err
		})}
		began := time.Now()
		var served [3]time.Duration
		var all sync.WaitGroup
		for i := range served {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), caller{}, i), time.Hour)
				defer cancel()
				q.Wait(ctx, "k", slow, 1)
				served[i] = time.Since(began)
			})
			synctest.Wait()
		}
		time.Sleep(7 * ms)
		q.Change("k", fast)
		all.Wait()
		if served[2] > 100*ms {
			t.Errorf("served after %v, want the third at once when it hears of the change", served)
		}
		checkEmpty(t, &q)
	})
}

// A caller that was called, and finds that there is less room than was foreseen,
// does not sleep by a limit that has changed since.
func TestQueueChangeWhileOthersSleep(t *testing.T) {
	type caller struct{}
	bubble.Test(t, func(t *testing.T) {
		var m memory.Store
		slow, fast := limit.Limit{Count: 100, Period: time.Hour}, limit.Limit{Count: 100_000, Period: time.Second}
		q := Queue{Store: store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			who := ctx.Value(caller{})
			if who == 0 { // sees room for all that have come meanwhile
				time.Sleep(5 * ms)
			} else if who == 1 && a[0].Limit == slow { // others have taken it since
				for ok := true; ok; ok, _ = store.Allow(ctx, &m, "k", slow) {
				}
			}
			return m.Take(ctx, a, d)
		})}
		began := time.Now()
		var served [40]time.Duration
		var all sync.WaitGroup
		for i := range served {
			all.Go(func() {
				q.Wait(context.WithValue(t.Context(), caller{}, i), "k", slow, 1)
				served[i] = time.Since(began)
			})
			synctest.Wait()
		}
		time.Sleep(7 * ms)
		q.Change("k", fast)
		all.Wait()
		if last := slices.Max(served[:]); last > time.Second {
			t.Errorf("the last was served after %v, want at once after the change", last)
		}
		checkEmpty(t, &q)
	})
}

// A caller that wants more than a changed limit ever admits takes nobody behind it
// along, whatever the kind.
func TestQueueChangeBelowTheFirst(t *testing.T) {
	for kind := limit.TokenBucket; kind <= limit.SlidingSlots; kind++ {
		bubble.Test(t, func(t *testing.T) {
			l := limit.Limit{Kind: kind, Count: 10, Period: time.Second}
			var q Queue
			q.Wait(t.Context(), "k", l, 10)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var errs [2]error
			var all sync.WaitGroup
			for i, n := range []int64{8, 1} {
				all.Go(func() { _, errs[i] = q.Wait(ctx, "k", l, n) })
				synctest.Wait()
			}
			l.Count = 3
			q.Change("k", l)
			all.Wait()
			refusedFor(t, errs[0], store.ErrNeverFits)
			if errs[1] != nil {
				t.Errorf("%v: Wait of 1 behind 8 of 3 = %v, want it served", kind, errs[1])
			}
		})
	}
}
