package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// crowd are callers of whom many misbehave, on the Throttles of one Group.
type crowd struct {
	group *throttle.Group
	all   [5]*throttle.Throttle // that the Group makes, whoever asks
	made  atomic.Int64

	in      atomic.Int64 // functions that run
	starts  atomic.Int64 // by event
	ends    atomic.Int64
	called  atomic.Int64 // by function
	outcome [4]atomic.Int64
	trapped atomic.Bool // hooks panic too
}

const (
	returned = iota
	gaveUp
	panicked
	vanished
)

func newCrowd() *crowd {
	c := new(crowd)
	c.group = &throttle.Group{MaxMembers: 2, New: func(string) *throttle.Throttle {
		return c.all[int(c.made.Add(1))%len(c.all)]
	}}
	for i := range c.all {
		c.all[i] = &throttle.Throttle{
			Tries: 4, MaxWaiting: 700, MaxScopes: 3, MaxInFlight: []int{0, 3, 50}[i%3], CountResting: i%2 == 0,
			Weights:  map[load.Priority]float64{load.High: 3, load.Low: 0.1},
			NewScope: func(string) pace.Controller { c.trap(200); return nil },
			OnEvent:  c.hear,
		}
	}
	return c
}

func (c *crowd) trap(n int) {
	if c.trapped.Load() && rand.IntN(n) == 0 {
		panic("a hook panics")
	}
}

func (c *crowd) hear(e throttle.Event) {
	switch e.Kind {
	case throttle.Starts:
		c.starts.Add(1)
	case throttle.Ends:
		c.ends.Add(1)
	}
	c.trap(300)
}

// call makes one call, and notes how it ended.
func (c *crowd) call(t *testing.T, chance *rand.Rand) {
	over := vanished
	defer func() {
		if recover() != nil {
			over = panicked
		}
		c.outcome[over].Add(1)
	}()
	ctx, cancel := c.contextOf(t, chance)
	defer cancel()
	m := c.group.Enter(fmt.Sprint(chance.IntN(8)))
	defer m.Leave()
	ends := chance.IntN(12)
	f := func(ctx context.Context) error {
		c.in.Add(1)
		c.called.Add(1)
		defer c.in.Add(-1)
		if ctx.Err() != nil {
			t.Error("called with a context that has ended")
		}
		time.Sleep(time.Duration(1+ends) * 7 * time.Millisecond)
		return misbehave(ctx, ends)
	}
	var err error
	if chance.IntN(10) == 0 {
		err = m.Throttle().Try(ctx, f)
	} else {
		err = m.Throttle().Do(ctx, f)
	}
	over = returned
	var e *throttle.Error
	if errors.As(err, &e) {
		over = gaveUp
	}
}

// misbehave ends a function in one of many ways.
func misbehave(ctx context.Context, how int) error {
	switch how {
	case 0:
		panic("the function panics")
	case 1:
		runtime.Goexit()
	case 2:
		return throttle.Throttled(nil, 300*time.Millisecond)
	case 3:
		return throttle.Failed(errors.New("cut off"))
	case 4:
		<-ctx.Done() // hangs
		return ctx.Err()
	case 5:
		panic(nil)
	case 6:
		return throttle.Throttled(nil, -time.Hour)
	}
	return nil
}

// contextOf returns a context that ends, and has options.
func (c *crowd) contextOf(t *testing.T, chance *rand.Rand) (context.Context, context.CancelFunc) {
	o := throttle.CallOptions{
		Priority: load.Priority(chance.IntN(5) - 2), Key: fmt.Sprint(chance.IntN(20)), Cost: []int64{0, 1, -5, 30, 1 << 62}[min(chance.IntN(200), 4)],
		Once: chance.IntN(9) == 0,
	}
	if chance.IntN(3) == 0 {
		o.Needs = []throttle.Need{{Scope: fmt.Sprint(chance.IntN(9))}, {Scope: fmt.Sprint(chance.IntN(9)), Cost: 3}}
	}
	if chance.IntN(4) == 0 {
		o.MaxWait = time.Duration(chance.IntN(2000)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(throttle.WithOptions(t.Context(), o), time.Duration(1+chance.IntN(60_000))*time.Millisecond)
	if chance.IntN(2) == 0 {
		stop := time.AfterFunc(time.Duration(chance.IntN(5000))*time.Millisecond, cancel)
		return ctx, func() { stop.Stop(); cancel() }
	}
	return ctx, cancel
}

// Of thousands of callers at once, on members of a Group that are forgotten while
// they wait, that are cancelled, hang, panic and end their goroutines, and whose
// hooks panic: each ends, nothing stays behind, and the events add up.
func TestSoakCrowd(t *testing.T) {
	callers := 5_000
	if os.Getenv("THROTTLE_SOAK") != "" {
		callers = 100_000
	}
	for _, trapped := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			c := newCrowd()
			c.trapped.Store(trapped)
			began := time.Now()
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() { c.call(t, rand.New(rand.NewPCG(uint64(i), 9))) })
				if i%10 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			all.Wait()
			if took := time.Since(began); took > 2*time.Minute {
				t.Errorf("the last ended after %v, want within a minute of its start", took)
			}
			c.check(t, callers, trapped)
		})
	}
}

func (c *crowd) check(t *testing.T, callers int, trapped bool) {
	for i, th := range c.all {
		waiting, flying, scopes := throttle.ScopesOf(th)
		if th.InFlight() != 0 || th.Waiting() != 0 || waiting != 0 || flying != 0 || scopes > 3 {
			t.Errorf("Throttle %d: %d in flight, %d waiting; in %d scopes %d waiting, %d in flight; want none, in 3 at most",
				i, th.InFlight(), th.Waiting(), scopes, waiting, flying)
		}
	}
	sum := int64(0)
	for i := range c.outcome {
		sum += c.outcome[i].Load()
	}
	if c.in.Load() != 0 || sum != int64(callers) || c.group.Len() > 2 {
		t.Errorf("%d run, %d of %d ended, %d members; want 0, all, 2", c.in.Load(), sum, callers, c.group.Len())
	}
	if starts, ends, called := c.starts.Load(), c.ends.Load(), c.called.Load(); !trapped && (starts != called || ends != called) {
		t.Errorf("%d calls, %d started and %d ended by event", called, starts, ends)
	}
	if c.outcome[panicked].Load() == 0 || c.outcome[vanished].Load() == 0 || c.outcome[gaveUp].Load() == 0 {
		t.Error("some outcome never came about: the attack does not bite")
	}
}

// A hook that panics while a panic goes by keeps no scope from being forgotten.
func TestHookPanicsInAPanic(t *testing.T) {
	th := &throttle.Throttle{MaxScopes: 3, OnEvent: func(e throttle.Event) {
		if e.Kind == throttle.Ends {
			panic("the hook panics")
		}
	}}
	for i := range 20 {
		ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{Needs: []throttle.Need{{Scope: fmt.Sprint(i)}}})
		func() {
			defer func() { recover() }()
			_ = th.Do(ctx, func(context.Context) error { panic("the function panics") })
		}()
	}
	if _, _, n := throttle.ScopesOf(th); n > 3 {
		t.Errorf("%d scopes remembered, want 3 at most", n)
	}
}
