package report

import (
	"time"

	"github.com/throttle-go/throttle/sim"
)

// flightTrace is what is in flight, as means from each of T on.
type flightTrace struct {
	T        instants `json:"t_ms"`
	InFlight figures  `json:"in_flight"` // of a process
	Limit    figures  `json:"limit"`     // of it; empty: there is none
	Took     figures  `json:"took"`      // seconds that answers and time-outs took
}

// flight joins slices and takes means.
func (r *recorder) flight(s sim.Scenario) *flightTrace {
	var all slice
	for i := range r.slices {
		all.limit.merge(r.slices[i].limit)
	}
	works := s.Server.Service.Time > 0 || s.Server.Queue > 0
	if all.limit.n == 0 && !works {
		return nil
	}
	t := new(flightTrace)
	join := max(1, (len(r.slices)+maxRates-1)/maxRates)
	for i := 0; i < len(r.slices); i += join {
		var sum slice
		for k := i; k < min(i+join, len(r.slices)); k++ {
			sum.inFlight.merge(r.slices[k].inFlight)
			sum.limit.merge(r.slices[k].limit)
			sum.took.merge(r.slices[k].took)
		}
		t.T = append(t.T, r.width*time.Duration(i))
		t.InFlight = append(t.InFlight, sum.inFlight.mean())
		t.Took = append(t.Took, sum.took.mean())
		if all.limit.n > 0 {
			t.Limit = append(t.Limit, sum.limit.mean())
		}
	}
	return t
}

// mean is NaN if there is none.
func (e *extent) mean() float64 { return e.sum / float64(e.n) }
