package survey

import (
	"strconv"
	"testing"

	"github.com/throttle-go/throttle/sim"
)

// TestSurvey is a part of 'throttle sim survey' that every test runs: of these
// cells so many are held, and the others miss their bars by no more in all. The
// numbers are as measured, less what other seeds make of them; raise them when
// a law does better.
func TestSurvey(t *testing.T) {
	for _, test := range []struct {
		policy      string
		cells, held int
		missed      int // bars, in all cells
	}{
		{"adaptive-informed", 60, 13, 78},
		{"adaptive", 30, 9, 34},
	} {
		t.Run(test.policy, func(t *testing.T) {
			verdicts := make([]Verdict, test.cells)
			t.Run("cells", func(t *testing.T) {
				for number := range verdicts {
					t.Run(strconv.Itoa(number), func(t *testing.T) {
						t.Parallel()
						verdicts[number] = play(t, test.policy, Draw(1, number))
					})
				}
			})
			held, missed := 0, 0
			for _, v := range verdicts {
				if v.Held() {
					held++
				}
				missed += len(v.Missed())
			}
			t.Logf("%d of %d held, %d bars missed", held, test.cells, missed)
			if held < test.held || missed > test.missed {
				t.Errorf("%d of %d held and %d bars missed, want at least %d and at most %d", held, test.cells, missed, test.held, test.missed)
			}
		})
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
