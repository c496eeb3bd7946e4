package sim

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestCostMean compares the mean with that of many draws.
func TestCostMean(t *testing.T) {
	for _, c := range []Cost{
		{}, {Mean: 30}, {Mean: 30, Spread: 0.9}, {Mean: 30, Tail: 0.8}, {Mean: 30, Spread: 0.5, Tail: 2}, {Mean: 500, Tail: 3},
	} {
		for _, most := range []int64{1, 20, 31, 100, 1000, math.MaxInt64} {
			if most == math.MaxInt64 && c.Tail > 1 {
				continue // the draws have no mean worth the name
			}
			r, sum, q := random(1), 0.0, quota{Quota: Quota{Costs: true}, part: limit.Limit{Kind: limit.FixedWindow, Count: most, Period: 1}}
			const n = 200_000
			for range n {
				sum += float64(q.cost(int64(r.lasts(float64(max(c.Mean, 1)), c.Spread, c.Tail) + 0.5)))
			}
			if got, want := c.mean(float64(most)), sum/n; math.Abs(got-want) > 0.01*want {
				t.Errorf("%+v, cut at %d: mean %.3f, of draws %.3f", c, most, got, want)
			}
		}
	}
}

// TestUtilisationOfCosts has costs that reach what the limit grants at once.
func TestUtilisationOfCosts(t *testing.T) {
	bucket := bucketOf(100, time.Second, 1000)
	window := limit.Limit{Kind: limit.FixedWindow, Count: 1000, Period: 10 * time.Second}
	for _, test := range []struct {
		name string
		v    Server
		cost Cost
	}{
		{"bucket", Server{Limit: bucket, Costs: true}, Cost{Mean: 500, Tail: 1}},
		{"long tail", Server{Limit: bucket, Costs: true}, Cost{Mean: 1000, Tail: 3}},
		{"nodes", Server{Limit: bucket, Costs: true, Nodes: 2}, Cost{Mean: 500, Spread: 0.9}},
		{"second limit", Server{Limit: bucketOf(100, time.Second, 100), More: []Quota{{Limit: bucket, Costs: true}}}, Cost{Mean: 100, Tail: 3}},
		{"change", Server{Limit: window, Costs: true, Changes: []Change{{At: 5 * time.Minute, Count: 20, Period: 10 * time.Second}}}, Cost{Mean: 500, Tail: 1}},
	} {
		s := serving(3*time.Hour, test.v, 4)
		s.Clients[0].Cost, s.Network.Latency = test.cost, 200*time.Millisecond
		if u := play(t, s, "none", 1).Utilisation.V; u < 0.9 || u > 1.1 {
			t.Errorf("%s: utilisation %.3f, want about 1", test.name, u)
		}
	}
}
