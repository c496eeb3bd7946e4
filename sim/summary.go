package sim

import (
	"slices"

	"github.com/throttle-go/throttle/pace"
)

// Measure is one figure of a Result.
type Measure struct {
	// Name is the measure's name in JSON and in assertions.
	Name string
	// Better is below zero where less is better, above where more is, and
	// zero where neither is.
	Better int
	Of     func(Result) pace.Opt[float64]
	// Rare says that few scenarios have it: where it is absent, reports leave
	// it out.
	Rare bool
}

func count(of func(Result) int64) func(Result) pace.Opt[float64] {
	return func(r Result) pace.Opt[float64] { return pace.Some(float64(of(r))) }
}

// Measures lists all measures, in the order of reports.
var Measures = []Measure{
	{Name: "retry_rate", Better: -1, Of: func(r Result) pace.Opt[float64] { return r.RetryRate }},
	{Name: "retry_rate_worker_mean", Better: -1, Of: func(r Result) pace.Opt[float64] { return r.RetryRateWorkerMean }},
	{Name: "max_sleep_s", Better: -1, Of: func(r Result) pace.Opt[float64] { return r.MaxSleep }},
	{Name: "stdev_requests", Better: -1, Of: func(r Result) pace.Opt[float64] { return r.StdevRequests }},
	{Name: "jain", Better: 1, Of: func(r Result) pace.Opt[float64] { return r.Jain }},
	{Name: "jain_workers", Better: 1, Of: func(r Result) pace.Opt[float64] { return r.JainWorkers }},
	{Name: "utilisation", Better: 1, Of: func(r Result) pace.Opt[float64] { return r.Utilisation }},
	{Name: "sent", Better: 0, Of: count(func(r Result) int64 { return r.Sent })},
	{Name: "served", Better: 0, Of: count(func(r Result) int64 { return r.Served })},
	{Name: "throttled", Better: -1, Of: count(func(r Result) int64 { return r.Throttled })},
	{Name: "throughput", Better: 1, Of: func(r Result) pace.Opt[float64] { return r.Throughput }},
	{Name: "goodput", Better: 1, Rare: true, Of: func(r Result) pace.Opt[float64] { return r.Goodput }},
	{Name: "in_time", Better: 1, Rare: true, Of: func(r Result) pace.Opt[float64] { return r.InTime }},
	{Name: "finish_s", Better: -1, Of: func(r Result) pace.Opt[float64] { return r.Finish }},
	{Name: "wait_p50_s", Better: -1, Of: func(r Result) pace.Opt[float64] { return r.WaitP50 }},
	{Name: "wait_p99_s", Better: -1, Of: func(r Result) pace.Opt[float64] { return r.WaitP99 }},
	{Name: "reconverge_s", Better: -1, Of: func(r Result) pace.Opt[float64] { return r.Reconverge }},
}

// Stat is a figure over several runs.
type Stat struct{ Median, Min, Max float64 }

// Over returns the Stat of figures, absent if none is present.
func Over(figures []pace.Opt[float64]) pace.Opt[Stat] {
	var x []float64
	for _, f := range figures {
		if f.OK {
			x = append(x, f.V)
		}
	}
	if len(x) == 0 {
		return pace.Opt[Stat]{}
	}
	slices.Sort(x)
	mid := len(x) / 2
	median := x[mid]
	if len(x)%2 == 0 {
		median = (x[mid-1] + x[mid]) / 2
	}
	return pace.Some(Stat{median, x[0], x[len(x)-1]})
}

// Summary holds the measures of one policy over all seeds.
type Summary struct {
	// Stats go with Measures.
	Stats  []pace.Opt[Stat]
	Groups []GroupSummary
	// Cut counts the runs that ended early.
	Cut int
	// Overflow counts the calls, of all runs, that found the queue of their
	// process full and were not made.
	Overflow int64
}

// GroupSummary is the part of one group over all seeds.
type GroupSummary struct {
	Policy                  string
	Sent, Served, Throttled pace.Opt[Stat]
	// Share and RetryRate are served / all served and throttled / sent.
	Share, RetryRate pace.Opt[Stat]
}

// Summarise combines the results of several seeds.
func Summarise(results []Result) Summary {
	var s Summary
	for _, m := range Measures {
		s.Stats = append(s.Stats, over(results, m.Of))
	}
	for _, r := range results {
		if r.Cut {
			s.Cut++
		}
		s.Overflow += r.Overflow
	}
	if len(results) == 0 {
		return s
	}
	for i, g := range results[0].Groups {
		s.Groups = append(s.Groups, GroupSummary{
			Policy:    g.Policy,
			Sent:      over(results, count(func(r Result) int64 { return r.Groups[i].Sent })),
			Served:    over(results, count(func(r Result) int64 { return r.Groups[i].Served })),
			Throttled: over(results, count(func(r Result) int64 { return r.Groups[i].Throttled })),
			Share:     over(results, func(r Result) pace.Opt[float64] { return r.Groups[i].Share }),
			RetryRate: over(results, func(r Result) pace.Opt[float64] {
				return ratio(float64(r.Groups[i].Throttled), float64(r.Groups[i].Sent))
			}),
		})
	}
	return s
}

func over(results []Result, of func(Result) pace.Opt[float64]) pace.Opt[Stat] {
	figures := make([]pace.Opt[float64], len(results))
	for i, r := range results {
		figures[i] = of(r)
	}
	return Over(figures)
}
