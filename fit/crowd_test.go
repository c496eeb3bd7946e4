package fit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// crowded asks a limit in drains, between rests of random length, while others
// take a share of its rate as a Poisson process.
func crowded(l limit.Limit, share float64, seed uint64, drains int) []Answer {
	return untold(crowdedTold(l, share, seed, drains))
}

// crowdedTold are the same answers with what remains.
func crowdedTold(l limit.Limit, share float64, seed uint64, drains int) (all []Answer) {
	r := rand.New(rand.NewPCG(seed, 3))
	var s limit.State
	var log limit.Log
	take := func(at time.Time) (d limit.Decision) {
		ask := limit.Ask{Limit: l, N: 1}
		if l.Kind == limit.SlidingLog {
			return log.Take(at, ask)
		}
		s, d = limit.Take(s, at, ask)
		return d
	}
	rate := share * float64(l.Count) / l.Period.Seconds()
	other := func() time.Duration { return time.Duration(r.ExpFloat64() / rate * 1e9) }
	now := time.UnixMicro(1_800_000_000_000_000) // a multiple of every period here
	next := now.Add(-2 * l.Period)
	for range drains {
		for ok := true; ok; now = now.Add(time.Duration(5e5 + 1e6*r.Float64())) {
			for ; next.Before(now); next = next.Add(other()) {
				take(next)
			}
			d := take(now)
			ok = d.OK
			all = append(all, Answer{Sent: now, Ended: now, Refused: !ok, Remaining: float64(d.Remaining), HasRemaining: true, Limit: float64(d.Max)})
		}
		now = now.Add(time.Duration((0.1 + 1.3*r.Float64()) * float64(l.Period)))
	}
	return all
}

// TestCrowdExplains: with other callers at their true rate, the true params
// explain the answers of a shared limit far better than without, and better
// than others do.
func TestCrowdExplains(t *testing.T) {
	for _, x := range []struct {
		limit limit.Limit
		p     params
	}{
		{limit.Limit{Count: 30, Period: 10 * time.Second, Burst: 30}, params{kind: TokenBucket, rate: 3, n: 30}},
		{limit.Limit{Kind: limit.FixedWindow, Count: 60, Period: 10 * time.Second}, params{kind: FixedWindow, period: 10, n: 60}},
		{limit.Limit{Kind: limit.FirstHitWindow, Count: 60, Period: 10 * time.Second}, params{kind: FixedWindow, first: true, period: 10, n: 60}},
		{limit.Limit{Kind: limit.SlidingLog, Count: 60, Period: 10 * time.Second}, params{kind: SlidingLog, period: 10, n: 60}},
		{limit.Limit{Kind: limit.SlidingWindow, Count: 60, Period: 10 * time.Second}, params{kind: SlidingCounter, period: 10, n: 60}},
	} {
		alone, shared, wrong := 0.0, 0.0, 0.0
		for seed := range uint64(4) {
			tr := readTrace(crowded(x.limit, 0.08, seed, 12))
			c := &scorer{tr: tr, events: tr.events}
			alone += c.cost(&x.p, math.Inf(1))
			p := x.p
			p.others = 0.08 * p.long()
			if p.kind == TokenBucket {
				p.rate -= p.others
			}
			shared += c.cost(&p, math.Inf(1))
			p.n = math.Round(1.2 * p.n)
			wrong += c.cost(&p, math.Inf(1))
		}
		if shared > alone-10 || shared > wrong-20 {
			t.Errorf("%v: others cost %.1f, without them %.1f, with a count of a fifth more %.1f", x.limit, shared, alone, wrong)
		}
	}
}

// TestFitShared: a limit that others share is found with its count and period.
func TestFitShared(t *testing.T) {
	for _, x := range []struct {
		limit limit.Limit
		kind  Kind
	}{
		{limit.Limit{Kind: limit.FixedWindow, Count: 60, Period: 10 * time.Second}, FixedWindow},
		{limit.Limit{Kind: limit.SlidingLog, Count: 60, Period: 10 * time.Second}, SlidingLog},
	} {
		r := Fit(crowded(x.limit, 0.08, 5, 30))
		best := r.Candidates[0]
		if !r.Shared || best.Kind != x.kind || math.Abs(best.Count-60) > 3 || math.Abs(best.Period.Seconds()-10) > 0.5 {
			t.Errorf("%v: %v, decided %t (%s), shared %t", x.limit, best.Model, r.Decided, r.Why, r.Shared)
			for _, c := range r.Candidates {
				t.Logf("   %v: %.1f", c.Model, c.LogLikelihood)
			}
		}
	}
}

// TestAtMost: moments of the smaller of a normal variable and a number, against
// many draws.
func TestAtMost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, x := range [][3]float64{{5, 4, 6}, {10, 4, 6}, {2, 1, 30}, {6, 9, 6}} {
		sum, square := 0.0, 0.0
		const draws = 100_000
		for range draws {
			y := min(x[0]+math.Sqrt(x[1])*r.NormFloat64(), x[2])
			sum, square = sum+y, square+y*y
		}
		mean := sum / draws
		vary := square/draws - mean*mean
		if m, v := atMost(x[0], x[1], x[2]); math.Abs(m-mean) > 0.05 || math.Abs(v-vary) > 0.1 {
			t.Errorf("at most %v: %.3f ± %.3f, want %.3f ± %.3f", x, m, v, mean, vary)
		}
	}
}

// TestPlanAsksOn: at 99:1 Fit decides, and a Plan with requests left still asks.
func TestPlanAsksOn(t *testing.T) {
	asked := 0
	for seed := range uint64(6) {
		for _, x := range limits {
			all := crowded(x.limit, 1e-6, seed, 5)
			for n := len(all) / 2; n <= len(all) && asked == 0; n += 3 {
				tr := readTrace(all[:n])
				kinds := tr.weighAll()
				if why(tr, kinds, odds) == "" && why(tr, kinds, sure) != "" {
					if _, more := (Plan{}).Next(all[n-1].Ended, all[:n]); !more || !Fit(all[:n]).Decided {
						t.Errorf("%v, %d answers: asks %t, decided %t: want both", x.limit, n, more, !more)
					}
					asked++
				}
			}
		}
	}
	if asked == 0 {
		t.Error("no number of answers between 99:1 and what a Plan asks for")
	}
}
