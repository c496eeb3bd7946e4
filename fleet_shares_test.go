package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
)

// shares is a Fleet whose processes all have more to do than the limit allows.
type shares struct {
	processes, workers int
	limit              limit.Limit
	trip               time.Duration
	arrivals           string // always, random, bursts
	seed               uint64
}

// run returns how many calls each process made in the time, and how often the
// Store was asked.
func (s shares) run(t *testing.T, length time.Duration) (each []float64, asked int64) {
	f := &far{store: new(memory.Store), trip: s.trip}
	each = make([]float64, s.processes)
	var mu sync.Mutex
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	rate := float64(s.limit.Count) / s.limit.Period.Seconds() / float64(s.processes)
	for i := range each {
		th := &throttle.Throttle{Fleet: throttle.Fleet{Store: f, Key: "api", Limit: s.limit}}
		for w := range s.workers {
			random := rand.New(rand.NewPCG(s.seed, uint64(i*1000+w)))
			all.Go(func() {
				for ctx.Err() == nil {
					switch s.arrivals {
					case "random": // three times the share
						time.Sleep(time.Duration(random.ExpFloat64() * float64(s.workers) / rate / 3 * float64(time.Second)))
					case "bursts":
						if random.IntN(20) == 0 {
							time.Sleep(time.Duration(random.ExpFloat64() * float64(s.workers) / rate * float64(time.Second)))
						}
					}
					err := th.Do(ctx, func(context.Context) error {
						mu.Lock()
						each[i]++
						mu.Unlock()
						time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
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
	time.Sleep(time.Second) // the last questions end
	return each, f.asked.Load()
}

// jain is Jain's fairness index: 1 if all are equal, 1/n if one has all.
func jain(x []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += v
		squares += v * v
	}
	return sum * sum / squares / float64(len(x))
}

// Processes of one Fleet that are all busy split its limit evenly, also those that
// ask for little at a time, and use all of it.
func TestFleetSplitsEvenly(t *testing.T) {
	bubble.Long(t)
	perSecond := func(count, burst int64) limit.Limit {
		return limit.Limit{Count: count, Period: time.Second, Burst: burst}
	}
	for _, s := range []struct {
		shares
		used, asked float64       // of what is possible; for each call
		length      time.Duration // zero: 20 s
	}{
		{shares{processes: 2, workers: 10, limit: perSecond(100, 20)}, 0.98, 0.8, 0},
		{shares{processes: 5, workers: 10, limit: perSecond(100, 20)}, 0.98, 1.2, 0},
		{shares{processes: 20, workers: 10, limit: perSecond(100, 20)}, 0.98, 3.5, 40 * time.Second},
		{shares{processes: 5, workers: 50, limit: perSecond(1000, 0)}, 0.98, 0.2, 0},
		{shares{processes: 20, workers: 50, limit: perSecond(1000, 10)}, 0.98, 1.3, 0},
		{shares{processes: 10, workers: 30, limit: perSecond(300, 1)}, 0.65, 4.5, 0},
		{shares{processes: 3, workers: 5, limit: perSecond(10, 5)}, 0.97, 2.2, 0},
		// 20 s are 40 calls a process: chance alone may give one half of that.
		{shares{processes: 10, workers: 5, limit: perSecond(20, 0)}, 0.98, 4, time.Minute},
		{shares{processes: 8, workers: 20, limit: limit.Limit{Count: 6000, Period: time.Minute, Burst: 50}}, 0.98, 1.6, 0},
		// All ask as a window begins: who is first is chance, which takes many to even out.
		{shares{processes: 6, workers: 20, limit: limit.Limit{Kind: limit.FixedWindow, Count: 100, Period: time.Second}}, 0.93, 0.5, time.Minute},
	} {
		name := fmt.Sprintf("%d share %v", s.processes, s.limit)
		length := max(s.length, 20*time.Second)
		possible := float64(s.limit.Max()) + length.Seconds()*float64(s.limit.Count)/s.limit.Period.Seconds()
		sum, worst, used, questions := 0.0, 1.0, 0.0, 0.0
		const runs = 3
		for i := range runs {
			s.arrivals = []string{"always", "random", "bursts"}[i]
			s.seed, s.trip = uint64(i), time.Duration(1+2*i)*time.Millisecond
			bubble.Test(t, func(t *testing.T) {
				each, asked := s.run(t, length)
				calls := 0.0
				for _, n := range each {
					calls += n
				}
				sum, worst = sum+jain(each)/runs, min(worst, jain(each))
				used, questions = used+calls/possible/runs, questions+float64(asked)/calls/runs
			})
		}
		t.Logf("%s: Jain %.3f, at worst %.3f; %.3f of it used, %.2f questions a call", name, sum, worst, used, questions)
		if sum < 0.95 || worst < 0.85 || used < s.used || questions > s.asked {
			t.Errorf("%s: Jain %.3f, at worst %.3f; %.3f of it used, %.2f questions a call; want 0.95, 0.85; %.2f, %.2f", name, sum, worst, used, questions, s.used, s.asked)
		}
	}
}

// Nothing is bought for calls whose place a call holds that rests before its retry.
func TestFleetBuysNothingWhileOneRests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := new(counting)
		th := &throttle.Throttle{
			Control: pace.All(nil), MaxInFlight: 1, CountResting: true, MaxWait: -1, OnEvent: func(throttle.Event) {},
			Fleet: throttle.Fleet{Store: store, Key: "api", Limit: limit.Limit{Count: 1000, Period: time.Second}},
		}
		var all sync.WaitGroup
		tries := 0
		for range 30 { // one in 2 s, so that what was bought before has expired
			all.Go(func() {
				err := th.Do(t.Context(), func(context.Context) error {
					if tries++; tries == 1 {
						return throttle.Throttled(errors.New("busy"), time.Minute)
					}
					time.Sleep(10 * time.Millisecond)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(2 * time.Second)
		}
		all.Wait()
		if granted := store.granted.Load(); granted > 33 {
			t.Errorf("%d were bought for %d tries", granted, tries)
		}
	})
}
