package find

import (
	"encoding/json"
	"io"

	"github.com/throttle-go/throttle/cmd/throttle/internal/knee"
)

// object is version 1 of the form that 'throttle find -json' prints. Fields may
// be added to it; those that are there stay. Rates are in requests a second, times
// in seconds.
type object struct {
	Version     int        `json:"version"`
	Target      string     `json:"target"`
	Concurrency bool       `json:"concurrency"` // levels are requests in flight, not rates
	Objective   objective  `json:"objective"`
	Knee        *interval  `json:"knee"` // null: none
	AtLeast     bool       `json:"at_least"`
	Capacity    *float64   `json:"capacity"`
	CapacityAt  *float64   `json:"capacity_at"`
	Latency     float64    `json:"latency_s"`
	InFlight    *float64   `json:"in_flight"`
	Recovery    *recovery  `json:"recovery"` // null: not tried
	Rule        *rule      `json:"rule"`     // null: none
	Stop        knee.Stop  `json:"stop"`     // empty: interrupted
	Doubt       string     `json:"doubt"`
	First       string     `json:"first_failure"`
	Spent       spent      `json:"spent"`
	Curve       []point    `json:"curve"`
	Trials      []trialRow `json:"trials"`
}

type objective struct {
	Latency  float64 `json:"latency_s"`
	Quantile float64 `json:"quantile"`
	Errors   float64 `json:"errors"`
}

type interval struct {
	Low  *float64 `json:"low"`
	At   *float64 `json:"at"`
	High *float64 `json:"high"`
}

type recovery struct {
	Verdict knee.Verdict `json:"verdict"`
	Pushed  *float64     `json:"pushed"`
	For     float64      `json:"for_s"`
	Back    *float64     `json:"back"`
	After   float64      `json:"after_s"`
	Kept    *float64     `json:"kept"`
	Rested  bool         `json:"rested"`
}

type rule struct {
	Limit       string  `json:"limit"`
	Concurrency int     `json:"concurrency"`
	HeadRoom    float64 `json:"head_room"`
	Line        string  `json:"line"`
}

type spent struct {
	Trials   int     `json:"trials"`
	Requests int     `json:"requests"`
	Failures int     `json:"failures"`
	Time     float64 `json:"time_s"`
}

type point struct {
	Level   *float64 `json:"level"`
	Offered *float64 `json:"offered"`
	Served  *float64 `json:"served"`
	Goodput *float64 `json:"goodput"`
	Errors  *float64 `json:"errors"`
	Mean    float64  `json:"mean_s"`
	P50     float64  `json:"p50_s"`
	P90     float64  `json:"p90_s"`
	P99     float64  `json:"p99_s"`
	Holds   *float64 `json:"holds"`
	Trusted bool     `json:"trusted"`
	Trials  int      `json:"trials"`
}

type trialRow struct {
	At          float64   `json:"at_s"`
	Kind        knee.Kind `json:"kind"`
	Rate        float64   `json:"rate"`
	Concurrency int       `json:"concurrency"`
	Took        float64   `json:"took_s"`
	Then        float64   `json:"then"`
	Sent        int       `json:"sent"`
	Good        int       `json:"good"`
	Slow        int       `json:"slow"`
	Failed      int       `json:"failed"`
	Refused     int       `json:"refused"`
	Dropped     int       `json:"dropped"`
	P50         float64   `json:"p50_s"`
	P99         float64   `json:"p99_s"`
	Late        float64   `json:"late_p99_s"`
}

func (f *findings) writeJSON(w io.Writer) error {
	o := object{
		Version: 1, Target: f.name(), Concurrency: f.Concurrency,
		Objective: objective{f.Result.Objective.Latency.Seconds(), f.Result.Objective.Quantile, max(f.Result.Objective.Errors, 0)},
		AtLeast:   f.AtLeast, Capacity: figure(f.Capacity), CapacityAt: figure(f.CapacityAt),
		Latency: f.Latency.Seconds(), InFlight: figure(f.InFlight), Stop: f.Stop, Doubt: f.Doubt,
		Spent: spent{f.Spent.Trials, f.Spent.Requests, f.Spent.Failures, f.Spent.Time.Seconds()},
		Curve: []point{}, Trials: []trialRow{},
	}
	if f.Knee.At > 0 {
		o.Knee = &interval{figure(f.Knee.Low), figure(f.Knee.At), figure(f.Knee.High)}
	}
	if r := f.Recovery; r.Verdict != knee.Untested {
		o.Recovery = &recovery{r.Verdict, figure(r.Pushed), r.For.Seconds(), figure(r.Back), r.After.Seconds(), figure(r.Kept), r.Rested}
	}
	if r, ok := f.rule(); ok {
		set := f.Rule(f.headRoom)
		o.Rule = &rule{set.Limit.String(), set.Concurrency, f.headRoom, r.line}
	}
	if f.first != nil {
		o.First = f.first.Error()
	}
	f.addRows(&o)
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(o)
}

// addRows adds the curve and the trials.
func (f *findings) addRows(o *object) {
	for _, p := range f.Curve {
		o.Curve = append(o.Curve, point{
			figure(p.Level), figure(p.Offered), figure(p.Served), figure(p.Goodput), figure(p.Errors),
			p.Mean.Seconds(), p.P50.Seconds(), p.P90.Seconds(), p.P99.Seconds(), figure(p.Met), p.Trusted, p.Trials,
		})
	}
	for _, t := range f.trials {
		o.Trials = append(o.Trials, trialRow{
			t.at.Seconds(), t.Trial.Kind, t.Trial.Rate, t.Trial.Concurrency, t.Took.Seconds(), t.Trial.Then,
			t.Sent, t.Good, t.Slow, t.Failed, t.Refused, t.Dropped, t.P50.Seconds(), t.P99.Seconds(), t.Late.Seconds(),
		})
	}
}
