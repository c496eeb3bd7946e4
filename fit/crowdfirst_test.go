package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestSkewed: the probability of use beyond a limit, against a Poisson variable.
func TestSkewed(t *testing.T) {
	for _, mean := range []float64{0.3, 1, 4, 20} {
		below, each := 0.0, math.Exp(-mean)
		for k := range 60 {
			below += each
			each *= mean / float64(k+1)
			want := 1 - below // more than k
			if want < 0.01 {
				break
			}
			got := normal(skewed(mean-float64(k)-0.5, mean, 0))
			if math.Abs(math.Log(got/want)) > 0.4 {
				t.Errorf("mean %v: more than %d with %.5f, want %.5f", mean, k, got, want)
			}
		}
	}
}

// TestVacant: the probability that nothing came since a window ended, against draws.
func TestVacant(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, x := range [][4]float64{{0, 0, 2, 0.5}, {0, 3, 2, 0.5}, {1, 3, 5, 2}, {1, 3, 5, 1e-7}, {2, 3, 1, 4}} {
		n := 0.0
		const draws = 50_000
		for range draws {
			if x[0]+(x[1]-x[0])*r.Float64()+r.ExpFloat64()/x[3] > x[2] {
				n++
			}
		}
		if got := vacant(x[0], x[1], x[2], x[3]); math.Abs(got-n/draws) > 0.01 {
			t.Errorf("%v: %.4f, want %.4f", x, got, n/draws)
		}
	}
}

// TestFirstsWeighAllBeginnings: the weights of all windows sum up to one, and they
// stay few, whatever comes: long rests, runs over many windows, refusals in a row.
func TestFirstsWeighAllBeginnings(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	p := params{kind: FixedWindow, first: true, n: 20, period: 10}
	for _, p.others = range []float64{0.003, 0.1, 1} {
		f := firsts{p: &p, blur: 0.15, off: 1e-3}
		f.rest(0, 1)
		now := 0.0
		for range 400 {
			now += []float64{0.1, 3, 12, 200}[r.IntN(4)] * r.Float64()
			e := event{from: now, to: now, lo: now - 0.01, hi: now + 0.01, n: float64(r.IntN(3)), told: math.NaN()}
			if e.n == 2 {
				e.to += 60 * r.Float64()
				e.hi, e.lo, now, e.n = e.to+0.01, e.to-0.01, e.to, 30
			}
			if cost := f.answer(&e); math.IsNaN(cost) || cost < -1e-6 || cost > 60 {
				t.Fatalf("others %v: an answer costs %v", p.others, cost)
			}
			sum := f.none
			for _, w := range f.all {
				sum += w.weight
				if !(w.hi >= w.lo) || w.weight < 0 || !(w.vary >= 0) {
					t.Fatalf("others %v: window %+v", p.others, w)
				}
			}
			if math.Abs(sum-1) > 1e-3 || len(f.all) > mostWindows {
				t.Fatalf("others %v: %d windows weigh %v", p.others, len(f.all), sum)
			}
		}
	}
}

// TestFirstOthersBegin: where others begin the windows, their true params cost less
// than those of a fixed window of any longer period at any phase, and what remains,
// if it is told, makes the difference hardly smaller.
func TestFirstOthersBegin(t *testing.T) {
	l := limit.Limit{Kind: limit.FirstHitWindow, Count: 60, Period: 10 * time.Second}
	ahead, told := 0.0, 0.0
	for seed := range uint64(3) {
		all := crowdedTold(l, 0.08, 10+seed, 40)
		ahead += firstAhead(untold(all))
		told += firstAhead(all)
	}
	t.Logf("the truth is ahead by %.1f in three traces, and by %.1f where what remains is told", ahead, told)
	if ahead < 40 || told < 0.9*ahead {
		t.Errorf("the truth is ahead by %.1f in three traces, and by %.1f where what remains is told: want 40, and about as much", ahead, told)
	}
}

// firstAhead is how much more than the truth a fixed window costs.
func firstAhead(all []Answer) float64 {
	tr := readTrace(all)
	c := &scorer{tr: tr, events: tr.events}
	truth := params{kind: FixedWindow, first: true, period: 10, n: 60, others: 0.48}
	rival := hopeless
	for k := 1.0; k < 1.9; k += 0.01 {
		for edge := 0.0; edge < 1; edge += 0.05 {
			p := params{kind: FixedWindow, period: 10 * k, n: 60, others: truth.others, edge: edge * 10 * k}
			rival = min(rival, c.cost(&p, rival))
		}
	}
	return rival - c.cost(&truth, math.Inf(1))
}

// TestPeriodsAfterARest: a window that began after a rest, and not after refusals,
// has a period that is tried.
func TestPeriodsAfterARest(t *testing.T) {
	now := time.Unix(1000, 0)
	var all []Answer
	send := func(at float64, n int, refused bool) {
		for i := range n {
			x := now.Add(time.Duration((at + 0.01*float64(i)) * 1e9))
			all = append(all, Answer{Sent: x, Ended: x, Refused: refused})
		}
	}
	send(0, 3, false)
	send(27, 3, false) // begins a window of 9.5 s, which ends at 36.5
	send(30, 6, false)
	for at := 30.1; at < 36.4; at += 0.3 {
		send(at, 1, true)
	}
	send(36.5, 3, false)
	tr := readTrace(all)
	c := &scorer{tr: tr, events: tr.events}
	near := func(p float64) bool { return math.Abs(p-9.5) < 0.12 }
	if !slices.ContainsFunc(c.lasted(), near) || slices.ContainsFunc(c.ended(), near) {
		t.Errorf("after a rest %v, after refusals %v: want 9.5 in the first alone", c.lasted(), c.ended())
	}
	if !slices.ContainsFunc(c.periods(1.5, 9), near) {
		t.Errorf("9.5 s is not among the periods to try")
	}
}

// TestSweep: others' phase and period are found from a period 3 % off, where many
// windows lie between.
func TestSweep(t *testing.T) {
	l := limit.Limit{Kind: limit.FixedWindow, Count: 60, Period: 10 * time.Second}
	tr := readTrace(crowded(l, 0.05, 4, 30))
	c := &scorer{tr: tr, events: tr.events, ceiling: math.Inf(1), least: math.Inf(1)}
	p := params{kind: FixedWindow, n: 60, period: 10.3, edge: 4, others: 0.3}
	from := found{p, c.crowdCost(&p, math.Inf(1))}
	if plain, got := c.settle(from), c.settle(c.sweep(from)); math.Abs(got.p.period-10) > 0.1 || got.cost > plain.cost-20 {
		t.Errorf("period %.3f at %.1f, and without a sweep %.3f at %.1f", got.p.period, got.cost, plain.p.period, plain.cost)
	}
}

// TestPlanConfirms: a kind that is decided after few refusals is tried again, and
// after six it is not.
func TestPlanConfirms(t *testing.T) {
	few, many := 0, 0
	for k, x := range limits[1:3] {
		all, seed := crowded(x.limit, 1e-9, 7, 12), k
		for i := 1; i < len(all); i++ {
			if !all[i].Refused {
				continue
			}
			part := all[:i+1]
			tr := readTrace(part)
			if kinds := tr.weighAll(); why(tr, kinds, sure) != "" || doubt(kinds, sure) != nil {
				continue
			}
			_, more := Plan{}.Next(part[i].Ended, part)
			if n := tr.cycles(); more != (n < confirmed) {
				t.Errorf("seed %d: decided after %d refusals, and asks on: %t", seed, n, more)
			} else if more {
				few++
			} else {
				many++
			}
		}
	}
	if few == 0 || many == 0 {
		t.Errorf("%d times few refusals, %d times many: want some of both", few, many)
	}
}
