package probe

import (
	"encoding/json"
	"io"

	"github.com/throttle-go/throttle/fit"
)

// object is version 1 of the form that 'throttle find -limit -json' prints.
// Fields may be added to it; those that are there stay.
type object struct {
	Version     int         `json:"version"`
	Decided     bool        `json:"decided"`
	Why         string      `json:"why,omitempty"`
	Shared      bool        `json:"shared"`
	Used        int         `json:"used"`
	Refused     int         `json:"refused"`
	Unexplained int         `json:"unexplained"`
	Seconds     float64     `json:"seconds"`
	Latency     float64     `json:"latency_p99_s"`
	Statuses    map[int]int `json:"statuses"` // 0: no answer
	Rule        string      `json:"rule,omitempty"`
	Caller      string      `json:"caller"`
	Candidates  []candidate `json:"candidates"`
}

type candidate struct {
	Kind          string   `json:"kind"`
	Text          string   `json:"text"`
	LogLikelihood float64  `json:"log_likelihood"`
	Share         float64  `json:"share"`
	Rate          *value   `json:"rate_per_s,omitempty"`
	Burst         *value   `json:"burst,omitempty"`
	Count         *value   `json:"count,omitempty"`
	Period        *value   `json:"period_s,omitempty"`
	InFlight      *value   `json:"in_flight,omitempty"`
	Phase         *float64 `json:"phase_s,omitempty"`
	FromFirst     bool     `json:"from_first,omitempty"`
}

// value is a parameter with its 95 % interval.
type value struct {
	Is   float64 `json:"is"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// valueOf is nil where the kind has no such parameter, as the rate of a window,
// which follows from its count and period.
func valueOf(x float64, in fit.Interval) *value {
	if x == 0 || in == (fit.Interval{}) {
		return nil
	}
	return &value{x, in.Low, in.High}
}

// writeJSON writes it for programs.
func (f *findings) writeJSON(w io.Writer) error {
	o := object{
		Version: 1, Decided: f.Decided, Shared: f.Shared, Used: f.Used, Refused: f.Refused, Unexplained: f.Unexplained,
		Seconds: f.length.Seconds(), Latency: f.latency.Seconds(), Statuses: f.statuses, Rule: f.rule(), Caller: f.code(),
	}
	if !f.Decided {
		o.Why = f.undecided()
	}
	for _, c := range f.Candidates {
		x := candidate{
			Kind: c.Kind.String(), Text: c.Model.String(), LogLikelihood: c.LogLikelihood, Share: c.Share,
			Rate: valueOf(c.Rate, c.RateIn), Burst: valueOf(c.Burst, c.BurstIn), Count: valueOf(c.Count, c.CountIn),
			Period: valueOf(c.Period.Seconds(), c.PeriodIn), InFlight: valueOf(float64(c.InFlight), c.InFlightIn), FromFirst: c.FromFirst,
		}
		if phase := c.Phase.Seconds(); c.Kind == fit.SlidingCounter || c.Kind == fit.FixedWindow && !c.FromFirst {
			x.Phase = &phase
		}
		o.Candidates = append(o.Candidates, x)
	}
	return json.NewEncoder(w).Encode(o)
}
