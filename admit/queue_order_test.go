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

// road is how long a call takes to a Store, and its answer back.
type road struct{ to, back time.Duration }

// farStore is a Store at the end of the road that the context holds.
func farStore() store.Func {
	var m memory.Store
	return func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		r, _ := ctx.Value(road{}).(road)
		time.Sleep(r.to)
		ok, err := m.Take(ctx, a, d)
		time.Sleep(r.back)
		return ok, err
	}
}

// waits is a caller that comes at a time and waits for n.
type waits struct {
	at time.Duration
	n  int64
	road
}

// minutes lets all wait for a limit, in this order, and returns the minutes in which
// they pass.
func minutes(t *testing.T, l limit.Limit, all []waits) []int {
	passed := make([]int, len(all))
	bubble.Test(t, func(t *testing.T) {
		q := Queue{Store: farStore()}
		began := time.Now()
		var wg sync.WaitGroup
		for i, w := range all {
			time.Sleep(w.at - time.Since(began))
			wg.Go(func() {
				if _, err := q.Wait(context.WithValue(t.Context(), road{}, w.road), "k", l, w.n); err != nil {
					t.Errorf("Wait of %d: %v", i, err)
				}
				passed[i] = int(time.Since(began) / time.Minute)
			})
			synctest.Wait()
		}
		wg.Wait()
		checkEmpty(t, &q)
	})
	return passed
}

// A light request does not overtake a heavy one, whichever reaches the Store first, and
// in whatever order the answers come back.
func TestQueueOrderOfAFixedWindow(t *testing.T) {
	fiveAMinute := limit.Limit{Kind: limit.FixedWindow, Count: 5, Period: time.Minute}
	slow := road{to: 5 * ms}
	for _, c := range []struct {
		name string
		all  []waits
		want []int
	}{
		{
			"the answer that left 3 comes back after those that left 2 and 1",
			[]waits{{n: 1, road: road{back: ms}}, {n: 1, road: road{back: 30 * ms}}, {n: 1, road: road{to: ms}}, {n: 1, road: road{to: 2 * ms}}, {n: 2, road: slow}, {n: 1}},
			[]int{0, 0, 0, 0, 1, 1},
		},
		{
			"the last comes when the window has ended, and the first is asking",
			[]waits{{n: 3}, {n: 3, road: slow}, {n: 2, road: slow}, {at: time.Minute + ms, n: 2}},
			[]int{0, 1, 1, 2},
		},
	} {
		if got := minutes(t, fiveAMinute, c.all); !slices.Equal(got, c.want) {
			t.Errorf("%s: they pass in the minutes %v, want %v", c.name, got, c.want)
		}
	}
}
