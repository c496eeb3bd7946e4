// Package batch runs policies in a scenario over many seeds, on all cores.
package batch

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/sim"
)

// A Row is a policy over all seeds of one scenario.
type Row struct {
	Policy string
	// Seeds is how many runs the Summary is of: all, unless interrupted.
	Seeds   int
	Summary sim.Summary
}

// A Result is a scenario under several policies.
type Result struct {
	Scenario sim.Scenario
	// Seed is the first seed; the others follow it one by one.
	Seed     uint64
	Policies []sim.Policy
	// Rows are in the order of Policies. A policy without a complete run when
	// the command was interrupted has none.
	Rows        []Row
	Interrupted bool
}

// EventsBetweenLooks is how many events are simulated, in some milliseconds,
// before a run looks whether it was interrupted.
const EventsBetweenLooks = 16_384

// Run runs every policy over every seed, from first on, on all cores. When ctx
// ends it stops promptly and returns what is complete. progress, if not nil, is
// called with the number of runs that are over, by one goroutine at a time.
func Run(ctx context.Context, s sim.Scenario, policies []sim.Policy, seeds int, first uint64, progress func(done, total int)) Result {
	return New(s, policies, seeds, first, progress).Run(ctx)
}

// Run runs every policy over every seed and returns what was complete before
// ctx ended.
func (b *Batch) Run(ctx context.Context) Result {
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(b.policies)*b.seeds) {
		wg.Go(func() { b.work(ctx) })
	}
	wg.Wait()
	return b.result()
}

// A Batch is the runs of one scenario. Run i is of policy i/seeds.
type Batch struct {
	scenario sim.Scenario
	policies []sim.Policy
	seeds    int
	first    uint64
	progress func(done, total int)
	// MaxSent is as in sim.Run. It must be set before Run.
	MaxSent int64
	// Look, if not nil, is called with how far a run is, every so many events of
	// it, by one goroutine at a time. It must be set before Run.
	Look func(Where)
	next atomic.Int64

	mu   sync.Mutex // guards what is below
	done int
	// results of each policy in progress, in the order of seeds; nil when it is
	// summarised, so that memory is that of a few policies.
	results [][]sim.Result
	ready   [][]bool
	left    []int
	rows    []Row
}

// New prepares the runs of policies, with the scenario given to the peers among
// them, in s over seeds from first on. progress is as for Run.
func New(s sim.Scenario, policies []sim.Policy, seeds int, first uint64, progress func(done, total int)) *Batch {
	policies = policy.For(s, policies)
	b := &Batch{
		scenario: s, policies: policies, seeds: seeds, first: first, progress: progress,
		results: make([][]sim.Result, len(policies)),
		ready:   make([][]bool, len(policies)),
		left:    make([]int, len(policies)),
		rows:    make([]Row, len(policies)),
	}
	for i := range b.left {
		b.left[i] = seeds
	}
	return b
}

// work does runs until there are no more, or ctx ends.
func (b *Batch) work(ctx context.Context) {
	for {
		i := int(b.next.Add(1) - 1)
		if i >= len(b.policies)*b.seeds {
			return
		}
		policy, seed := i/b.seeds, i%b.seeds
		run := sim.New(b.scenario, b.policies[policy], b.first+uint64(seed))
		run.MaxSent = b.MaxSent
		over := false
		for !over && ctx.Err() == nil {
			if over = run.Step(EventsBetweenLooks); b.Look != nil {
				b.look(policy, run)
			}
		}
		if !over {
			return
		}
		b.add(policy, seed, run.Result())
	}
}

// Where is how far one run is.
type Where struct {
	Done, Total int // runs
	Policy      string
	At          time.Duration // of the scenario's Duration
	Sent        int64
}

func (b *Batch) look(policy int, run *sim.Run) {
	at, sent := run.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Look(Where{b.done, len(b.policies) * b.seeds, b.policies[policy].Name, at, sent})
}

// add takes in one run.
func (b *Batch) add(policy, seed int, r sim.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.results[policy] == nil {
		b.results[policy], b.ready[policy] = make([]sim.Result, b.seeds), make([]bool, b.seeds)
	}
	b.results[policy][seed], b.ready[policy][seed] = r, true
	if b.left[policy]--; b.left[policy] == 0 {
		b.summarise(policy)
	}
	b.done++
	if b.progress != nil {
		b.progress(b.done, len(b.policies)*b.seeds)
	}
}

// summarise makes the row of a policy out of the runs that are complete.
func (b *Batch) summarise(policy int) {
	var complete []sim.Result
	for seed, ok := range b.ready[policy] {
		if ok {
			complete = append(complete, b.results[policy][seed])
		}
	}
	b.rows[policy] = Row{b.policies[policy].Name, len(complete), sim.Summarise(complete)}
	b.results[policy], b.ready[policy] = nil, nil
}

// result is the table, when no work is in progress any more.
func (b *Batch) result() Result {
	r := Result{
		Scenario: b.scenario, Seed: b.first, Policies: b.policies,
		Interrupted: b.done < len(b.policies)*b.seeds,
	}
	for policy := range b.policies {
		if b.results[policy] != nil {
			b.summarise(policy)
		}
		if b.rows[policy].Seeds > 0 {
			r.Rows = append(r.Rows, b.rows[policy])
		}
	}
	return r
}
