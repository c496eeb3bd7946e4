package survey

import (
	"strconv"
	"testing"

	"github.com/throttle-go/throttle/sim"
)

// TestSurvey is a part of 'throttle sim survey' that every test runs, of cells
// of few requests: so many are held, and what the others miss is no more than
// this. The numbers are as measured, less what another draw of latencies makes
// of them; tighten them when a law does better.
func TestSurvey(t *testing.T) {
	for _, test := range []struct {
		policy      string
		cells, held int
		beyond      float64 // the mean
	}{
		{"adaptive-informed", 60, 25, 0.9},
		{"adaptive", 30, 13, 0.65},
	} {
		t.Run(test.policy, func(t *testing.T) {
			verdicts := make([]Verdict, test.cells)
			t.Run("cells", func(t *testing.T) {
				number := -1
				for i := range verdicts {
					c := cheap(&number)
					t.Run(strconv.Itoa(number), func(t *testing.T) {
						t.Parallel()
						verdicts[i] = play(t, test.policy, c)
					})
				}
			})
			held, beyond := 0, 0.0
			for _, v := range verdicts {
				if v.Held() {
					held++
				}
				beyond += v.Beyond() / float64(test.cells)
			}
			t.Logf("%d of %d held, beyond the bars by %.3f", held, test.cells, beyond)
			if held < test.held || beyond > test.beyond {
				t.Errorf("%d of %d held, beyond the bars by %.3f; want at least %d and at most %v", held, test.cells, beyond, test.held, test.beyond)
			}
		})
	}
}

// cheap is the next cell in which some 4,000 requests at most are served.
func cheap(number *int) Cell {
	for {
		*number++
		if c := Draw(1, *number); c.Mode == Job || c.Rate*c.Scenario.Duration.Seconds() < 4000 {
			return c
		}
	}
}

// play judges a policy by three seeds.
func play(t *testing.T, name string, c Cell) Verdict {
	p, err := sim.ParsePolicy(name)
	if err != nil {
		t.Fatal(err)
	}
	var ours, bounds []sim.Result
	for seed := uint64(1); seed <= 3; seed++ {
		r := sim.Bound(c.Scenario, seed)
		for !r.Step(1_000_000) {
		}
		bounds = append(bounds, r.Result())
		r = sim.New(c.Scenario, p, seed)
		r.MaxSent = 3*bounds[0].Sent + 1000
		for !r.Step(1_000_000) {
		}
		ours = append(ours, r.Result())
	}
	return c.Judge(Measure(ours), Measure(bounds), c.Informed(p.Hears))
}
