package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/worker"
)

// entry is a record of a log.
type entry struct {
	log    int
	offset int64
	key    string
}

// world is a log of partitions, a broker that keeps what is committed, a service,
// and one process at a time that consumes.
type world struct {
	t        *testing.T
	rng      *rand.Rand // of the driver
	seed     uint64     // of the service
	window   int
	inFlight int
	dead     bool        // there is a dead letter queue
	calm     atomic.Bool // no faults any more
	logs     [][]entry

	mu        sync.Mutex
	applied   map[entry]bool // done, or in the dead letter queue
	tries     map[entry]int
	tried     map[entry]bool   // since its log was assigned last
	busy      map[string]entry // keys in Handle, of this process
	running   int
	committed []int64
	alive     int // number of the process

	w        *worker.Worker[entry]
	throttle *throttle.Throttle
	parts    []*partition
}

// partition is one as the process sees it.
type partition struct {
	log    int
	at     int // index in the log of the next record to fetch
	rest   []entry
	paused bool
	last   int64 // frontier
	as     *worker.Assignment[entry]
	end    context.CancelFunc
}

func newWorld(t *testing.T, seed uint64) *world {
	x := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), seed: seed,
		applied: map[entry]bool{}, tries: map[entry]int{}, tried: map[entry]bool{},
	}
	x.window, x.inFlight, x.dead = 1+x.rng.IntN(12), 1+x.rng.IntN(6), x.rng.IntN(2) == 0
	for log := range 1 + x.rng.IntN(3) {
		var entries []entry
		at := int64(x.rng.IntN(3))
		for range 20 + x.rng.IntN(60) {
			key := ""
			if x.rng.IntN(3) == 0 {
				key = fmt.Sprint("key", x.rng.IntN(3))
			}
			entries = append(entries, entry{log, at, key})
			if at++; x.rng.IntN(5) == 0 {
				at += int64(x.rng.IntN(10)) // compaction, transactions
			}
		}
		x.logs = append(x.logs, entries)
		x.committed = append(x.committed, 0)
	}
	return x
}

// begin starts a process.
func (x *world) begin() {
	x.mu.Lock()
	x.alive++
	alive := x.alive
	x.busy, x.running = map[string]entry{}, 0
	x.mu.Unlock()
	x.throttle = &throttle.Throttle{Control: free().Control, MaxInFlight: x.inFlight}
	x.w = &worker.Worker[entry]{
		Handle:   func(ctx context.Context, e entry) error { return x.handle(ctx, alive, e) },
		Throttle: x.throttle,
		Offset:   func(e entry) int64 { return e.offset },
		Order:    func(e entry) string { return e.key },
		Size:     func(e entry) int { return int(e.offset % 7) },
		MaxBytes: 60,
		Window:   x.window,
		Timeout:  3 * time.Second,
		Room: func(a *worker.Assignment[entry]) {
			x.mu.Lock()
			defer x.mu.Unlock()
			for _, p := range x.parts {
				if p != nil && p.as == a {
					p.paused = false
				}
			}
		},
		OnEvent: func(worker.Event) {},
	}
	if x.dead {
		x.w.Tries = 4
		x.w.Dead = func(ctx context.Context, e entry, err error) error { return x.bury(ctx, e) }
	}
	x.parts = make([]*partition, len(x.logs))
}

// draw is a number below n that depends on the try alone.
func (x *world) draw(e entry, try, n int) int {
	h := x.seed ^ uint64(e.log)<<60 ^ uint64(e.offset)<<20 ^ uint64(try)
	return rand.New(rand.NewPCG(h, h>>7)).IntN(n)
}

func (x *world) handle(ctx context.Context, alive int, e entry) error {
	try := x.enter(alive, e)
	defer x.leave(alive, e)
	d := time.Duration(x.draw(e, try, 50)) * 100 * time.Millisecond
	cause := x.draw(e, -try-1, 12)
	if x.calm.Load() && cause < 8 {
		cause = 11
	}
	if d > 3*time.Second && cause < 6 {
		<-ctx.Done() // hangs
		return ctx.Err()
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		if cause%2 == 0 {
			return ctx.Err()
		}
	}
	switch {
	case cause < 3:
		return throttle.Failed(errors.New("failed"))
	case cause < 5:
		return throttle.Throttled(errors.New("busy"), time.Duration(cause)*time.Second)
	case cause < 6:
		return throttle.Ignore(errors.New("never sent"))
	case cause == 8 && x.dead:
		return errors.New("poison")
	}
	return x.apply(alive, e)
}

func (x *world) apply(alive int, e entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if alive != x.alive {
		return errors.New("the process was killed")
	}
	x.applied[e] = true
	return nil
}

// bury is the dead letter queue.
func (x *world) bury(ctx context.Context, e entry) error {
	x.mu.Lock()
	x.tries[e]++
	try, alive := x.tries[e], x.alive
	x.mu.Unlock()
	select {
	case <-time.After(time.Duration(x.draw(e, try, 10)) * time.Second / 4):
	case <-ctx.Done():
		return ctx.Err()
	}
	if !x.calm.Load() && x.draw(e, try, 3) == 0 {
		return errors.New("the dead letter queue is down")
	}
	return x.apply(alive, e)
}

func (x *world) enter(alive int, e entry) (try int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tries[e]++
	x.tried[e] = true
	if alive != x.alive {
		x.t.Errorf("a try of %v starts after its process was killed", e)
		return x.tries[e]
	}
	if x.running++; x.running > x.inFlight {
		x.t.Errorf("%d in flight, want at most %d", x.running, x.inFlight)
	}
	if e.key != "" {
		if other, ok := x.busy[e.key]; ok {
			x.t.Errorf("%v starts beside %v", e, other)
		}
		x.busy[e.key] = e
		x.inOrder(e)
	}
	return x.tries[e]
}

// inOrder holds that the records before e with its key, in its log, are done.
func (x *world) inOrder(e entry) {
	for _, before := range x.logs[e.log] {
		if before.offset >= e.offset {
			return
		}
		if before.key == e.key && !x.applied[before] {
			x.t.Errorf("%v starts before %v is done", e, before)
		}
	}
}

func (x *world) leave(alive int, e entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if alive == x.alive {
		x.running--
		if e.key != "" {
			delete(x.busy, e.key)
		}
	}
}

// assign begins an assignment of a log that has none.
func (x *world) assign(log int) {
	ctx, end := context.WithCancel(x.t.Context())
	p := &partition{log: log, end: end, last: x.committed[log]}
	for p.at < len(x.logs[log]) && x.logs[log][p.at].offset < x.committed[log] {
		p.at++
	}
	p.as = x.w.Assign(ctx, fmt.Sprint("log", log), x.committed[log])
	x.mu.Lock()
	for _, e := range x.logs[log] {
		delete(x.tried, e)
	}
	x.parts[log] = p
	x.mu.Unlock()
}

// fetch gives p what was refused, or some more records.
func (x *world) fetch(p *partition) {
	x.mu.Lock()
	paused := p.paused
	x.mu.Unlock()
	log := x.logs[p.log]
	if paused {
		if p.at < len(log) && x.rng.IntN(4) == 0 && len(p.rest) > 0 {
			if n := p.as.Add(log[p.at]); n > 0 {
				x.t.Errorf("Add accepts %v, though %v was refused before", log[p.at], p.rest[0])
			}
		}
		return
	}
	n := min(len(log)-p.at, x.rng.IntN(20))
	batch := append(p.rest, log[p.at:p.at+n]...)
	if p.at += n; p.at == len(log) && len(batch) == 0 {
		p.as.Skip(log[len(log)-1].offset + 5) // markers at the end
	}
	x.mu.Lock()
	p.paused = true // before Add, as Room may be called at once
	x.mu.Unlock()
	p.rest = batch[p.as.Add(batch...):]
	if len(p.rest) == 0 {
		x.mu.Lock()
		p.paused = false
		x.mu.Unlock()
	}
}

// commit holds that all below next is done, and keeps it.
func (x *world) commit(p *partition, next int64) {
	if next < p.last {
		x.t.Errorf("the frontier of %d goes back from %d to %d", p.log, p.last, next)
	}
	p.last = next
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.logs[p.log] {
		if e.offset < next && !x.applied[e] {
			x.t.Errorf("%d is committed, and %v is not done", next, e)
		}
	}
	x.committed[p.log] = next
}

func (x *world) ask(p *partition) {
	if next, ok := p.as.Frontier(); ok {
		x.commit(p, next)
	}
}

// check holds the bounds.
func (x *world) check() {
	synctest.Wait()
	for _, a := range x.w.Stats().Assignments {
		if a.Gap > x.window {
			x.t.Errorf("a gap of %d, want at most %d", a.Gap, x.window)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for log, entries := range x.logs {
		p := x.parts[log]
		if p == nil {
			continue
		}
		next, ok := p.as.Frontier()
		replay := 0
		for _, e := range entries[:p.at] {
			if ok && e.offset >= next && x.tried[e] {
				replay++
			}
		}
		if replay > x.window {
			x.t.Errorf("%d records would be repeated, want at most %d", replay, x.window)
		}
	}
}
