package sim

import (
	"os"
	"sync"
	"testing"

	"github.com/throttle-go/throttle/pace"
)

// TestSoakMeasures holds the law to what it is meant to reach: medians of 20
// seeds, and the worst where that is said.
func TestSoakMeasures(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("a minute; THROTTLE_SOAK=1 runs it")
	}
	retry := func(r Result) pace.Opt[float64] { return r.RetryRate }
	sleep := func(r Result) pace.Opt[float64] { return r.MaxSleep }
	stdev := func(r Result) pace.Opt[float64] { return r.StdevRequests }
	busy := func(r Result) pace.Opt[float64] { return r.Utilisation }
	fair := func(r Result) pace.Opt[float64] { return r.Jain }
	finish := func(r Result) pace.Opt[float64] { return r.Finish }
	back := func(r Result) pace.Opt[float64] { return r.Reconverge }
	share := func(r Result) pace.Opt[float64] { return r.Groups[0].Share }
	through := func(r Result) pace.Opt[float64] { return r.Throughput }
	type bound struct {
		what        func(Result) pace.Opt[float64]
		name        string
		least, most float64 // of the median
		worst       float64 // if not zero
	}
	const informed, blind, elastic = "adaptive-informed", "adaptive", "adaptive(probe=20s)"
	var wg sync.WaitGroup
	slots := make(chan struct{}, 2)
	for _, c := range []struct {
		scenario, policy string
		bounds           []bound
	}{
		{"heroku", informed, []bound{{retry, "retry", 0, 0.002, 0}, {sleep, "sleep", 0, 11, 0}, {stdev, "stdev", 0, 2, 0}, {busy, "utilisation", 0.99, 1.01, 0}}},
		{"heroku", blind, []bound{{retry, "retry", 0, 0.03, 0}, {sleep, "sleep", 0, 20, 40}, {stdev, "stdev", 0, 25, 0}, {busy, "utilisation", 0.99, 1.01, 0}}},
		{"heroku-clear", informed, []bound{{finish, "finish", 0, 1.02 * 74.2, 0}}},
		{"heroku-clear", blind, []bound{{finish, "finish", 0, 1.02 * 74.2, 0}}},
		{"emr", informed, []bound{{finish, "finish", 0, 1.01 * 248, 0}, {retry, "retry", 0, 0, 0}}},
		{"emr", blind, []bound{{finish, "finish", 0, 1.02 * 248, 0}, {retry, "retry", 0, 0.006, 0}}},
		{"emr-workers", informed, []bound{{finish, "finish", 0, 1.01 * 248, 0}, {retry, "retry", 0, 0, 0}}},
		{"emr-workers", blind, []bound{{finish, "finish", 0, 1.02 * 248, 0}, {retry, "retry", 0, 0.018, 0}}},
		{"emr-shared", informed, []bound{{retry, "retry", 0, 0.001, 0}, {fair, "jain", 0.99, 1, 0}, {busy, "utilisation", 0.99, 1.01, 0}}},
		{"emr-shared", blind, []bound{{retry, "retry", 0, 0.019, 0}, {fair, "jain", 0.95, 1, 0}, {busy, "utilisation", 0.99, 1.01, 0}}},
		{"dynamodb", informed, []bound{{retry, "retry", 0, 0.002, 0}, {fair, "jain", 0.99, 1, 0}, {busy, "utilisation", 0.99, 1.01, 0}, {back, "reconverge", 0, 3, 0}}},
		{"dynamodb", elastic, []bound{{retry, "retry", 0, 0.0536 / 3, 0}, {fair, "jain", 0.9, 1, 0}, {busy, "utilisation", 0.9, 1.01, 0}}},
		{"thousand", informed, []bound{{retry, "retry", 0, 0.012, 0}, {fair, "jain", 0.97, 1, 0}}},
		{"thousand", blind, []bound{{retry, "retry", 0, 0.03, 0}, {fair, "jain", 0.93, 1, 0}}},
		{"mixed-heroku", "none", []bound{{share, "share of the informed", 0.35, 1, 0}}},
		{"mixed-emr", "none", []bound{{share, "share of the informed", 0.35, 1, 0}}},
		{"mixed-20", "none", []bound{{share, "share of the informed", 0.35, 1, 0}}},
		{"rise", informed, []bound{{back, "reconverge", 0, 17, 0}}},
		{"drop", informed, []bound{{sleep, "sleep", 0, 45, 120}}},
		{"endless", blind, []bound{{through, "throughput", 0.99 * 1990, 2010, 0}}},
	} {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s, p := builtin(t, c.scenario), policy(t, c.policy)
			var results []Result
			for seed := range uint64(20) {
				r := New(s, p, seed+1)
				for !r.Step(1_000_000) {
				}
				results = append(results, r.Result())
			}
			for _, b := range c.bounds {
				figures := make([]pace.Opt[float64], len(results))
				for i := range results {
					figures[i] = b.what(results[i])
				}
				f := Over(figures)
				t.Logf("%s, %s: %s %.4g, worst %.4g", c.scenario, c.policy, b.name, f.V.Median, f.V.Max)
				if m := f.V.Median; !f.OK || m < b.least || m > b.most || b.worst > 0 && f.V.Max > b.worst {
					t.Errorf("%s, %s: %s %.4g, worst %.4g; want %.4g to %.4g, worst %.4g",
						c.scenario, c.policy, b.name, m, f.V.Max, b.least, b.most, b.worst)
				}
			}
		})
	}
	wg.Wait()
}
