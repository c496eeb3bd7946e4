package page

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// The geometry of charts, which page.js has too: a slot for each step of seconds,
// the latest at the right.
const (
	chartWidth, chartHeight, chartStep = 600, 120, 2
	sparkWidth, sparkHeight, sparkStep = 120, 24, 10
)

// A chart is a drawing of ticks: bands on top of each other, or lines.
type chart struct {
	Kind, Name    string // of data-chart, of data-rule
	Width, Height int
	Bands         []band
	Top           string // the largest value, in words
	Label         string
}

// A band is one drawn series.
type band struct{ Class, Path string }

// area draws values from a base to themselves; a slot without a value is left out.
func area(values, base []float64, width, height int, top float64) string {
	var b strings.Builder
	x := func(i int) float64 { return float64(i) * float64(width) / float64(max(len(values)-1, 1)) }
	y := func(v float64) float64 { return float64(height) - 1 - v/top*float64(height-2) }
	for from := 0; from < len(values); from++ {
		to := from
		for to < len(values) && !math.IsNaN(values[to]) {
			to++
		}
		if to == from {
			continue
		}
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(i-from, 1)], x(i), y(values[i]))
		}
		for i := to - 1; i >= from; i-- {
			fmt.Fprintf(&b, "L%.1f %.1f", x(i), y(base[i]))
		}
		b.WriteString("Z")
		from = to
	}
	return b.String()
}

// stacked draws two series, one on top of the other.
func stacked(c chart, lower, upper []float64) chart {
	sum, zero, top := make([]float64, len(lower)), make([]float64, len(lower)), 0.0
	for i := range lower {
		if sum[i] = lower[i] + upper[i]; sum[i] > top {
			top = sum[i]
		}
	}
	c.Top = ticks.Rate(top)
	top = max(top, 1e-9)
	c.Bands = []band{{"passed", area(lower, zero, c.Width, c.Height, top)}, {"refused", area(sum, lower, c.Width, c.Height, top)}}
	return c
}

// decisions is the chart of all, or of a rule.
func decisions(all []ticks.Tick, now time.Time, rule string, c chart, step int64) chart {
	at := latest(all, now)
	return stacked(c,
		ticks.Slots(all, at, step, false, func(t *ticks.Tick) float64 { passed, _, _ := t.PerSecond(rule); return passed }),
		ticks.Slots(all, at, step, false, func(t *ticks.Tick) float64 { _, refused, _ := t.PerSecond(rule); return refused }))
}

// latest is the time at the right of charts.
func latest(all []ticks.Tick, now time.Time) int64 {
	if len(all) == 0 {
		return now.Unix()
	}
	return all[len(all)-1].ID
}

// latency is the chart of the latency added, p50 below p99.
func latency(all []ticks.Tick, now time.Time) chart {
	c := chart{Kind: "latency", Width: chartWidth, Height: chartHeight, Label: "Latency added by decisions in the last ten minutes, p50 and p99"}
	of := func(p func(*ticks.Tick) *float64) []float64 {
		return ticks.Slots(all, latest(all, now), chartStep, true, func(t *ticks.Tick) float64 {
			if v := p(t); v != nil {
				return *v
			}
			return math.NaN()
		})
	}
	p50, p99 := of(func(t *ticks.Tick) *float64 { return t.P50 }), of(func(t *ticks.Tick) *float64 { return t.P99 })
	zero, top := make([]float64, len(p99)), 0.0
	for i, v := range p99 {
		if v > top {
			top = v
		}
		p50[i], p99[i] = logarithmic(p50[i]), logarithmic(v)
	}
	c.Top = ticks.Seconds(&top)
	top = max(logarithmic(top), 1)
	c.Bands = []band{{"p99", area(p99, zero, c.Width, c.Height, top)}, {"p50", area(p50, zero, c.Width, c.Height, top)}}
	return c
}

// logarithmic is the height of a latency in seconds, from 10 µs up.
func logarithmic(v float64) float64 { return math.Log(max(v, 1e-5) / 1e-5) }

// functions are those of the templates.
var functions = template.FuncMap{
	"rate": ticks.Rate, "seconds": ticks.Seconds, "whole": words.Whole, "ago": ago, "until": until, "clock": clock, "stamp": stamp,
	"shown": shown, "join": func(parts []string, with string) string { return shown(strings.Join(parts, with)) }, "deref": func(x *float64) float64 { return *x }, "short": func(x float64) string { return lasting(time.Duration(x * float64(time.Second))) },
}

// mostShown bounds text of others in the page, in characters.
const mostShown = 300

// shown is text of others, such as a key that a client chose, as it is seen.
func shown(text string) string { return words.Visible(text, mostShown) }

// lasting writes a length of time by its largest units.
func lasting(d time.Duration) string {
	if d > 0 && d < time.Second {
		return "1 s" // at most
	}
	d = max(d, 0).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d.Round(time.Minute)/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return lasting(now.Sub(t)) + " ago"
}

func until(t, now time.Time) string {
	if t.IsZero() {
		return "no end"
	}
	return "ends in " + lasting(t.Sub(now))
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
