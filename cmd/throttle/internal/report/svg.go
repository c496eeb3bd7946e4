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
	c := chart.Chart{
		Title: fmt.Sprintf("%s: throttled answers so far", r.Scenario.Name),
		X:     "s", Y: "throttled answers",
	}
	for _, p := range r.Policies {
		// What was interrupted before one run was over is not played again.
		if slices.ContainsFunc(r.Rows, func(row batch.Row) bool { return row.Policy == p.Name }) {
			c.Series = append(c.Series, throttledSoFar(r.Scenario, p, r.Seed))
		}
	}
	return c.SVG(w, 760, 380)
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
	line.X, line.Y = append(line.X, last.Seconds()), append(line.Y, count)
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
