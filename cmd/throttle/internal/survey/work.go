package survey

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/sim"
	"github.com/throttle-go/throttle/sim/survey"
)

// outcome is what came of one cell.
type outcome struct {
	cell        survey.Cell
	informed    bool
	ours, bound survey.Figures
	verdict     survey.Verdict
	hopeless    bool               // for the bound too
	apart       bool               // held by no policy but the shared one: clients that do not talk to each other collide
	rival       rival              // who holds what is missed
	winners     []string           // peers that win the cell
	told        [len(knowing)]bool // held by those that know the rate
	pair        pair
}

// rival is who holds a cell that is missed.
type rival uint8

const (
	nobody     rival = iota
	aPeer            // that is told nothing of the rate
	evenShares       // paced at their even shares of the rate
	oneLimiter       // shared by all clients
)

// pair is a cell that tells one hint more. The control is the cell as it is, in
// other runs: what it seems to lose is chance.
type pair struct {
	ok          bool
	cell        survey.Cell
	hint        string
	ours, again survey.Figures
	told, other loss
}

// loss is what survey.Cell.Worse finds.
type loss struct{ missed, loses bool }

// overCells runs the cells on all cores. Their order is that of numbers, however
// many cores there are.
func overCells[T any](ctx context.Context, o *options, progress func(done int), run func(context.Context, survey.Cell) T) ([]T, error) {
	numbers := o.numbers()
	outcomes := make([]T, len(numbers))
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		mu   sync.Mutex // of done
		done int
	)
	for range min(runtime.GOMAXPROCS(0), len(numbers)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(numbers) {
					return
				}
				outcomes[i] = run(ctx, survey.Draw(o.seed, numbers[i]))
				if ctx.Err() != nil {
					return // in the middle of it
				}
				mu.Lock()
				done++
				progress(done)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if done < len(numbers) {
		return nil, exit.Failf("interrupted: %d of %d cells", done, len(numbers))
	}
	return outcomes, nil
}

// judge runs one cell.
func (o *options) judge(ctx context.Context, c survey.Cell) outcome {
	x := outcome{cell: c, informed: c.Informed(o.policy.Hears)}
	x.bound = o.figures(ctx, c, o.seeds, sim.Bound, math.MaxInt64)
	x.ours = o.figures(ctx, c, o.seeds, with(o.policy), enough(3, x.bound))
	x.verdict = c.Judge(x.ours, x.bound, x.informed)
	if o.pairs {
		o.tell(ctx, &x)
		return x
	}
	if o.peers {
		o.compare(ctx, &x)
	}
	return x
}

// tell runs the cell with one more hint, and again with none.
func (o *options) tell(ctx context.Context, x *outcome) {
	p, other := &x.pair, x.cell
	if p.cell, p.hint, p.ok = x.cell.Tell(); !p.ok {
		return
	}
	other.Number += maxCells // for other seeds
	p.ours = o.figures(ctx, p.cell, o.seeds, with(o.policy), enough(3, x.bound))
	p.again = o.figures(ctx, other, o.seeds, with(o.policy), enough(3, x.bound))
	p.told.missed, p.told.loses = x.cell.Worse(p.ours, x.ours, x.bound)
	p.other.missed, p.other.loses = x.cell.Worse(p.again, x.ours, x.bound)
}

// compare runs the peers, and those that know the rate.
func (o *options) compare(ctx context.Context, x *outcome) {
	held := x.verdict.Held()
	holds := func(f survey.Figures) bool { return x.cell.Judge(f, x.bound, x.informed).Held() }
	for _, p := range rivals(o.policy) {
		f, in := o.peer(ctx, x, p, held)
		held = held || in && holds(f)
		if in && x.cell.Beats(f, x.ours) {
			x.winners = append(x.winners, p.Name)
		}
	}
	if held {
		x.rival = aPeer
	}
	for i, p := range []sim.Policy{evenly(x.cell.Scenario), shared(x.cell.Scenario)} {
		if f, in := o.peer(ctx, x, p, false); in {
			x.told[i] = holds(f)
			held = held || x.told[i] && p.Name != sharedName
			if x.told[i] && x.rival == nobody {
				x.rival = evenShares + rival(i)
			}
		}
	}
	if !held && x.cell.Small() {
		x.hopeless, x.apart = !holds(x.bound), true
	}
}

// peer runs a peer once, and as often as the others if it may yet win the cell
// or hold it where that is in question.
func (o *options) peer(ctx context.Context, x *outcome, p sim.Policy, held bool) (f survey.Figures, in bool) {
	most := enough(2, x.bound, x.ours)
	f = o.figures(ctx, x.cell, 1, with(p), most)
	hopes := f.Wait < x.ours.Wait || f.Finish < x.ours.Finish
	if f.Cut || f.Retry > max(0.1, x.ours.Retry)+0.15 || held && !hopes {
		return f, false
	}
	return o.figures(ctx, x.cell, o.seeds, with(p), most), true
}

// knowing are the policies that know the rate: each process its part of it, or
// all of them together.
var knowing = [...]string{"x-time-rate", sharedName}

// evenly is the first of them.
func evenly(s sim.Scenario) sim.Policy {
	return policy.For(s, []sim.Policy{{Name: knowing[0]}})[0]
}

// rivals are the policies that know nothing of the rate and are not ours.
func rivals(ours sim.Policy) []sim.Policy {
	others := []string{"adaptive", "adaptive-informed", "fixed", ours.Name, knowing[0], "omniscient"}
	return slices.DeleteFunc(policy.All(sim.Scenario{}), func(p sim.Policy) bool { return slices.Contains(others, p.Name) })
}

// enough is how many requests a run sends before it is stopped.
func enough(times float64, others ...survey.Figures) int64 {
	most := 0.0
	for _, f := range others {
		most = max(most, f.Sent)
	}
	return int64(times*most) + 1000
}

// with makes a run of a policy.
func with(p sim.Policy) func(sim.Scenario, uint64) *sim.Run {
	return func(s sim.Scenario, seed uint64) *sim.Run {
		return sim.New(s, policy.For(s, []sim.Policy{p})[0], seed)
	}
}

// figures are those of so many runs.
func (o *options) figures(ctx context.Context, c survey.Cell, seeds int, begin func(sim.Scenario, uint64) *sim.Run, most int64) survey.Figures {
	var results []sim.Result
	for i := range seeds {
		r := begin(c.Scenario, uint64(c.Number*maxSeeds+i+1))
		r.MaxSent = most
		for ctx.Err() == nil && !r.Step(batch.EventsBetweenLooks) {
		}
		results = append(results, r.Result())
	}
	return survey.Measure(results)
}
