package report

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
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

// Settings that a scenario gives to a policy are told beside it.
func TestJSONTellsTheSettingsOfAScenario(t *testing.T) {
	for scenario, want := range map[string]bool{"heroku-clear": true, "heroku": false} {
		var b strings.Builder
		s := clitest.Builtin(t, scenario)
		if err := WriteJSON(&b, mustResults(t, 1, []sim.Scenario{s}, "gradual")); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), `"policy":"gradual","scenario_settings":"start=1s"`); got != want {
			t.Errorf("%s: start=1s is told: %v, want %v:\n%s", scenario, got, want, b.String())
		}
	}
}
