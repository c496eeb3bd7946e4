// Package report writes the results of simulations as JSON, as an HTML page
// with charts, and as an SVG picture.
package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/sim"
)

//go:embed report.html
var reportHTML string

//go:embed report.css
var reportCSS string

//go:embed report_table.js
var tableJS string

//go:embed report.js
var chartsJS string

//go:embed uplot/uPlot.iife.min.js
var uplotJS string

//go:embed uplot/uPlot.min.css
var uplotCSS string

//go:embed uplot/LICENSE
var uplotLicense string

// Bounds of a report. Charts of more runs than maxCharted are left out; beyond
// fullDetail runs, they are drawn from fewer points.
const (
	maxCharted = 200
	fullDetail = 48
	leastShare = 4 // of the points, with many runs
)

// WriteHTMLFile writes the report as one HTML file that needs nothing else.
func WriteHTMLFile(path string, results []batch.Result) error {
	return outfile.Write(path, func(w io.Writer) error { return WriteHTML(w, results) })
}

// WriteHTML writes the report. The first run of each policy is played again
// to be drawn, one after the other while writing, so that memory is that of
// one.
func WriteHTML(w io.Writer, results []batch.Result) error {
	page, err := newPage(results)
	if err != nil {
		return err
	}
	t, err := template.New("report").Parse(reportHTML)
	if err != nil {
		return err
	}
	return t.Execute(w, page)
}

// page is what the template shows. Everything that users named is a string,
// which html/template escapes.
type page struct {
	Title, Heading, Lede string
	Security             string
	Style                template.CSS
	Script               template.JS
	Results, MeasureData template.JS // JSON, safe within a script element
	Measures             []column
	Scenarios            []scenarioPart
}

// scenarioPart is a scenario's part of the page.
type scenarioPart struct {
	ID, Name, Seeds string
	First, Rows     int // its rows in Results
	Facts           []scenario.Fact
	Notes           []string
	Policies        []policyPart
}

func newPage(results []batch.Result) (*page, error) {
	p := &page{Measures: columns()}
	var table bytes.Buffer
	if err := WriteJSON(&table, results); err != nil {
		return nil, err
	}
	measures, err := json.Marshal(p.Measures)
	if err != nil {
		return nil, err
	}
	// encoding/json writes <, > and & as escapes: no data can end the element.
	p.Results, p.MeasureData = template.JS(table.String()), template.JS(measures)
	style := uplotCSS + reportCSS
	script := "/*!\n" + uplotLicense + "*/\n" + uplotJS + "(() => {\n\"use strict\";\n" + tableJS + chartsJS + "})();\n"
	p.Style, p.Script, p.Security = template.CSS(style), template.JS(script), security(style, script)
	p.add(results)
	p.words(results)
	return p, nil
}

// security is the Content-Security-Policy: nothing may be loaded from anywhere
// and nothing may run but our own style and script.
func security(style, script string) string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src " + hash(style) + "; script-src " + hash(script)
}

// add adds all scenarios.
func (p *page) add(results []batch.Result) {
	rows := 0
	for _, r := range results {
		rows += len(r.Rows)
	}
	detail := 1
	for detail < leastShare && min(rows, maxCharted) > fullDetail*detail {
		detail *= 2
	}
	first := 0
	for i, r := range results {
		part := scenarioPart{
			ID: "s" + strconv.Itoa(i+1), Name: r.Scenario.Name, First: first, Rows: len(r.Rows),
			Seeds: seedsInWords(r), Facts: scenario.Describe(r.Scenario), Notes: notes(r),
		}
		for k, ran := range chosen(r) {
			if first+k == maxCharted {
				part.Notes = append(part.Notes, fmt.Sprintf("Only the first %d runs of this file have charts.", maxCharted))
				break
			}
			part.Policies = append(part.Policies, policyPart{
				ID: part.ID + "-p" + strconv.Itoa(k+1), Row: first + k, Name: ran.Name, About: policy.About(ran.Name),
				scenario: r.Scenario, policy: ran, seed: r.Seed, detail: detail,
			})
		}
		first += len(r.Rows)
		p.Scenarios = append(p.Scenarios, part)
	}
}

// chosen is the policies that have a row, in the order of rows.
func chosen(r batch.Result) (policies []sim.Policy) {
	for _, p := range r.Policies {
		if n := len(policies); n < len(r.Rows) && r.Rows[n].Policy == p.Name {
			policies = append(policies, p)
		}
	}
	return policies
}

// notes are what a reader must know about how the figures came to be.
func notes(r batch.Result) (notes []string) {
	if r.Interrupted {
		notes = append(notes, "The simulation was interrupted: these are the runs that were complete.")
	}
	for _, row := range r.Rows {
		if row.Summary.Cut > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s ended early, at the most requests that are simulated.", row.Policy, words.Plural(row.Summary.Cut, "run", "runs")))
		}
	}
	return notes
}

// seedsInWords is over how many runs the figures are.
func seedsInWords(r batch.Result) string {
	low, high := 0, 0
	for i, row := range r.Rows {
		if i == 0 || row.Seeds < low {
			low = row.Seeds
		}
		high = max(high, row.Seeds)
	}
	if low < high {
		return fmt.Sprintf("%d to %d runs", low, high)
	}
	return words.Plural(high, "run", "runs")
}

// words are title and heading.
func (p *page) words(results []batch.Result) {
	policies := 0
	for _, r := range results {
		policies = max(policies, len(r.Rows))
	}
	p.Heading = words.Plural(len(results), "scenario", "scenarios") + ", " + words.Plural(policies, "policy", "policies")
	if len(results) == 1 {
		p.Heading = words.Plural(policies, "way", "ways") + " to call “" + results[0].Scenario.Name + "”"
	}
	p.Title = p.Heading + " – throttle sim"
	p.Lede = "Clients share a service that limits its callers. A policy decides when each of them sends its next request. " +
		"Good policies are throttled rarely, use what the service can give, wait no longer than needed, and share fairly."
}

// policyPart is the part of one policy.
type policyPart struct {
	ID, Name, About string
	Row             int // in Results

	scenario sim.Scenario
	policy   sim.Policy
	seed     uint64
	detail   int
}

// drawing is a policyPart with its charts.
type drawing struct {
	policyPart
	Run, Sampled, Lines, Rates string
	Level                      string      // empty: the server has none
	InFlight                   string      // empty: it does not matter
	Trace                      template.JS // JSON
}

// Draw plays the run and says what is to be seen. The template calls it once.
func (p policyPart) Draw() (drawing, error) {
	t := record(p.scenario, p.policy, p.seed, p.detail)
	text, err := json.Marshal(t)
	if err != nil {
		return drawing{}, err
	}
	d := drawing{policyPart: p, Trace: template.JS(text)}
	d.Run, d.Sampled, d.Lines = runSeen(t), sampled(t), linesInWords(t.Lines)
	d.Rates = "How many requests got which answer."
	if t.Level != nil {
		d.Rates = "How many requests got which answer; the closer served is to the capacity, the less is wasted."
		d.Level = "How much was left of the limit after each decision; the server throttles what does not fit in that."
		if len(t.Level.Y) > 0 && !slices.ContainsFunc(t.Level.Y, func(y float64) bool { return y > 0 }) {
			d.Level += " Here nothing was ever left."
		}
	}
	if f := t.Flight; f != nil {
		d.InFlight = "How many requests a process had in flight."
		if len(f.Limit) > 0 {
			d.InFlight = "How many requests a process had in flight, and the concurrency limit that bounded them."
		}
	}
	return d, nil
}

// linesInWords explains the chart of workers.
func linesInWords(l lineTrace) string {
	switch {
	case len(l.Workers) == 0:
		return "How long the workers held back before their requests: the median, and the range from the shortest to the longest."
	case len(l.Workers) == 1 && l.Mean == 0:
		return "How long the worker held back before each request."
	case l.Mean == 0:
		return "Each line is a worker: how long it held back before each request. Lines far apart mean that some wait more than others."
	}
	mean := "its mean over " + words.Lasting(whole(roughly(l.Mean))) + "."
	if len(l.Workers) == 1 {
		return "How long the worker held back before its requests, " + mean
	}
	return "Each line is a worker: how long it held back before its requests, " + mean + " Lines far apart mean that some wait more than others."
}

// runSeen is what happened in a run.
func runSeen(t trace) string {
	s := fmt.Sprintf("In the run drawn here (seed %d, %s): %s served, %s throttled",
		t.Seed, words.Lasting(roughly(t.End)), words.Whole(int64(t.Seen[0])), words.Whole(int64(t.Seen[1])))
	if t.Seen[2] > 0 {
		s += fmt.Sprintf(", %s failed for another reason", words.Whole(int64(t.Seen[2])))
	}
	if t.Cut {
		s += "; the rest of it is not drawn"
	}
	return s + "."
}

// roughly is seconds as a Duration, to three digits.
func roughly(seconds float64) time.Duration {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(min(unit, time.Second))
}

// whole is a long duration in whole hours or minutes, within a twentieth.
func whole(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Hour, time.Minute} {
		if d >= 10*unit {
			return d.Round(unit)
		}
	}
	return d
}

// sampled says how many answers have a dot, if not all have.
func sampled(t trace) string {
	drawn, seen := 0, uint64(0)
	for v, dots := range t.Dots {
		drawn += len(dots.T)
		seen += t.Seen[v]
	}
	if uint64(drawn) >= seen {
		return ""
	}
	return fmt.Sprintf("%s of %s are drawn, by lot and the extremes.", words.Whole(int64(drawn)), words.Whole(int64(seen)))
}
