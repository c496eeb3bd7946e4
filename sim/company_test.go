package sim

import (
	"slices"
	"testing"
)

// median is the middle of some figures.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// TestInformedBesideBlind: a client that slows down as the bucket runs low is
// not starved by one that pushes on until it is refused.
func TestInformedBesideBlind(t *testing.T) {
	for name, least := range map[string]float64{"mixed-heroku": 0.4, "mixed-emr": 0.44, "mixed-20": 0.3} {
		var shares []float64
		for seed := uint64(1); seed <= 41; seed++ { // chance decides: of ten, one is served 0.06 or less
			shares = append(shares, play(t, builtin(t, name), "none", seed).Groups[0].Share.V)
		}
		if m := median(shares); m < least || m > 0.6 {
			t.Errorf("%s: the informed half is served a share of %.3f (median), want from %.2f to 0.6", name, m, least)
		}
	}
}

// TestInformedAmongThemselves: where all yield, nobody takes the others for
// clients that do not: they would be throttled ten times as often.
func TestInformedAmongThemselves(t *testing.T) {
	for _, name := range []string{"heroku", "emr-shared", "dynamodb", "rise"} {
		var rates []float64
		for seed := uint64(1); seed <= 3; seed++ {
			rates = append(rates, play(t, builtin(t, name), "adaptive-informed", seed).RetryRate.V)
		}
		if worst := slices.Max(rates); worst > 0.003 {
			t.Errorf("%s: up to %.4f are throttled, want at most 0.003", name, worst)
		}
	}
}
