package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// far is a memory.Store that is a round trip away, and now and then unreachable.
type far struct {
	store *memory.Store
	trip  time.Duration
	away  atomic.Bool
	hangs atomic.Bool
	asked atomic.Int64
}

func (f *far) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	f.asked.Add(1)
	if f.hangs.Load() {
		<-ctx.Done()
		return false, ctx.Err()
	}
	time.Sleep(f.trip)
	if f.away.Load() {
		return false, errors.New("away")
	}
	return f.store.Take(ctx, a, d)
}

// counting is a memory.Store that counts what it grants.
type counting struct {
	memory.Store
	granted atomic.Int64
}

func (c *counting) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	ok, err := c.Store.Take(ctx, a, d)
	c.granted.Add(d[0].N)
	return ok, err
}

// processes are so many Throttles of one Fleet, of each of which workers call as
// fast as they may.
type processes struct {
	all     []*throttle.Throttle
	starts  []time.Time
	perEach []int
	mu      sync.Mutex
}

func newProcesses(n int, f throttle.Fleet) *processes {
	p := &processes{perEach: make([]int, n)}
	for range n {
		p.all = append(p.all, &throttle.Throttle{Fleet: f})
	}
	return p
}

func (p *processes) run(ctx context.Context, workers int) {
	var all sync.WaitGroup
	for i, th := range p.all {
		for range workers {
			all.Go(func() {
				for ctx.Err() == nil {
					err := th.Do(ctx, func(context.Context) error {
						p.mu.Lock()
						p.starts = append(p.starts, time.Now())
						p.perEach[i]++
						p.mu.Unlock()
						time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
						return nil
					})
					if err != nil {
						return // no turn before the end
					}
				}
			})
		}
	}
	all.Wait()
}

// A fleet of processes makes together what the limit allows: not more, whatever
// the length of time, and nearly all of it, each its part, with few questions.
func TestFleetSplitsOneLimit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 100, Period: time.Second, Burst: 20}
		f := &far{store: new(memory.Store), trip: 2 * time.Millisecond}
		p := newProcesses(5, throttle.Fleet{Store: f, Key: "api", Limit: l})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p.run(ctx, 10)
		time.Sleep(time.Second) // the last questions end
		n := len(p.starts)
		if most := 20 + 60*100 + 1; n > most || n < most*98/100 {
			t.Errorf("in a minute at 100/s burst 20: %d calls, want nearly %d and no more", n, most)
		}
		// Nobody keeps what he has bought, as all have something waiting: so no
		// more start in any time than Burst + rate × time.
		for i := range p.starts {
			for j := i; j < n; j += 37 {
				if most := 20 + int(p.starts[j].Sub(p.starts[i])/(10*time.Millisecond)) + 1 + 50; j-i+1 > most {
					t.Fatalf("%d calls in %v", j-i+1, p.starts[j].Sub(p.starts[i]))
				}
			}
		}
		for i, each := range p.perEach {
			if each < n/5/2 || each > n/5*2 {
				t.Errorf("process %d made %d of %d calls", i, each, n)
			}
		}
		if asked := f.asked.Load(); asked > int64(n) {
			t.Errorf("%d questions for %d calls, want fewer than calls", asked, n)
		}
	})
}

// While the Store fails each process continues by itself, and returns to it.
func TestFleetGoesOnAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 50, Period: time.Second, Burst: 1}
		f := &far{store: new(memory.Store), trip: time.Millisecond}
		th := &throttle.Throttle{Control: &pace.Fixed{Rate: 20}, Fleet: throttle.Fleet{Store: f, Key: "api", Limit: l}}
		phase := func(length time.Duration) (calls int) {
			for began := time.Now(); time.Since(began) < length; calls++ {
				if err := th.Do(t.Context(), nothing); err != nil {
					t.Fatal(err)
				}
			}
			return calls
		}
		if n := phase(10 * time.Second); n < 195 || n > 205 {
			t.Errorf("with the Store: %d calls in 10 s, want 200, as its Control says", n)
		}
		f.hangs.Store(true)
		asked := f.asked.Load()
		if n := phase(time.Minute); n < 1180 || n > 1205 {
			t.Errorf("while the Store hangs: %d calls in a minute, want nearly 1200", n)
		}
		if n := f.asked.Load() - asked; n > 8 {
			t.Errorf("it was asked %d times while away, want a few", n)
		}
		f.hangs.Store(false)
		phase(40 * time.Second)
		before := th.FleetStats()
		phase(10 * time.Second)
		if again := th.FleetStats(); again.Answered-before.Answered < 150 || again.Failed != before.Failed || before.Failed == 0 {
			t.Errorf("after it came back: %d answers in 10 s, %d failures before and %d after", again.Answered-before.Answered, before.Failed, again.Failed)
		}
		time.Sleep(time.Second)
	})
}

// A Store that fails open lets calls pass that it does not charge.
func TestFleetFailsOpen(t *testing.T) {
	away := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) { return false, errors.New("away") })
	for name, s := range map[string]store.Store{
		"FailOpen": store.FailOpen(away), "Guard": &store.Guard{Store: away, Fallback: store.FallbackAllow},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				far := store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
					time.Sleep(time.Millisecond)
					return s.Take(ctx, a, d)
				})
				th := &throttle.Throttle{Fleet: throttle.Fleet{Store: far, Key: "api", Limit: limit.Limit{Count: 100, Period: time.Second}}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for i := range 5 {
					if err := th.Do(ctx, nothing); err != nil {
						t.Fatalf("call %d: %v, want it to pass", i, err)
					}
				}
			})
		})
	}
}

// A call that costs more than one question can get collects it.
func TestFleetCosts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 100, Period: time.Second, Burst: 10}
		f := &far{store: new(memory.Store), trip: time.Millisecond}
		th := &throttle.Throttle{Fleet: throttle.Fleet{Store: f, Key: "api", Limit: l}}
		ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{Cost: 500})
		began := time.Now()
		for range 2 {
			if err := th.Do(ctx, nothing); err != nil {
				t.Fatal(err)
			}
		}
		got := time.Since(began).Seconds()
		time.Sleep(time.Second)
		if got < 9.8 || got > 10.5 {
			t.Errorf("two calls of 500 at 100/s: %.2f s, want about 10", got)
		}
	})
}

// It collects also where the limit gives less than one a second.
func TestFleetCollectsSlowly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 30, Period: time.Minute, Burst: 2}
		f := &far{store: new(memory.Store), trip: time.Millisecond}
		th := &throttle.Throttle{Fleet: throttle.Fleet{Store: f, Key: "api", Limit: l}}
		ctx, cancel := context.WithTimeout(throttle.WithOptions(t.Context(), throttle.CallOptions{Cost: 5}), time.Minute)
		defer cancel()
		began := time.Now()
		err := th.Do(ctx, nothing)
		if got := time.Since(began).Seconds(); err != nil || got < 6 || got > 12 { // it asks again after random times
			t.Errorf("a call of 5 at one in 2 s, burst 2: %v after %.2f s, want nil after 6 and a little", err, got)
		}
		time.Sleep(time.Second) // the last question ends
	})
}

// A process held back by something else does not buy what it cannot use.
func TestFleetBuysWhatIsUsed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 100, Period: time.Second, Burst: 100}
		store := new(counting)
		th := &throttle.Throttle{
			Control: &pace.Fixed{Rate: 2}, NewScope: rates,
			Fleet: throttle.Fleet{Store: store, Key: "api", Limit: l},
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		var made atomic.Int64
		for i := range 100 {
			all.Go(func() {
				mine := ctx
				if i%2 == 0 {
					mine = needing(ctx, throttle.Need{Scope: "0.01/s"})
				}
				for th.Do(mine, func(context.Context) error { made.Add(1); return nil }) == nil {
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second) // the last question ends
		if n := made.Load(); n < 119 || n > 122 {
			t.Errorf("at 2/s: %d calls in a minute, want 120", n)
		}
		if granted := store.granted.Load(); granted > 130 {
			t.Errorf("%d were bought for %d calls", granted, made.Load())
		}
	})
}

// A process whose MaxInFlight is taken does not buy what expires before a call ends.
func TestFleetBuysForPlaces(t *testing.T) {
	for _, took := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond, 10 * time.Second} {
		bubble.Test(t, func(t *testing.T) {
			store := new(counting)
			th := &throttle.Throttle{
				Control: pace.All(nil), MaxInFlight: 2, MaxWait: -1, OnEvent: func(throttle.Event) {},
				Fleet: throttle.Fleet{Store: store, Key: "api", Limit: limit.Limit{Count: 1000, Period: time.Second}},
			}
			ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
			defer cancel()
			var all sync.WaitGroup
			var made atomic.Int64
			for range 50 {
				all.Go(func() {
					for th.Do(ctx, func(context.Context) error { made.Add(1); time.Sleep(took); return nil }) == nil {
					}
				})
			}
			all.Wait()
			time.Sleep(time.Second) // the last question ends
			n, granted := made.Load(), store.granted.Load()
			if most := 2 * int64(time.Minute/took); n < most*9/10 || granted > n+n/10+2 {
				t.Errorf("calls of %v: %d made, of %d at most, and %d bought", took, n, most, granted)
			}
		})
	}
}

// Whoever is cancelled leaves his credit to the next.
func TestFleetLosesNoCredit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := limit.Limit{Count: 100, Period: time.Second, Burst: 10}
		f := &far{store: new(memory.Store), trip: 5 * time.Millisecond}
		th := &throttle.Throttle{Fleet: throttle.Fleet{Store: f, Key: "api", Limit: l}}
		var all sync.WaitGroup
		var made atomic.Int64
		began := time.Now()
		for i := range 3000 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond / 3) // three times the limit
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(200))*time.Millisecond)
				defer cancel()
				if th.Do(ctx, nothing) == nil {
					made.Add(1)
				}
			})
		}
		all.Wait()
		most := 10 + 100*time.Since(began).Seconds()
		if n := float64(made.Load()); n > most+1 || n < 0.95*most {
			t.Errorf("%.0f calls were made, want nearly %.0f and no more", n, most)
		}
		time.Sleep(time.Second) // the last question ends
		if th.Waiting() != 0 || th.InFlight() != 0 {
			t.Errorf("%d waiting, %d in flight", th.Waiting(), th.InFlight())
		}
	})
}

func ExampleFleet() {
	var store memory.Store // in a fleet, a Store in Redis or PostgreSQL
	api := throttle.Throttle{Fleet: throttle.Fleet{
		Store: &store,
		Key:   "example.com",
		Limit: limit.Limit{Count: 5000, Period: time.Hour, Burst: 100},
	}}
	err := api.Do(context.Background(), func(context.Context) error {
		fmt.Println("called")
		return nil
	})
	fmt.Println(err)
	// Output:
	// called
	// <nil>
}

// A Store that panics, or ends its goroutine, has failed: the process goes on
// alone, and asks again.
func TestFleetPanic(t *testing.T) {
	for want, f := range map[string]func(){
		"the Store of the Fleet panicked: boo":       func() { panic("boo") },
		"the Store of the Fleet ended its goroutine": runtime.Goexit,
	} {
		bubble.Test(t, func(t *testing.T) {
			sound := new(counting)
			var asked atomic.Int64
			s := store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
				if asked.Add(1) < 3 {
					f()
				}
				return sound.Take(ctx, a, d)
			})
			th := &throttle.Throttle{
				Control: &pace.Fixed{Rate: 100},
				Fleet:   throttle.Fleet{Store: s, Key: "k", Limit: limit.Limit{Count: 100, Period: time.Second}},
			}
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
				if err := th.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			c := th.FleetStats()
			if c.Failed != 2 || c.Answered == 0 || sound.granted.Load() == 0 || c.LastErr == nil || !strings.Contains(c.LastErr.Error(), want) {
				t.Errorf("FleetStats() = %+v, %d granted; want 2 failed with %q, and others answered", c, sound.granted.Load(), want)
			}
		})
	}
}

// Under the longest Timeout no answer is late.
func TestFleetWithoutTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		st := &far{store: new(memory.Store), trip: time.Second}
		th := throttle.Throttle{Fleet: throttle.Fleet{Store: st, Key: "k", Timeout: math.MaxInt64, Limit: limit.Limit{Count: 10, Period: time.Second}}}
		began := time.Now()
		err := th.Do(t.Context(), nothing)
		if took := time.Since(began); err != nil || st.asked.Load() != 1 || took != time.Second {
			t.Errorf("%v after %v and %d requests, want nil after one of a second", err, took, st.asked.Load())
		}
	})
}
