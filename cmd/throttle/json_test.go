package main

import (
	"io"
	"math"
	"testing"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

func TestJSONNotANumber(t *testing.T) {
	r := scenarioResult{Rows: []policyResult{{Summary: sim.Summarise(nil)}}}
	r.Rows[0].Summary.Stats[3] = pace.Some(sim.Stat{Median: math.NaN()})
	if err := writeJSON(io.Discard, []scenarioResult{r}); err == nil {
		t.Error("writeJSON(NaN) = nil, want an error")
	}
}
