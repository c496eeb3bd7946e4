package tune

import (
	"math"
	"slices"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

func TestScore(t *testing.T) {
	s := sim.Scenario{}
	s.Network.Latency = 1e8
	base := readings(make([]pace.Opt[float64], len(sim.Measures)))
	with := func(values map[string]float64) readings {
		f := slices.Clone(base)
		for name, v := range values {
			f[measures.At(name)] = pace.Some(v)
		}
		return f
	}
	for _, test := range []struct {
		weights     string
		byRule, got map[string]float64
		want        float64
	}{
		{"retry_rate=2,max_sleep_s=1", map[string]float64{"retry_rate": 0.1, "max_sleep_s": 10}, map[string]float64{"retry_rate": 0.05, "max_sleep_s": 40}, (2*0.5 + 4) / 3},
		{"retry_rate=1", map[string]float64{"retry_rate": 0}, map[string]float64{"retry_rate": 0.02}, 2}, // of 1 %
		{"jain=1,utilisation=3", map[string]float64{"jain": 0.9, "utilisation": 0.5}, map[string]float64{"jain": 0.8, "utilisation": 1}, 0.5},
		{"throughput=1", map[string]float64{"throughput": 5}, map[string]float64{"throughput": 10}, 0.5},
		{"throughput=1", map[string]float64{"throughput": 0}, map[string]float64{"throughput": 0}, 1},
		{"wait_p50_s=1", map[string]float64{"wait_p50_s": 0}, map[string]float64{"wait_p50_s": 0.2}, 2}, // of the latency
		{"stdev_requests=1", map[string]float64{"stdev_requests": 0}, map[string]float64{"stdev_requests": 3}, 3},
		{"retry_rate=1,finish_s=9", map[string]float64{"retry_rate": 0.1}, map[string]float64{"retry_rate": 0.1, "finish_s": 7}, 1},
		{"retry_rate=1,finish_s=0", map[string]float64{"retry_rate": 0.1, "finish_s": 7}, map[string]float64{"retry_rate": 0.1}, 1},
		{"retry_rate=1", map[string]float64{"retry_rate": 0.1}, nil, math.Inf(1)},
	} {
		weights, err := parseWeights(test.weights)
		if err != nil {
			t.Fatal(err)
		}
		score, _ := newScorer(weights, s, with(test.byRule))
		if got := score.of(with(test.got)); !(math.Abs(got-test.want) < 1e-9) && got != test.want {
			t.Errorf("%s: %v beside %v scores %v, want %v", test.weights, test.got, test.byRule, got, test.want)
		}
	}
}
