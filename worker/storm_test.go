package worker_test

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
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// shot is a record of a storm.
type shot struct {
	of     *target
	offset int64
	key    string
}

// target is an assignment of a storm, with what was done of it.
type target struct {
	as     *worker.Assignment[shot]
	cancel context.CancelCauseFunc
	adds   sync.Mutex // held by the one that adds
	next   int64      // to add

	mu   sync.Mutex
	done map[int64]bool // of the offsets that were given: whether it was done
}

// storm lets many goroutines call everything of one Worker at once.
type storm struct {
	t        *testing.T
	seed     uint64
	w        *worker.Worker[shot]
	throttle *throttle.Throttle

	mu      sync.Mutex
	targets []*target
	busy    map[string]bool
	running atomic.Int64
	dying   atomic.Int64
	tries   atomic.Uint64
}

func newStorm(t *testing.T, seed uint64) *storm {
	random := rand.New(rand.NewPCG(seed, 3))
	s := &storm{t: t, seed: seed, busy: map[string]bool{}}
	s.throttle = []*throttle.Throttle{
		free(),
		{Control: new(pace.Fixed), Concurrency: new(load.Adaptive)},
		{Control: &pace.Fixed{Rate: 60}, MaxWaiting: 1},
		{Control: new(pace.Fixed), MaxInFlight: 2, MaxWaiting: 1},
		new(throttle.Throttle),
	}[random.IntN(5)]
	s.w = &worker.Worker[shot]{
		Handle: s.handle, Throttle: s.throttle,
		Offset:      func(r shot) int64 { return r.offset },
		Order:       func(r shot) string { return r.key },
		Size:        func(r shot) int { return int(r.offset % 5) },
		Window:      1 + random.IntN(20),
		MaxBytes:    int64(1 + random.IntN(60)),
		MaxInFlight: 1 + random.IntN(8),
		Timeout:     time.Duration(1+random.IntN(2000)) * time.Millisecond,
		Tries:       random.IntN(5),
		Breaker:     random.IntN(4) - 1,
		Room:        func(a *worker.Assignment[shot]) { a.Frontier() },
		OnEvent:     func(worker.Event) { s.w.Stats() },
	}
	if random.IntN(3) > 0 {
		s.w.Dead = s.bury
	}
	return s
}

// draw is a random number below n.
func (s *storm) draw(n int) int {
	return rand.New(rand.NewPCG(s.seed, s.tries.Add(1)<<8)).IntN(n)
}

// sleep lasts for a random time, or until ctx ends, which it reports.
func (s *storm) sleep(ctx context.Context) (ended bool) {
	select {
	case <-time.After(time.Duration(s.draw(200)) * time.Millisecond):
		return false
	case <-ctx.Done():
		return true
	}
}

func (s *storm) handle(ctx context.Context, r shot) error {
	if n := s.running.Add(1); n > int64(s.w.MaxInFlight) {
		s.t.Errorf("%d in flight, want %d at most", n, s.w.MaxInFlight)
	}
	defer s.running.Add(-1)
	s.alone(r, true)
	defer s.alone(r, false)
	switch ended := s.sleep(ctx); s.draw(16) {
	case 0:
		<-ctx.Done()
		return ctx.Err()
	case 1:
		return throttle.Throttled(errors.New("busy"), time.Duration(s.draw(1000))*time.Millisecond)
	case 2, 3:
		return throttle.Failed(errors.New("failed"))
	case 4:
		return throttle.Ignore(errors.New("ignored"))
	case 5:
		return errPoison
	case 6:
		runtime.Goexit()
	case 7: // it ignores its context
		time.Sleep(3 * time.Second)
	default:
		if ended && s.draw(2) == 0 {
			return ctx.Err()
		}
	}
	r.of.did(r)
	return nil
}

func (s *storm) bury(ctx context.Context, r shot, _ error) error {
	if n := s.dying.Add(1); n > 16 {
		s.t.Errorf("%d calls of Dead at once, want 16 at most", n)
	}
	defer s.dying.Add(-1)
	if s.sleep(ctx); s.draw(3) == 0 {
		return errors.New("no letters today")
	}
	r.of.did(r)
	return nil
}

// alone holds that no two records of a key are in Handle.
func (s *storm) alone(r shot, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begins && r.key != "" && s.busy[r.key] {
		s.t.Errorf("two records of %s at once", r.key)
	}
	s.busy[r.key] = begins
}

func (x *target) did(r shot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done[r.offset] = true
}

// holds that all that was given below the frontier is done.
func (x *target) holds(t *testing.T, next int64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !ok {
		return
	}
	for offset, done := range x.done {
		if offset < next && !done {
			t.Errorf("the frontier is %d, and %d is not done", next, offset)
		}
	}
}

// give adds a record behind the others, in one way or another.
func (s *storm) give(ctx context.Context, x *target, how int) {
	if !x.adds.TryLock() {
		return
	}
	defer x.adds.Unlock()
	r := shot{x, x.next, []string{"", "a", "b"}[how%3]}
	x.mu.Lock()
	if _, again := x.done[r.offset]; !again {
		x.done[r.offset] = false
	}
	x.mu.Unlock()
	if how%2 == 0 && x.as.Add(r) == 0 || how%2 != 0 && x.as.Put(ctx, r) != nil {
		return // it comes again
	}
	x.next += 1 + int64(how%4)
	if how%11 == 0 {
		x.as.Skip(x.next)
	}
}

// pick returns a target, mostly one that has not ended; nil if there is none.
func (s *storm) pick(random *rand.Rand) (x *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 30 {
		if n := len(s.targets); n > 0 {
			x = s.targets[random.IntN(n)]
			if x.as.Err() == nil || random.IntN(30) == 0 {
				return x
			}
		}
	}
	return nil
}

// step does something to some target.
func (s *storm) step(random *rand.Rand) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(random.IntN(3000))*time.Millisecond)
	defer cancel()
	x := s.pick(random)
	op := random.IntN(40)
	switch {
	case x == nil || op == 0:
		x = &target{done: map[int64]bool{}}
		var of context.Context
		of, x.cancel = context.WithCancelCause(s.t.Context())
		x.as = s.w.Assign(of, "x", int64(random.IntN(2)-1))
		s.mu.Lock()
		s.targets = append(s.targets, x)
		s.mu.Unlock()
	case op < 26:
		for range random.IntN(10) {
			s.give(ctx, x, random.IntN(1000))
		}
	case op < 30:
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
	case op < 34:
		next, ok := x.as.Frontier()
		x.holds(s.t, next, ok)
	case op == 34:
		next, ok := x.as.Revoke(ctx)
		x.holds(s.t, next, ok)
		if _, ok := x.as.Frontier(); ok {
			s.t.Error("a frontier after Revoke")
		}
	case op == 35:
		x.as.Lost()
	case op == 36:
		x.cancel(errors.New("cancelled"))
	case op == 37:
		_ = x.as.Wait(ctx) // it may not be done
	case op == 38 && random.IntN(10) == 0:
		_ = s.w.Drain(ctx)
	default:
		s.w.Stats()
	}
}

// after holds that nothing is left, and that the Worker still works.
func (s *storm) after() {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	_ = s.w.Drain(ctx)
	for _, x := range s.targets {
		next, ok := x.as.Frontier()
		x.holds(s.t, next, ok)
		x.as.Lost()
		x.cancel(nil)
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
	if n, m := s.throttle.InFlight(), s.throttle.Waiting(); n != 0 || m != 0 || s.running.Load() != 0 {
		s.t.Errorf("%d calls in flight, %d waiting and %d in Handle after the end, want none", n, m, s.running.Load())
	}
	st := s.w.Stats()
	if st.Done == 0 {
		s.t.Error("nothing was done")
	}
	if st.InFlight+st.Waiting+st.Ordered+st.Resting+st.Dying != 0 || st.Bytes != 0 || len(st.Assignments) != 0 {
		s.t.Errorf("left after the end: %+v", st)
	}
}

// TestStorm calls everything of a Worker from many goroutines at once, while tries
// succeed, fail, hang, are throttled, and end their goroutine. THROTTLE_SOAK=1 does so
// with other seeds.
func TestStorm(t *testing.T) {
	seeds := uint64(30)
	if os.Getenv("THROTTLE_SOAK") != "" {
		seeds = 3000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newStorm(t, seed)
				var all sync.WaitGroup
				for i := range uint64(8) {
					all.Go(func() {
						random := rand.New(rand.NewPCG(seed, 10+i))
						for range 300 {
							s.step(random)
						}
					})
				}
				all.Wait()
				s.after()
			})
		})
	}
}
