package find

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/knee"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/chart"
)

// findings are what was found, to be written.
type findings struct {
	*hunt
	knee.Result
}

// report writes all that was asked for, even if the search was interrupted, with
// what is known; first what goes to standard output, so that a file that cannot be
// written hides nothing. One - takes the place of the text.
func (f *findings) report(stdout io.Writer) error {
	fill := f.writeText
	if f.json {
		fill = f.writeJSON
	}
	files := map[string]func(io.Writer) error{"-html": f.writeHTML, "-o": f.writeRules, "-scenario": f.writeScenario}
	for _, o := range f.outputs() {
		if o.Path == outfile.Dash {
			fill = files[o.Option]
		}
	}
	var text bytes.Buffer
	if err := fill(&text); err != nil {
		return f.unwritten([]error{err})
	}
	if _, err := stdout.Write(text.Bytes()); err != nil {
		return exit.Failf("standard output: %v", err)
	}
	var failed []error
	for _, o := range f.outputs() {
		if o.Path == "" || o.Path == outfile.Dash {
			continue
		}
		if err := outfile.Write(o.Path, files[o.Option]); err != nil {
			failed = append(failed, fmt.Errorf("%s %s: %w", o.Option, words.Quote(o.Path), err))
		}
	}
	return f.unwritten(failed)
}

// unwritten is the error of what was not written, if anything was not. If nothing
// failed but the search, that is the reason.
func (f *findings) unwritten(all []error) error {
	if len(all) == 0 {
		return nil
	}
	failed := f.Stop == "" // interrupted
	for _, err := range all {
		failed = failed || !errors.As(err, new(exit.Assertion))
	}
	text := strings.ReplaceAll(errors.Join(all...).Error(), "\n", "; ")
	if why := f.why(); why != "" {
		text = why + "; " + text
	}
	if failed {
		return exit.Failf("find: %s", text)
	}
	return exit.Assertion("find: " + text)
}

// brief is a duration with three digits.
func brief(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return words.Lasting(d.Round(unit))
}

// took is brief; of no answer, a dash.
func took(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return brief(d)
}

// percent is a share in percent.
func percent(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }

// levels is a figure of the kind that was searched for, with its unit.
func (f *findings) levels(x float64) string {
	if f.Concurrency {
		return fmt.Sprintf("%.4g in flight", x)
	}
	return fmt.Sprintf("%.4g/s", x)
}

// objective is what had to hold, in words.
func (f *findings) objective() string {
	o := f.Result.Objective
	errors := "no errors"
	if o.Errors > 0 {
		errors = "at most " + percent(o.Errors) + " errors"
	}
	if o.Latency <= 0 {
		return errors
	}
	return fmt.Sprintf("p%.4g within %s, %s", 100*o.Quantile, words.Lasting(o.Latency), errors)
}

// fact is a line of the report.
type fact struct{ Name, Text string }

// facts are what was found, in words.
func (f *findings) facts() (facts []fact) {
	add := func(name, text string) { facts = append(facts, fact{name, text}) }
	add("objective", f.objective())
	add("knee", f.kneeInWords())
	if f.Capacity > 0 {
		add("capacity", fmt.Sprintf("%.4g good answers a second, at %s", f.Capacity, f.levels(f.CapacityAt)))
	}
	if f.InFlight > 0 {
		text := fmt.Sprintf("mean latency %s, %.3g requests in flight by Little's law", brief(f.Latency), f.InFlight)
		if f.Concurrency {
			text = fmt.Sprintf("mean latency %s", brief(f.Latency))
		}
		add("at the knee", text)
	}
	add("past the knee", f.recoveryInWords())
	if rule, ok := f.rule(); ok {
		add("rule", rule.text)
		add("one line", rule.line)
	}
	add("spent", f.spentInWords())
	if f.first != nil {
		add("first failure", words.OneLine(f.first.Error()))
	}
	if why := f.why(); why != "" {
		add("beware", why)
	}
	return facts
}

func (f *findings) kneeInWords() string {
	k := f.Knee
	switch {
	case !(k.At > 0) && f.Spent.Trials == 0:
		return "none: no trial ended"
	case !(k.At > 0):
		return "none: the objective held at no load that was tried"
	case f.AtLeast && f.Stop == knee.TooLate:
		return f.levels(k.At) + " or more: beyond, this machine does not keep the schedule"
	case f.AtLeast:
		return f.levels(k.At) + " or more: the objective held wherever it was tried"
	}
	return fmt.Sprintf("%s (90 %% interval %.4g to %.4g)", f.levels(k.At), k.Low, k.High)
}

func (f *findings) recoveryInWords() string {
	r := f.Recovery
	if r.Verdict == knee.Untested {
		return "not tried"
	}
	text := fmt.Sprintf("%s for %s, then %s: ", f.levels(r.Pushed), brief(r.For), f.levels(r.Back))
	switch {
	case r.Verdict == knee.Recovers && r.After < time.Millisecond:
		text += "recovers at once"
	case r.Verdict == knee.Recovers:
		text += "recovers after " + brief(r.After)
	case r.Verdict == knee.Slow:
		text += "recovers slowly, not within " + brief(r.After)
	default:
		text += "does not recover within " + brief(r.After) + " (metastable failure)"
	}
	if r.Rested {
		text += ", but does after a pause without load"
	}
	return text + fmt.Sprintf("; goodput in the overload was %.0f %% of the capacity", 100*r.Kept)
}

func (f *findings) spentInWords() string {
	return fmt.Sprintf("%s, %s failed or refused, %s in %s", words.Plural(f.Spent.Requests, "request", "requests"),
		words.Whole(int64(f.Spent.Failures)), words.Plural(f.Spent.Trials, "trial", "trials"), brief(f.Spent.Time.Round(time.Millisecond)))
}

// why says why the result is not what was asked for; empty if it is.
func (f *findings) why() string {
	if f.Doubt != "" {
		return "not to be trusted: " + f.Doubt
	}
	switch f.Stop {
	case knee.Found, knee.NoMore:
		return ""
	case knee.Never:
		return "the objective holds at no load; is it what the service can do at all?"
	case knee.TooManySent:
		return "ended after as many requests as -requests allows, before the interval was narrow"
	case knee.TooLong:
		return "ended after -for, before the interval was narrow"
	case knee.TooManyFailed:
		return "ended after as many failures as -failures allows"
	case knee.TooLate:
		return "ended at what this machine can send"
	case knee.Down:
		return "ended because the service did not come back after a trial"
	case knee.Undecided:
		return "the outcomes are too noisy for a narrow interval"
	}
	return "interrupted"
}

// legend says how to read the curve.
const legend = "holds: the probability that the objective holds there; ?: this machine was late"

// writeText writes the report for a terminal.
func (f *findings) writeText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", f.name())
	for _, x := range f.facts() {
		table.WriteLine(&b, table.Fill(x.Name, 15)+x.Text)
	}
	if len(f.Curve) > 0 {
		b.WriteByte('\n')
		f.writeCurve(&b)
		b.WriteString("\n" + legend + "\n")
		for _, c := range f.charts() {
			b.WriteByte('\n')
			if err := c.Text(&b, 64, 12); err != nil {
				return err
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cells are the rows of the curve, the heading first.
func (f *findings) cells() [][]string {
	offered := "offered/s"
	if f.Concurrency {
		offered = "in flight"
	}
	rows := [][]string{{offered, "sent/s", "good/s", "errors", "mean", "p50", "p90", "p99", "holds", "trials"}}
	for _, p := range f.Curve {
		holds := fmt.Sprintf("%.0f %%", 100*p.Met)
		if !p.Trusted {
			holds += " ?"
		}
		rows = append(rows, []string{
			fmt.Sprintf("%.4g", p.Level), fmt.Sprintf("%.4g", p.Offered), fmt.Sprintf("%.4g", p.Goodput), percent(p.Errors),
			took(p.Mean), took(p.P50), took(p.P90), took(p.P99), holds, fmt.Sprint(p.Trials),
		})
	}
	return rows
}

func (f *findings) writeCurve(b *strings.Builder) {
	rows := f.cells()
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			wide[i] = max(wide[i], len([]rune(text)))
		}
	}
	for _, row := range rows {
		line := ""
		for i, text := range row {
			line += table.Pad(text, wide[i]) + "  "
		}
		table.WriteLine(b, line)
	}
}

// charts are goodput and latency against offered load.
func (f *findings) charts() []chart.Chart {
	x := "offered, requests a second"
	if f.Concurrency {
		x = "requests in flight"
	}
	good, ideal := chart.Series{Name: "good answers"}, chart.Series{Name: "offered"}
	p50, p99 := chart.Series{Name: "p50"}, chart.Series{Name: "p99"}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	for _, p := range f.Curve {
		good.X, good.Y = append(good.X, p.Level), append(good.Y, p.Goodput)
		ideal.X, ideal.Y = append(ideal.X, p.Level), append(ideal.Y, p.Offered)
		if p.P99 > 0 {
			p50.X, p50.Y = append(p50.X, p.Level), append(p50.Y, ms(p.P50))
			p99.X, p99.Y = append(p99.X, p.Level), append(p99.Y, ms(p.P99))
		}
	}
	goodput := chart.Chart{Title: "Goodput against offered load", X: x, Y: "requests a second", Series: []chart.Series{good, ideal}}
	latency := chart.Chart{Title: "Latency against offered load", X: x, Y: "ms", Series: []chart.Series{p99, p50}}
	// The knee is third in both, and so of one colour.
	if f.Knee.At > 0 {
		goodput.Series = append(goodput.Series, f.upright(good.Y))
		latency.Series = append(latency.Series, f.upright(p99.Y))
	}
	if bound := ms(f.Result.Objective.Latency); bound > 0 && len(f.Curve) > 0 {
		last := f.Curve[len(f.Curve)-1].Level
		latency.Series = append(latency.Series, chart.Series{Name: "objective", X: []float64{f.Curve[0].Level, last}, Y: []float64{bound, bound}, Mark: '-'})
	}
	return []chart.Chart{goodput, latency}
}

// upright is a line at the knee, as high as the values.
func (f *findings) upright(values []float64) chart.Series {
	top := 0.0
	for _, y := range values {
		top = math.Max(top, y)
	}
	return chart.Series{Name: "knee", Mark: '|', X: []float64{f.Knee.At, f.Knee.At}, Y: []float64{0, top}}
}
