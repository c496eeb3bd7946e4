package worker_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// leaveGroup ends the assignment of p in some way.
func (x *world) leaveGroup(p *partition, how int) {
	switch how {
	case 0:
		p.as.Lost()
	case 1:
		ctx, cancel := context.WithTimeout(x.t.Context(), time.Duration(x.rng.IntN(5000))*time.Millisecond)
		if next, ok := p.as.Revoke(ctx); ok {
			x.commit(p, next)
		}
		cancel()
	case 2: // its context ends; what was done may be committed
		p.end()
		synctest.Wait()
		x.ask(p)
		p.as.Lost()
	}
	if next, ok := p.as.Frontier(); ok {
		x.t.Errorf("Frontier is %d, true after the assignment has ended", next)
	}
	if n := p.as.Add(x.logs[p.log][0]); n != 0 {
		x.t.Errorf("Add accepts %d after the assignment has ended", n)
	}
	p.end()
	x.mu.Lock()
	x.parts[p.log] = nil
	x.mu.Unlock()
}

// kill ends the process without a word: nothing of it has an effect any more.
func (x *world) kill() {
	for _, p := range x.parts {
		if p != nil {
			p.as.Lost()
			p.end()
		}
	}
	synctest.Wait() // a try that has started reaches handle
	x.mu.Lock()
	x.alive++ // what still runs has no effect
	x.mu.Unlock()
	x.gone()
}

// gone holds that nothing is left of a process.
func (x *world) gone() {
	time.Sleep(10 * time.Second) // Handle that ignores its context ends
	synctest.Wait()
	if n, m := x.throttle.InFlight(), x.throttle.Waiting(); n != 0 || m != 0 {
		x.t.Errorf("%d calls in flight and %d that wait after the end, want none", n, m)
	}
	s := x.w.Stats()
	if s.InFlight+s.Waiting+s.Ordered+s.Resting+s.Dying != 0 || s.Bytes != 0 || len(s.Assignments) != 0 {
		x.t.Errorf("left after the end: %+v", s)
	}
}

// step does something.
func (x *world) step(op byte) {
	log := x.rng.IntN(len(x.logs))
	p := x.parts[log]
	switch op % 16 {
	case 0, 1, 2, 3, 4, 5:
		if p == nil {
			x.assign(log)
		} else {
			x.fetch(p)
		}
	case 6, 7, 8:
		time.Sleep(time.Duration(x.rng.IntN(3000)) * time.Millisecond)
	case 9, 10:
		for _, p := range x.parts {
			if p != nil {
				x.ask(p)
			}
		}
	case 11:
		if p != nil {
			x.leaveGroup(p, x.rng.IntN(3))
		}
	case 12:
		if x.rng.IntN(4) == 0 {
			x.kill()
			x.begin()
		}
	case 13:
		synctest.Wait()
	case 14:
		if x.rng.IntN(4) == 0 {
			x.drain()
		}
	default:
		x.check()
	}
}

// drain ends all assignments.
func (x *world) drain() {
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Duration(x.rng.IntN(5000))*time.Millisecond)
	defer cancel()
	_ = x.w.Drain(ctx)
	for log, p := range x.parts {
		if p != nil {
			x.ask(p)
			p.as.Lost()
			p.end()
			x.mu.Lock()
			x.parts[log] = nil
			x.mu.Unlock()
		}
	}
}

// finish consumes the rest of the logs without faults.
func (x *world) finish() {
	x.calm.Store(true)
	for range 20_000 {
		left := false
		for log, entries := range x.logs {
			p := x.parts[log]
			if p == nil {
				x.assign(log)
				p = x.parts[log]
			}
			if p.as.Err() != nil {
				x.t.Fatalf("assignment of %d: %v", log, p.as.Err())
			}
			x.fetch(p)
			x.ask(p)
			left = left || x.committed[log] <= entries[len(entries)-1].offset
		}
		time.Sleep(100 * time.Millisecond)
		if !left {
			x.drain()
			x.gone()
			return
		}
	}
	x.t.Errorf("not done after half an hour: %+v; committed %v", x.w.Stats(), x.committed)
	x.kill()
}

// FuzzFrontier lets a consumer add, fetch, rebalance, drain and crash at any time,
// while tries succeed, fail, hang, are throttled or given up: what is committed
// never passes a record that is not done, and in the end all are done.
func FuzzFrontier(f *testing.F) {
	for seed := range uint64(20) {
		script := make([]byte, 200)
		rng := rand.New(rand.NewPCG(seed, 2))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		f.Add(seed, script)
	}
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		bubble.Test(t, func(t *testing.T) {
			x := newWorld(t, seed)
			x.begin()
			for _, op := range script[:min(len(script), 1000)] {
				x.step(op)
			}
			x.finish()
		})
	})
}
