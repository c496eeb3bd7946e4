package replay

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/outcome"
	"github.com/throttle-go/throttle/cmd/throttle/internal/suggest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/chart"
)

// text writes a report for people.
func (r *report) text(b *strings.Builder, o *options) {
	fmt.Fprintf(b, "%s from %s to %s UTC, format %s\n", words.Plural(int(r.Requests), "request", "requests"), stamp(r.From), stamp(r.To), strings.Join(r.Formats, ", "))
	if r.Bad > 0 {
		fmt.Fprintf(b, "%s of %s bad and left out, the first is %s\n", words.Whole(r.Bad), words.Plural(int(r.Lines), "line is", "lines are"), r.FirstBad)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(b, "note: %s\n", words.OneLine(note))
	}
	if r.Replay != nil {
		if len(r.Labels) > 1 {
			b.WriteByte('\n')
			r.versions(b)
		}
		for i := range r.Replay.Sides {
			r.side(b, i)
		}
	}
	if r.Proposal != nil {
		writeProposal(b, r.Proposal, o, r.nothing)
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.DateTime) }

// versions compares all versions of the rules.
func (r *report) versions(b *strings.Builder) {
	rows := [][]string{{"rules", "refused", "%", "newly refused", "newly admitted"}}
	for i, s := range r.Replay.Sides {
		row := []string{r.Labels[i], words.Whole(s.Refused), percent(s.Refused, r.Requests), words.Whole(s.NewlyRefused), words.Whole(s.NewlyAdmitted)}
		if i == 0 {
			row[3], row[4] = "", ""
		}
		rows = append(rows, row)
	}
	writeRows(b, rows, 1)
}

// side writes what one version of the rules would have done.
func (r *report) side(b *strings.Builder, i int) {
	s := &r.Replay.Sides[i]
	fmt.Fprintf(b, "\n%s (version %s): %s of %s refused (%s%%)\n", r.Labels[i], s.Version, words.Whole(s.Refused), words.Plural(int(r.Requests), "request", "requests"), percent(s.Refused, r.Requests))
	if len(s.Rules) > 0 {
		b.WriteByte('\n')
		rows := [][]string{{"rule", "asked", "refused", "%", "shadow", "keys", "touched"}}
		for _, rule := range s.Rules {
			rows = append(rows, []string{
				rule.Name, words.Whole(rule.Asked), words.Whole(rule.Refused), percent(rule.Refused, rule.Asked),
				words.Whole(rule.Shadowed), words.Whole(rule.Keys), words.Whole(rule.Touched),
			})
		}
		writeRows(b, rows, 1)
	}
	if i > 0 { // the rest is much like that of the first
		writeKeys(b, "newly refused most often", s.NewKeys)
		return
	}
	writeKeys(b, "refused most often", s.Keys)
	if s.Refused > 0 {
		writeChart(b, s)
	}
}

func writeKeys(b *strings.Builder, title string, keys []outcome.Key) {
	if len(keys) == 0 {
		return
	}
	b.WriteByte('\n')
	rows := [][]string{{title, "rule", "refused", "first", "last"}}
	for _, k := range keys {
		name, refused := words.OneLine(k.Name), words.Whole(k.Refused)
		if name == "" {
			name = "(all)"
		}
		if k.Extra > 0 {
			refused = words.Whole(k.Refused-k.Extra) + " to " + refused
		}
		rows = append(rows, []string{name, k.Rule, refused, stamp(k.First), stamp(k.Last)})
	}
	writeRows(b, rows, 2)
}

// writeRows writes a table, of which so many columns are words, and the others numbers.
func writeRows(b *strings.Builder, rows [][]string, left int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			blank := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < left {
				line += cell + blank + "  "
			} else {
				line += blank + cell + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// percent is a share of all, with as many digits as it takes to see it.
func percent(n, all int64) string {
	if all == 0 {
		return ""
	}
	x := 100 * float64(n) / float64(all)
	if x > 0 && x < 0.01 {
		return "<0.01"
	}
	return fmt.Sprintf("%.2f", x)
}

// chartColumns is how many parts of the time a chart shows.
const chartColumns = 60

// columnWidths are those that a column may have.
var columnWidths = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// spanOf returns how long the bins last, at most what a Duration holds: 292 years.
func spanOf(s *outcome.Side) time.Duration {
	return min(time.Duration(len(s.Bins)), math.MaxInt64/s.Width) * s.Width
}

// columnWidth returns how much of the time one column of a chart shows.
func columnWidth(s *outcome.Side) time.Duration {
	total := spanOf(s)
	for _, w := range columnWidths {
		if w%s.Width == 0 && w*chartColumns >= total {
			return w
		}
	}
	return (total/chartColumns/s.Width + 1) * s.Width
}

// writeChart draws requests and refusals over the time.
func writeChart(b *strings.Builder, s *outcome.Side) {
	width := columnWidth(s)
	group := int(width / s.Width)
	unit, name := unitOf(spanOf(s))
	refused, requests := chart.Series{Name: "refused", Mark: '#'}, chart.Series{Name: "requests", Mark: '.'}
	for i := 0; i < len(s.Bins); i += group {
		var sum outcome.Bin
		for _, bin := range s.Bins[i:min(i+group, len(s.Bins))] {
			sum.Requests += bin.Requests
			sum.Refused += bin.Refused
		}
		x := float64(time.Duration(i)*s.Width) / float64(unit)
		refused.X, refused.Y = append(refused.X, x), append(refused.Y, float64(sum.Refused))
		requests.X, requests.Y = append(requests.X, x), append(requests.Y, float64(sum.Requests))
	}
	c := chart.Chart{
		Title:  fmt.Sprintf("each %s from %s on", words.Lasting(width), stamp(s.Start)),
		X:      name,
		Series: []chart.Series{refused, requests},
	}
	b.WriteByte('\n')
	_ = c.Text(b, chartColumns, 8) // whose points are well-formed
}

// unitOf returns in what a time is counted.
func unitOf(total time.Duration) (time.Duration, string) {
	switch {
	case total > 72*time.Hour:
		return 24 * time.Hour, "days"
	case total > 2*time.Hour:
		return time.Hour, "h"
	case total > 5*time.Minute:
		return time.Minute, "min"
	}
	return time.Second, "s"
}

// writeProposal says what is proposed, and why.
func writeProposal(b *strings.Builder, p *suggest.Proposal, o *options, nothing string) {
	all := p.Honest + p.Flooding
	fmt.Fprintf(b, "\nproposal by %s, from %s\n", o.suggest, words.Plural(all, "key", "keys"))
	if p.Sampled > 1 {
		fmt.Fprintf(b, "a sample of one key in %d\n", p.Sampled)
	}
	if len(p.Limits) == 0 {
		fmt.Fprintf(b, "nothing to propose: %s\n", nothing)
		return
	}
	fmt.Fprintf(b, "%s flooding and left out, %s honest, of which %s would have been refused something\n",
		words.Plural(p.Flooding, "key is", "keys are"), words.Whole(int64(p.Honest)), words.Whole(int64(p.Touched)))
	if p.Promised > o.touch {
		fmt.Fprintf(b, "too few keys to know a share of %s%%: on another such day at most %s%% of the honest are touched (confidence 95%%), so each limit is doubled\n", words.Number(100*o.touch), words.Number(100*p.Promised))
	} else {
		fmt.Fprintf(b, "on another day of the same traffic at most %s%% of the honest are touched (confidence 95%%)\n", words.Number(100*p.Promised))
	}
	b.WriteByte('\n')
	rows := [][]string{{"limit", "median", "p99", "most", "flooding above"}}
	for _, l := range p.Limits {
		flood := words.Whole(l.Flood)
		if l.Flood == 1<<32-1 {
			flood = ""
		}
		rows = append(rows, []string{l.Text, words.Whole(l.Median), words.Whole(l.P99), words.Whole(l.Most), flood})
	}
	writeRows(b, rows, 1)
}
