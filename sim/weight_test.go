package sim

import (
	"testing"
	"time"
)

// TestWeights: a process comes to its weight's part without talking to others.
func TestWeights(t *testing.T) {
	for _, test := range []struct {
		policy    string
		low, high float64
	}{
		{"adaptive", 0.55, 0.8},
		{"adaptive-informed", 0.7, 0.8},
	} {
		heavy, light := policy(t, test.policy+"(weight=3)"), policy(t, test.policy)
		s := plain("weights", 30*time.Minute, bucketOf(20, time.Second, 40),
			Group{Processes: 2, Workers: 10, Policy: &heavy}, Group{Processes: 2, Workers: 10, Policy: &light})
		var shares []float64
		for seed := uint64(1); seed <= 21; seed++ {
			shares = append(shares, play(t, s, "none", seed).Groups[0].Share.V)
		}
		t.Logf("%s: weight 3 beside weight 1 is served %.2f, 0.75 being exact", test.policy, median(shares))
		if m := median(shares); m < test.low || m > test.high {
			t.Errorf("%s: those of weight 3 get a share of %.3f beside as many of weight 1, want about 0.75", test.policy, m)
		}
	}
}
