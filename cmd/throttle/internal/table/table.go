// Package table writes results in columns, for a terminal.
package table

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// A Heading is how a measure stands in the tables.
type Heading struct {
	measure string
	Lines   [2]string // from above
	Scale   float64   // by which the measure is multiplied to be shown
}

var headings = []Heading{
	{"retry_rate", [2]string{"retry_rate", "%"}, 100},
	{"retry_rate_worker_mean", [2]string{"retry_rate_", "worker_mean%"}, 100},
	{"max_sleep_s", [2]string{"max_sleep_s", ""}, 1},
	{"stdev_requests", [2]string{"stdev_", "requests"}, 1},
	{"jain", [2]string{"jain", ""}, 1},
	{"utilisation", [2]string{"utilisation", ""}, 1},
	{"throughput", [2]string{"throughput", "per s"}, 1},
	{"goodput", [2]string{"goodput", "per s"}, 1},
	{"in_time", [2]string{"in_time", "%"}, 100},
	{"finish_s", [2]string{"finish_s", ""}, 1},
	{"reconverge_s", [2]string{"reconverge_s", ""}, 1},
	{"wait_p99_s", [2]string{"wait_p99_s", ""}, 1},
}

// HeadingOf returns the heading of a measure; one that tables leave out is
// headed by its name.
func HeadingOf(measure string) Heading {
	for _, h := range headings {
		if h.measure == measure {
			return h
		}
	}
	return Heading{measure: measure, Lines: [2]string{measure}, Scale: 1}
}

// A Cell is a measure of one policy: its median and its range over the seeds.
// The range is empty where it has no width.
type Cell struct {
	Median, Spread string
	best           bool
}

// tableColumn is one measure of all policies.
type tableColumn struct {
	lines [2]string
	cells []Cell
	width int // without the mark
}

// Write writes a table for each scenario, in lines of at most width, if that is
// above zero and each column fits: those that do not fit beside the others
// follow below.
func Write(w io.Writer, results []batch.Result, colour bool, width int) error {
	var b strings.Builder
	for _, r := range results {
		if len(r.Rows) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		seeds := 0
		for _, row := range r.Rows {
			seeds = max(seeds, row.Seeds)
		}
		fmt.Fprintln(&b, words.Fold(r.Scenario.Name+": "+scenario.Gist(r.Scenario), width))
		writeTable(&b, r, seeds, colour, width)
		writeSettings(&b, r, width)
		writePublished(&b, r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// legend says how to read a table.
func legend(seeds int, first uint64, rows int) string {
	text := fmt.Sprintf("seed %d", first)
	if seeds > 1 {
		text = fmt.Sprintf("median, and min–max below it, of seeds %d to %d", first, first+uint64(seeds)-1)
	}
	if rows > 1 {
		text += "; * best"
	}
	return text
}

func writeTable(b *strings.Builder, r batch.Result, seeds int, colour bool, width int) {
	labels, left := []string{}, len("policy")
	for _, row := range r.Rows {
		label := row.Policy
		if row.Seeds < seeds { // interrupted
			label += fmt.Sprintf(" (%d of %d)", row.Seeds, seeds)
		}
		labels = append(labels, label)
		left = max(left, utf8.RuneCountInString(label))
	}
	fmt.Fprintln(b, words.Fold(legend(seeds, r.Seed, len(r.Rows)), width))
	for _, columns := range beside(tableColumns(r.Rows), width-left) {
		b.WriteByte('\n')
		writeColumns(b, labels, left, columns, colour)
	}
}

// beside cuts columns into groups that fit beside each other, all of them if
// there is no width.
func beside(columns []tableColumn, width int) (groups [][]tableColumn) {
	first, used := 0, 0
	for i, c := range columns {
		wide := c.width + 2
		if width > 0 && i > first && used+wide > width+1 { // the last blank is not written
			groups, first, used = append(groups, columns[first:i]), i, 0
		}
		used += wide
	}
	return append(groups, columns[first:])
}

func writeColumns(b *strings.Builder, labels []string, left int, columns []tableColumn, colour bool) {
	for i, name := range []string{"policy", ""} {
		line := Fill(name, left)
		for _, c := range columns {
			line += " " + Pad(c.lines[i], c.width) + " "
		}
		WriteLine(b, line)
	}
	for i, label := range labels {
		line, ranges := Fill(label, left), Fill("", left)
		for _, c := range columns {
			line += " " + c.cell(i, colour)
			ranges += " " + Pad(c.cells[i].Spread, c.width) + " "
		}
		WriteLine(b, line)
		if strings.TrimSpace(ranges) != "" {
			WriteLine(b, ranges)
		}
	}
}

// writeSettings writes, below a table, what the names of the policies do not
// say: their settings, and what they are given, the rivals too.
func writeSettings(b *strings.Builder, r batch.Result, width int) {
	var lines []string
	for _, row := range r.Rows {
		if text := settingsOf(r.Scenario, row.Policy); text != "" {
			lines = append(lines, text)
		}
	}
	for i, g := range r.Scenario.Clients {
		if g.Policy == nil {
			continue
		}
		if told := policy.Told(r.Scenario, g.Policy.Name); told != "" {
			lines = append(lines, fmt.Sprintf("clients %d, which are %s, are given %s", i+1, g.Policy.Name, told))
		}
	}
	for i, line := range lines {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(b, words.Fold(line, width))
	}
}

// settingsOf is a line about the settings of a policy that is tested, or about
// what it is given.
func settingsOf(s sim.Scenario, name string) string {
	family, own, ownSettings := strings.Cut(name, "(")
	settings, told := rest(s.Settings[family], own), policy.Told(s, name)
	switch {
	case settings != "" && ownSettings:
		return fmt.Sprintf("%s takes the rest from the scenario: %s", name, settings)
	case settings != "":
		return fmt.Sprintf("%s is %s(%s), as the scenario says", name, name, settings)
	case name == "fixed" && s.Server.Costs:
		return "fixed is fixed(rate=4): 4 a second of what calls cost, in a process"
	case name == "fixed":
		return "fixed is fixed(rate=4): 4 requests a second of a process"
	case told != "":
		return fmt.Sprintf("%s is given %s", name, told)
	case name == "autosleeper":
		return "autosleeper is " + written(name)
	}
	return ""
}

// rest is what of settings, NAME=VALUE separated by commas, own does not set.
func rest(settings, own string) string {
	isOwn := func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return slices.ContainsFunc(strings.Split(own, ","), func(o string) bool {
			o, _, _ = strings.Cut(o, "=")
			return strings.TrimSpace(o) == name
		})
	}
	return strings.Join(slices.DeleteFunc(strings.Split(settings, ","), isOwn), ",")
}

// written is a policy with its settings as they are by default.
func written(name string) string {
	var set []string
	for _, info := range sim.Policies() {
		if info.Name == name {
			for _, s := range info.Settings {
				set = append(set, s.Name+"="+s.Default)
			}
		}
	}
	return fmt.Sprintf("%s(%s)", name, strings.Join(set, ","))
}

// WriteLine writes a line without spaces at its end.
func WriteLine(b *strings.Builder, line string) {
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// tableColumns are the measures that apply to any row.
func tableColumns(rows []batch.Row) (columns []tableColumn) {
	for _, h := range headings {
		m := measures.At(h.measure)
		c := tableColumn{lines: h.Lines, width: max(len(h.Lines[0]), len(h.Lines[1]))}
		applies := false
		var best pace.Opt[float64]
		for _, row := range rows {
			s := row.Summary.Stats[m]
			applies = applies || s.OK
			cell := CellOf(s, h.Scale)
			c.cells = append(c.cells, cell)
			c.width = max(c.width, len(cell.Median), utf8.RuneCountInString(cell.Spread))
			if better := float64(sim.Measures[m].Better); s.OK && (!best.OK || s.V.Median*better > best.V*better) {
				best = pace.Some(s.V.Median)
			}
		}
		if !applies {
			continue
		}
		if sim.Measures[m].Better != 0 && len(rows) > 1 {
			c.mark(Figure(best.V * h.Scale))
		}
		columns = append(columns, c)
	}
	return columns
}

// mark marks what reads the same as the best, unless all do.
func (c *tableColumn) mark(best string) {
	n := 0
	for i := range c.cells {
		if c.cells[i].best = c.cells[i].Median == best; c.cells[i].best {
			n++
		}
	}
	for i := range c.cells {
		c.cells[i].best = c.cells[i].best && n < len(c.cells)
	}
}

// CellOf returns the cell of a measure, its figures multiplied by scale.
func CellOf(s pace.Opt[sim.Stat], scale float64) Cell {
	if !s.OK {
		return Cell{Median: "-"}
	}
	c := Cell{Median: Figure(s.V.Median * scale)}
	if low, high := Figure(s.V.Min*scale), Figure(s.V.Max*scale); low != high {
		c.Spread = low + "–" + high
	}
	return c
}

// cell is the median of a row, marked if it is the best.
func (c tableColumn) cell(row int, colour bool) string {
	text := Pad(c.cells[row].Median, c.width) + " "
	if !c.cells[row].best {
		return text
	}
	text = text[:c.width] + "*"
	if colour {
		return "\x1b[32m" + text + "\x1b[0m"
	}
	return text
}

// Pad puts text at the right of a field.
func Pad(text string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text))) + text
}

// Fill puts text at the left of a field.
func Fill(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// Figure writes a number with three digits that count.
func Figure(x float64) string {
	digits := 3
	switch size := math.Abs(x); {
	case size == 0 || size >= 99.95:
		digits = 0
	case size >= 9.995:
		digits = 1
	case size >= 0.9995:
		digits = 2
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}
