package sim

import (
	"os"
	"testing"

	"github.com/throttle-go/throttle/pace"
)

// aim is what the median of 20 seeds should be between, and the worst, if it is
// not zero, at most.
type aim struct {
	measure     string
	least, most float64
	worst       float64
}

const (
	informed = "adaptive-informed"
	blind    = "adaptive"
	elastic  = "adaptive(probe=20s)"
)

// aims are what the law is meant to reach.
var aims = []struct {
	scenario, policy string
	aims             []aim
}{
	{"heroku", informed, []aim{{"retry", 0, 0.002, 0}, {"sleep", 0, 11, 0}, {"stdev", 0, 2, 0}, {"busy", 0.99, 1.01, 0}}},
	{"heroku", blind, []aim{{"retry", 0, 0.03, 0}, {"sleep", 0, 20, 40}, {"stdev", 0, 25, 0}, {"busy", 0.99, 1.01, 0}}},
	{"heroku-clear", informed, []aim{{"finish", 0, 1.02 * 74.2, 0}}},
	{"heroku-clear", blind, []aim{{"finish", 0, 1.02 * 74.2, 0}}},
	{"emr", informed, []aim{{"finish", 0, 1.01 * 248, 0}, {"retry", 0, 0, 0}}},
	{"emr", blind, []aim{{"finish", 0, 1.02 * 248, 0}, {"retry", 0, 0.006, 0}}},
	{"emr-workers", informed, []aim{{"finish", 0, 1.01 * 248, 0}, {"retry", 0, 0, 0}}},
	{"emr-workers", blind, []aim{{"finish", 0, 1.02 * 248, 0}, {"retry", 0, 0.018, 0}}},
	{"emr-shared", informed, []aim{{"retry", 0, 0.001, 0}, {"fair", 0.99, 1, 0}, {"busy", 0.99, 1.01, 0}}},
	{"emr-shared", blind, []aim{{"retry", 0, 0.019, 0}, {"fair", 0.95, 1, 0}, {"busy", 0.99, 1.01, 0}}},
	{"dynamodb", informed, []aim{{"retry", 0, 0.002, 0}, {"fair", 0.99, 1, 0}, {"busy", 0.99, 1.01, 0}, {"back", 0, 3, 0}}},
	{"dynamodb", elastic, []aim{{"retry", 0, 0.0536 / 3, 0}, {"fair", 0.9, 1, 0}, {"busy", 0.9, 1.01, 0}}},
	{"thousand", informed, []aim{{"retry", 0, 0.012, 0}, {"fair", 0.97, 1, 0}}},
	{"thousand", blind, []aim{{"retry", 0, 0.03, 0}, {"fair", 0.93, 1, 0}}},
	{"mixed-heroku", "none", []aim{{"share", 0.35, 1, 0}}},
	{"mixed-emr", "none", []aim{{"share", 0.35, 1, 0}}},
	{"mixed-20", "none", []aim{{"share", 0.35, 1, 0}}},
	{"rise", informed, []aim{{"back", 0, 17, 0}}},
	{"drop", informed, []aim{{"sleep", 0, 45, 120}}},
	{"endless", blind, []aim{{"through", 0.99 * 1990, 2010, 0}}},
}

// figure is a measure by its name.
func figure(r Result, measure string) pace.Opt[float64] {
	return map[string]pace.Opt[float64]{
		"retry": r.RetryRate, "sleep": r.MaxSleep, "stdev": r.StdevRequests, "busy": r.Utilisation, "fair": r.Jain,
		"finish": r.Finish, "back": r.Reconverge, "through": r.Throughput, "share": r.Groups[0].Share,
	}[measure]
}

func TestSoakMeasures(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("half a minute; THROTTLE_SOAK=1 runs it")
	}
	for _, c := range aims {
		t.Run(c.scenario+" "+c.policy, func(t *testing.T) {
			t.Parallel()
			s, p := builtin(t, c.scenario), policy(t, c.policy)
			var results []Result
			for seed := range uint64(20) {
				r := New(s, p, seed+1)
				for !r.Step(1_000_000) {
				}
				results = append(results, r.Result())
			}
			for _, a := range c.aims {
				figures := make([]pace.Opt[float64], len(results))
				for i := range results {
					figures[i] = figure(results[i], a.measure)
				}
				f := Over(figures)
				t.Logf("%s %.4g, most %.4g", a.measure, f.V.Median, f.V.Max)
				if m := f.V.Median; !f.OK || m < a.least || m > a.most || a.worst > 0 && f.V.Max > a.worst {
					t.Errorf("%s %.4g, most %.4g; want %.4g to %.4g, most %.4g", a.measure, m, f.V.Max, a.least, a.most, a.worst)
				}
			}
		})
	}
}
