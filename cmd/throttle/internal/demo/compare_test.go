package demo

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

func TestAgrees(t *testing.T) {
	some := func(median, low, high float64) pace.Opt[sim.Stat] {
		return pace.Some(sim.Stat{Median: median, Min: low, Max: high})
	}
	none := pace.Opt[sim.Stat]{}
	for _, test := range []struct {
		live             float64
		median, min, max float64
		floor            float64
		want             bool
	}{
		{5.9, 5, 4.9, 5.1, 0, true},   // within 20 % of the median
		{6.1, 5, 4.9, 5.1, 0, false},  // above
		{3.9, 5, 4.9, 5.1, 0, false},  // below
		{6.1, 5, 4.9, 6.2, 0, true},   // as with some seed
		{3.9, 5, 3.8, 5.1, 0, true},   // as with some seed
		{0.009, 0, 0, 0, 0.01, true},  // near zero
		{0.011, 0, 0, 0, 0.01, false}, // not that near
		{0.52, 0.5, 0.5, 0.5, 0.01, true},
		{0.61, 0.5, 0.5, 0.5, 0.01, false}, // the floor adds nothing
	} {
		got := agrees(some(test.live, test.live, test.live), some(test.median, test.min, test.max), test.floor)
		if got != test.want {
			t.Errorf("agrees(%v, %v (%v–%v), %v) = %v, want %v", test.live, test.median, test.min, test.max, test.floor, got, test.want)
		}
	}
	if agrees(none, some(1, 1, 1), 0) || agrees(some(1, 1, 1), none, 0) || !agrees(none, none, 0) {
		t.Error("agrees: what is absent must be so in both")
	}
}

func TestDisagreement(t *testing.T) {
	row := func(rate, utilisation, finish float64) batch.Row {
		return batch.Row{Policy: "p", Seeds: 1, Summary: sim.Summarise([]sim.Result{{
			RetryRate: pace.Some(rate), Utilisation: pace.Some(utilisation), Finish: pace.Some(finish),
		}})}
	}
	live, predicted := []batch.Row{row(0.5, 0.9, 6.5)}, []batch.Row{row(0.5, 0.9, 5)}
	differ := "live and predicted differ by more than 20 %: p.finish_s is 6.50 live, 5.00 predicted"
	for _, test := range []struct {
		late time.Duration
		want string
		code int
	}{
		{1999 * time.Microsecond, differ, 1},
		{2 * time.Millisecond, "this machine is too busy to compare, answers came 2ms late or later: " + differ, 3},
	} {
		err := disagreement(live, predicted, []time.Duration{test.late}, 2*time.Millisecond)
		if err == nil || err.Error() != test.want || exit.Code(err, io.Discard) != test.code {
			t.Errorf("disagreement, %v late: %v; want code %d, %q", test.late, err, test.code, test.want)
		}
	}
	if text := beside(live, predicted, 3, 0); !strings.Contains(text, " 6.50! 5.00\n") || !strings.Contains(text, "\n! differs by more than 20 %\n") {
		t.Errorf("beside =%s\nwant 6.50 marked", text)
	}
	live[0] = row(0.5, 0.9, 5.5)
	if err := disagreement(live, predicted, []time.Duration{time.Hour}, time.Millisecond); err != nil {
		t.Errorf("disagreement = %v, want none", err)
	}
}

// On a terminal that is too narrow for one table each figure has its own.
func TestBesideFits(t *testing.T) {
	row := batch.Row{Policy: "backoff-jitter(cap=1s)", Seeds: 1, Summary: sim.Summarise([]sim.Result{{
		RetryRate: pace.Some(0.338), Utilisation: pace.Some(0.894), Finish: pace.Some(5.09),
	}})}
	rows := []batch.Row{row}
	whole := beside(rows, rows, 3, 0)
	for _, c := range []struct{ columns, tables int }{{widest(whole), 1}, {widest(whole) - 1, 3}, {20, 3}} {
		text := beside(rows, rows, 3, c.columns)
		if n := strings.Count(text, "\npolicy "); n != c.tables {
			t.Errorf("%d columns: %d tables, want %d:\n%s", c.columns, n, c.tables, text)
		}
		for _, name := range []string{"retry_rate %", "utilisation", "finish_s"} {
			if strings.Count(text, name) != 1 {
				t.Errorf("%d columns: want %s once in\n%s", c.columns, name, text)
			}
		}
	}
}
