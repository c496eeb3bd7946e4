package report

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/internal/chart"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// svgPoints is how many points of a line are kept at most.
const svgPoints = 24_000

// WriteSVG draws the first scenario: the throttled answers so far, of the first
// seed, a line a policy.
func WriteSVG(w io.Writer, results []batch.Result) error {
	r := results[0]
	c := chart.Chart{Title: fmt.Sprintf("%s: throttled answers so far", r.Scenario.Name), Y: "throttled answers"}
	for _, p := range r.Policies {
		// What was interrupted before one run was over is not played again.
		if slices.ContainsFunc(r.Rows, func(row batch.Row) bool { return row.Policy == p.Name }) {
			c.Series = append(c.Series, throttledSoFar(r.Scenario, p, r.Seed))
		}
	}
	c.X = inUnits(c.Series)
	return c.SVG(w, 760, 380)
}

// inUnits changes the seconds of lines to the unit that suits the longest, and returns it.
func inUnits(lines []chart.Series) string {
	longest := 0.0
	for _, l := range lines {
		longest = max(longest, l.X[len(l.X)-1])
	}
	name, size := "s", 1.0
	switch {
	case longest > 3*86400:
		name, size = "d", 86400
	case longest > 3*3600:
		name, size = "h", 3600
	}
	for _, l := range lines {
		for i := range l.X {
			l.X[i] /= size
		}
	}
	return name
}

// throttledSoFar runs a policy once.
func throttledSoFar(s sim.Scenario, p sim.Policy, seed uint64) chart.Series {
	line := chart.Series{Name: p.Name, X: []float64{0}, Y: []float64{0}}
	var count float64
	var last time.Duration
	run := sim.New(s, p, seed)
	run.MaxSent = maxDrawn
	run.Watch = func(q sim.Point) {
		last = q.At
		if !q.Sent && q.Verdict == pace.Throttled {
			count++
			line.X, line.Y = append(line.X, q.At.Seconds()), append(line.Y, count)
		}
		if len(line.X) > svgPoints {
			line.X, line.Y = everyOther(line.X), everyOther(line.Y)
		}
	}
	for !run.Step(1_000_000) {
	}
	line.X, line.Y = append(line.X, ended(run.Result(), s, last).Seconds()), append(line.Y, count)
	return line
}

// everyOther drops every second number, but keeps the first and the last.
func everyOther(x []float64) []float64 {
	kept := x[:0]
	for i, v := range x {
		if i%2 == 0 || i == len(x)-1 {
			kept = append(kept, v)
		}
	}
	return kept
}
