package tune

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/sim"
)

// rounds is how many times a search draws settings: first anywhere, then around
// the best so far and around the front.
const rounds = 4

// trial is a policy that is tried.
type trial struct {
	policy sim.Policy
	point  []float64  // in the space; nil if outside
	runs   []readings // in the order of the seeds
	median readings
	score  float64
}

// search looks for the settings with the least score.
type search struct {
	scenario sim.Scenario
	space    space
	weights  []weight
	axes     [2]int // the measures of the front
	seeds    int
	first    uint64
	most     int // runs
	progress func(done int)

	score   scorer
	left    []string // the weights that do not apply
	byRule  *trial   // the policy with its defaults
	tried   []*trial // those with all seeds
	drawn   map[string]bool
	drawing int // points drawn so far
	done    int // runs so far
	cut     int // of them ended early by the simulator's bound
}

// screening is how many seeds every trial gets; the best quarter gets all.
func screening(seeds int) int { return (seeds + 3) / 4 }

// leastRuns is what a search needs: a round is four trials or more, one of
// which gets all seeds; the default is run too, and it and the best once more.
func leastRuns(seeds int) int { return rounds*(3*screening(seeds)+seeds) + 3*seeds }

// measureDefault runs the policy with its defaults, to which all is compared.
func (s *search) measureDefault(ctx context.Context) (ok bool, err error) {
	p, err := sim.ParsePolicy(s.space.write(nil))
	if err != nil {
		return false, err
	}
	s.byRule = &trial{policy: p}
	if s.measure(ctx, []*trial{s.byRule}, 0, s.seeds); len(s.byRule.runs) < s.seeds {
		return false, nil
	}
	s.score, s.left = newScorer(s.weights, s.scenario, mediansOf(s.byRule.runs))
	s.judge(s.byRule)
	s.drawn = map[string]bool{}
	if point, ok := s.space.defaults(); ok {
		s.byRule.point = point
		s.tried = append(s.tried, s.byRule)
		s.drawn[s.space.at(point)] = true
	}
	return true, nil
}

// run searches; when ctx ends it stops promptly.
func (s *search) run(ctx context.Context) error {
	budget := (s.most - 3*s.seeds) / rounds
	n := 4 * budget / (3*screening(s.seeds) + s.seeds) // n·screening + n/4·(seeds−screening) = budget
	for round := range rounds {
		trials, err := s.draw(round, n)
		if err != nil {
			return err
		}
		s.measure(ctx, trials, 0, screening(s.seeds))
		if ctx.Err() != nil {
			return nil
		}
		for _, t := range trials {
			s.judge(t)
		}
		few := s.promising(trials, n/4)
		s.measure(ctx, few, screening(s.seeds), s.seeds)
		for _, t := range few {
			if len(t.runs) == s.seeds {
				s.judge(t)
				s.tried = append(s.tried, t)
			}
		}
	}
	return nil
}

// best is the trial of the least score, the earliest of equals; nil if none has
// all seeds.
func (s *search) best() (best *trial) {
	for _, t := range s.tried {
		if best == nil || t.score < best.score {
			best = t
		}
	}
	return best
}

func (s *search) judge(t *trial) {
	t.median = mediansOf(t.runs)
	t.score = s.score.of(t.median)
}

// promising is n of the trials: half by their score, half from the front.
func (s *search) promising(trials []*trial, n int) (few []*trial) {
	byScore := slices.Clone(trials)
	slices.SortStableFunc(byScore, func(a, b *trial) int { return cmp.Compare(a.score, b.score) })
	take := func(from []*trial, most int) {
		for _, t := range from {
			if len(few) < most && !slices.Contains(few, t) {
				few = append(few, t)
			}
		}
	}
	take(byScore, (n+1)/2)
	take(spread(front(trials, s.axes), n/2), n)
	take(byScore, n)
	return few
}

// draw is up to n trials of settings that have not been tried.
func (s *search) draw(round, n int) (trials []*trial, err error) {
	centres := []centre{{}}
	if round > 0 {
		centres = s.centres(round)
	}
	for i := 0; i < 4*n && len(trials) < n; i++ { // 4n: in small spaces most are known
		u := s.halton(s.drawing)
		s.drawing++
		point := centres[i%len(centres)].near(u, s.space.dims)
		text := s.space.at(point)
		if s.drawn[text] {
			continue
		}
		s.drawn[text] = true
		p, err := sim.ParsePolicy(text)
		if err != nil {
			return nil, err
		}
		trials = append(trials, &trial{policy: p, point: point})
	}
	return trials, nil
}

// centre is where settings are drawn, within a box of a width; anywhere if the
// point is nil.
type centre struct {
	point []float64
	width float64
}

// centres are the best, each second time, and the front. Around the best the
// box shrinks to a quarter with each round, elsewhere to a half.
func (s *search) centres(round int) (centres []centre) {
	best := s.best()
	if best == nil {
		return []centre{{}}
	}
	closest := centre{best.point, math.Pow(0.25, float64(round))}
	for _, t := range front(s.tried, s.axes) {
		centres = append(centres, closest, centre{t.point, math.Pow(0.5, float64(round))})
	}
	if centres == nil {
		centres = []centre{closest}
	}
	return centres
}

// near is the point at u of the box, kept within the space. A choice changes as
// often as the box is wide.
func (c centre) near(u []float64, dims []dimension) []float64 {
	if c.point == nil {
		return u
	}
	point := slices.Clone(c.point)
	for i := range u {
		switch {
		case len(dims[i].words) == 0:
			point[i] = min(max(c.point[i]+c.width*(u[i]-0.5), 0), 1)
		case u[i] < c.width:
			point[i] = u[i] / c.width
		}
	}
	return point
}

// primes are the bases of Halton's sequence, in turn.
var primes = [...]int{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}

// halton is point i of Halton's sequence, which fills a space evenly from the
// first point on, turned by the seed (Halton, "On the efficiency of certain
// quasi-random sequences of points", Numerische Mathematik 2, 1960; Cranley
// and Patterson 1976).
func (s *search) halton(i int) []float64 {
	turn := rand.New(rand.NewPCG(s.first, 0))
	u := make([]float64, len(s.space.dims))
	for d := range u {
		base := primes[d%len(primes)]
		digit, x := 1.0, 0.0
		for n := i + 1; n > 0; n /= base {
			digit /= float64(base)
			x += digit * float64(n%base)
		}
		_, u[d] = math.Modf(x + turn.Float64())
	}
	return u
}

// measure gives trials the runs with seeds from to until, on all cores. What is
// not over when ctx ends is dropped.
func (s *search) measure(ctx context.Context, trials []*trial, from, until int) {
	each := until - from
	runs := make([]readings, len(trials)*each)
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex // guards done, cut and progress
	for range min(runtime.GOMAXPROCS(0), len(runs)) {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < len(runs); i = int(next.Add(1) - 1) {
				r, ok := playOut(ctx, s.scenario, trials[i/each].policy, s.first+uint64(from+i%each))
				if !ok {
					return
				}
				runs[i] = readingsOf(s.scenario, r)
				mu.Lock()
				s.done++
				if r.Cut {
					s.cut++
				}
				s.progress(s.done)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i, t := range trials {
		if got := runs[i*each : (i+1)*each]; !slices.ContainsFunc(got, func(f readings) bool { return f == nil }) {
			t.runs = append(t.runs, got...)
		}
	}
}

// playOut is one run, unless ctx ends before it.
func playOut(ctx context.Context, s sim.Scenario, p sim.Policy, seed uint64) (sim.Result, bool) {
	run := sim.New(s, p, seed)
	for ctx.Err() == nil {
		if run.Step(batch.EventsBetweenLooks) {
			return run.Result(), true
		}
	}
	return sim.Result{}, false
}
