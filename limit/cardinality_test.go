package limit_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

func TestCardinalityCounts(t *testing.T) {
	for _, n := range []int{1, 2, 5, 20, 100, 400, 1000, 2000} {
		worst := 0.0
		for seed := range uint64(50) {
			var c limit.Cardinality
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			now := time.Unix(1e9, 0)
			for range n {
				caller := r.Uint64()
				c.Add(now, caller)
				c.Add(now.Add(time.Second), caller) // again: the same caller
			}
			worst = max(worst, math.Abs(c.Estimate(now.Add(time.Second))/float64(n)-1))
		}
		// Four standard deviations of linear counting, and half a caller.
		x := float64(n) / 512
		if bound := 4*math.Sqrt(math.Exp(x)-x-1)/x/math.Sqrt(512) + 0.5/float64(n); worst > bound {
			t.Errorf("Cardinality of %d: off by %.3f at worst of 50, want at most %.3f", n, worst, bound)
		}
	}
}

func TestCardinalityForgets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for span, counts := range map[time.Duration]time.Duration{0: 30 * time.Second, -1: 30 * time.Second, time.Hour: time.Hour} {
		c := limit.Cardinality{Span: span}
		at := func(spans float64) time.Time {
			return time.Unix(1e9, 0).Add(time.Duration(spans * float64(counts)))
		}
		for range 100 {
			c.Add(at(0), r.Uint64())
		}
		for _, step := range []struct {
			at          float64
			least, most float64
		}{
			{0, 90, 110}, {0.99, 90, 110}, {1.01, 90, 110}, {1.99, 90, 110}, {2, 1, 1}, {-1e5, 1, 1}, {1e6, 1, 1},
		} {
			if got := c.Estimate(at(step.at)); got < step.least || got > step.most {
				t.Errorf("a Span of %v: Estimate after %g spans = %g, want %g to %g", span, step.at, got, step.least, step.most)
			}
		}
	}
	full := limit.Cardinality{Span: time.Hour}
	for range 100_000 {
		full.Add(time.Unix(1e9, 0), r.Uint64())
	}
	if got := full.Estimate(time.Unix(1e9, 0)); got < 3000 || got > 3300 {
		t.Errorf("Size of 100,000 = %g, want the most that 512 bits can tell, 3194", got)
	}
}
