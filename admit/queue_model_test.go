package admit

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// modelled is a caller of a Queue, and what became of it.
type modelled struct {
	n          int64
	came, left time.Time // it gives up then
	at         time.Time
	passed     bool
}

// Callers pass in the order in which they came, each at the first instant at which the
// limit has enough for it and those before it have passed or given up.
func TestQueueAgreesWithOneAtATime(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := limit.Limit{Kind: limit.Kind(seed % 7), Count: 1 + r.Int64N(6), Period: time.Duration(1+r.Int64N(3)) * time.Second}
		bubble.Test(t, func(t *testing.T) {
			got := callQueue(t, r, l)
			want := oneAtATime(l, got)
			for i := range got {
				g, w := got[i], want[i]
				if g.passed != w.passed || g.passed && g.at.Sub(w.at).Abs() > 5*time.Microsecond {
					t.Fatalf("seed %d, %+v: caller %d for %d tokens, from %v to %v, passed %v at %v; want %v at %v",
						seed, l, i, g.n, g.came, g.left, g.passed, g.at, w.passed, w.at)
				}
			}
		})
	}
}

// callQueue has thirty callers wait in a Queue, half of whom give up.
func callQueue(t *testing.T, r *rand.Rand, l limit.Limit) []modelled {
	var q Queue
	var all sync.WaitGroup
	calls := make([]modelled, 30)
	for i := range calls {
		time.Sleep(time.Duration(1+r.Int64N(1e6/(1+r.Int64N(10)))) * time.Microsecond)
		c := &calls[i]
		*c = modelled{n: max(1, r.Int64N(l.Count+1)), came: time.Now()}
		patience := time.Hour
		if r.IntN(2) == 0 {
			patience = time.Duration(r.Int64N(3e6))*time.Microsecond + 333 // between two instants of the limit
		}
		c.left = c.came.Add(patience)
		ctx, cancel := context.WithCancel(t.Context()) // which has no deadline to be refused by
		time.AfterFunc(patience, cancel)
		all.Go(func() {
			_, err := q.Wait(ctx, "k", l, c.n)
			c.at, c.passed = time.Now(), err == nil
		})
	}
	all.Wait()
	return calls
}

// oneAtATime is what should become of calls.
func oneAtATime(l limit.Limit, calls []modelled) []modelled {
	var s memory.Store
	var d [1]limit.Decision
	want := make([]modelled, len(calls))
	var first time.Time // when those before have passed or given up
	for i, c := range calls {
		if first.Before(c.came) {
			first = c.came
		}
		for first.Before(c.left) {
			_, _ = s.TakeAt(first, []limit.Ask{{Key: "k", Limit: l, N: c.n}}, d[:])
			if d[0].OK {
				want[i] = modelled{at: first, passed: true}
				break
			}
			if first = first.Add(d[0].RetryAfter); first.After(c.left) {
				first = c.left
			}
		}
	}
	return want
}
