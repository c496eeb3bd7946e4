package report

import (
	"io"
	"math"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

func TestJSONNotANumber(t *testing.T) {
	r := batch.Result{Rows: []batch.Row{{Summary: sim.Summarise(nil)}}}
	r.Rows[0].Summary.Stats[3] = pace.Some(sim.Stat{Median: math.NaN()})
	if err := WriteJSON(io.Discard, []batch.Result{r}); err == nil {
		t.Error("WriteJSON(NaN) = nil, want an error")
	}
}
