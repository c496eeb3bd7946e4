package demo

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// tolerance is how far live may be off what was predicted.
const tolerance = 0.2

// figure is a measure that live and simulation must agree in. floor is how far they may
// be apart in any case: a share of a figure near zero would be less than one request.
type figure struct {
	measure string
	floor   float64
}

var compared = []figure{
	{"retry_rate", 0.01},
	{"utilisation", 0},
	{"finish_s", 0},
}

// agrees reports whether live is within the tolerance of the predicted median,
// or of what the simulation had with some seed.
func agrees(live, predicted pace.Opt[sim.Stat], floor float64) bool {
	if !live.OK || !predicted.OK {
		return live.OK == predicted.OK
	}
	x, p := live.V.Median, predicted.V
	off := max(tolerance*p.Median, floor)
	return x >= min(p.Min, p.Median-off) && x <= max(p.Max, p.Median+off)
}

// disagreement is an error that names all figures that do not agree. It is no failure
// where the answers to each of these policies were late by tooLate or more: what was
// simulated is not what was live.
func disagreement(live, predicted []batch.Row, late []time.Duration, tooLate time.Duration) error {
	var apart []string
	least := time.Duration(math.MaxInt64) // of how late those were that are apart
	for i, row := range live {
		for _, c := range compared {
			m := measures.At(c.measure)
			if l, p := row.Summary.Stats[m], predicted[i].Summary.Stats[m]; !agrees(l, p, c.floor) {
				least = min(least, late[i])
				apart = append(apart, fmt.Sprintf("%s.%s is %s live, %s predicted", row.Policy, c.measure, table.CellOf(l, 1).Median, withRange(table.CellOf(p, 1))))
			}
		}
	}
	if len(apart) == 0 {
		return nil
	}
	text := fmt.Sprintf("live and predicted differ by more than %.0f %%: %s", tolerance*100, strings.Join(apart, "; "))
	if least >= tooLate {
		return exit.Assertion(fmt.Sprintf("this machine is too busy to compare, answers came %v late or later: %s", least.Round(time.Millisecond/10), text))
	}
	return exit.Failure(text)
}

// beside puts what was predicted beside what was seen: all figures in one table, or each
// in its own where that is wider than so many columns, if there are any.
func beside(live, predicted []batch.Row, seeds, columns int) string {
	all, marked := grid(live, predicted, compared)
	if columns > 0 && widest(all) > columns {
		var each []string
		for _, c := range compared {
			one, _ := grid(live, predicted, []figure{c})
			each = append(each, one)
		}
		all = strings.Join(each, "\n")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nbeside it what sim predicts: median (min–max) of %d seeds\n\n%s", seeds, all)
	if marked {
		fmt.Fprintf(&b, "\n! differs by more than %.0f %%\n", tolerance*100)
	} else {
		fmt.Fprintf(&b, "\nLive and predicted agree within %.0f %%; for what that means see 'throttle help demo'.\n", tolerance*100)
	}
	return b.String()
}

// grid is a table of figures; marked is whether one of them does not agree.
func grid(live, predicted []batch.Row, figures []figure) (text string, marked bool) {
	cells := [][]string{{"policy"}, {""}}
	for _, row := range live {
		cells = append(cells, []string{row.Policy})
	}
	for _, c := range figures {
		m := measures.At(c.measure)
		h := table.HeadingOf(c.measure)
		cells[0] = append(cells[0], h.Lines[0], strings.TrimSpace(h.Lines[1]))
		cells[1] = append(cells[1], "live ", "predicted")
		for i, row := range live {
			l, p := row.Summary.Stats[m], predicted[i].Summary.Stats[m]
			mark := " "
			if !agrees(l, p, c.floor) {
				mark, marked = "!", true
			}
			cells[i+2] = append(cells[i+2], table.CellOf(l, h.Scale).Median+mark, withRange(table.CellOf(p, h.Scale)))
		}
	}
	var b strings.Builder
	writeGrid(&b, cells)
	return b.String(), marked
}

// widest is the length of the longest line.
func widest(text string) (columns int) {
	for line := range strings.Lines(text) {
		columns = max(columns, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return columns
}

func withRange(c table.Cell) string {
	if c.Spread == "" {
		return c.Median
	}
	return c.Median + " (" + c.Spread + ")"
}

// writeGrid writes lines of cells in columns. The first column and each second
// one from there are at the left.
func writeGrid(b *strings.Builder, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		text := ""
		for i, cell := range line {
			if i%2 == 0 {
				text += table.Fill(cell, widths[i]) + "  "
			} else {
				text += table.Pad(cell, widths[i]) + " "
			}
		}
		table.WriteLine(b, text)
	}
}
