package scoreboard

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/table"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// Write writes the scoreboard for a terminal of 120 columns.
func Write(w io.Writer, results []batch.Result, seeds int, colour bool) error {
	var b strings.Builder
	of, cut := legend(results, seeds)
	fmt.Fprintf(&b, "median and worst of %s; * the best median", of)
	if cut {
		fmt.Fprintf(&b, "\n† stopped at %s requests, measured up to there, and never the best", words.Whole(MaxSent))
	}
	b.WriteByte('\n')
	for _, r := range results {
		if len(r.Rows) > 0 {
			sectionOf(r).write(&b, colour)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// legend says which seeds the figures are from, and whether any run was
// stopped.
func legend(results []batch.Result, seeds int) (of string, cut bool) {
	first, fewer := uint64(0), false
	for _, r := range results {
		_, n := Plan(r.Scenario, r.Policies, seeds)
		first, fewer = r.Seed, fewer || n < seeds
		for _, row := range r.Rows {
			cut = cut || row.Summary.Cut > 0
		}
	}
	of = fmt.Sprintf("seed %d", first)
	if seeds > 1 {
		of = fmt.Sprintf("seeds %d to %d", first, first+uint64(seeds)-1)
	}
	if fewer {
		of += fmt.Sprintf(" (the first %d with %s workers or more)", fewSeeds, words.Whole(manyWorkers))
	}
	return of, cut
}

func (s section) write(b *strings.Builder, colour bool) {
	fmt.Fprintf(b, "\n%s: %s\n", s.name, s.gist)
	left := 0
	for _, label := range s.rows {
		left = max(left, utf8.RuneCountInString(label))
	}
	widths := make([][2]int, len(s.columns))
	head := table.Fill("", left)
	for i, c := range s.columns {
		widths[i] = c.widths()
		head += " " + table.Pad(c.name, widths[i][0]+2+widths[i][1])
	}
	table.WriteLine(b, head)
	for row, label := range s.rows {
		line := table.Fill(label, left)
		for i, c := range s.columns {
			line += " " + c.cells[row].text(widths[i], colour)
		}
		table.WriteLine(b, line)
	}
}

// widths are those of medians and worsts, which fill the width of the name.
func (c column) widths() (w [2]int) {
	w[0] = 6
	for _, cell := range c.cells {
		w[0], w[1] = max(w[0], len(cell.median)), max(w[1], len(cell.worst))
	}
	w[1] = max(w[1], utf8.RuneCountInString(c.name)-w[0]-2)
	return w
}

// text is the median, its mark and the worst.
func (c cell) text(w [2]int, colour bool) string {
	text := table.Pad(c.median, w[0])
	switch {
	case c.best && colour:
		text = "\x1b[32m" + text + "*\x1b[0m"
	case c.best:
		text += "*"
	default:
		text += " "
	}
	return text + " " + table.Pad(c.worst, w[1])
}

// Title is the first line of what WriteMarkdown writes.
const Title = "# Scoreboard"

const head = Title + `

How retry policies, rate limiters and concurrency limits of callers do in every
scenario. Written by

` + "```\n%s\n```" + `

A row is a policy; a cell is the median / the worst of
%s.
The best median is **bold**.
%s
[The simulator](simulator.md) explains the scenarios and measures. In short:
*retry %%* is throttled / sent; *max sleep* the longest time from wanting to send
to sending; *stdev* the standard deviation of the requests of the workers; *jain*
the fairness between processes; *utilisation* served / available, also to callers
that had given up; *served per s* those whose answers were awaited; *finish* when
the work was done or the stop came; *reconverge* the longest time from a change
of capacity to its use; *share* the clients' share of all served requests. Where
all clients have a policy of their own, a row is a group of clients, as processes
× workers.
`

// WriteFile writes a file by WriteMarkdown.
func WriteFile(path, command string, results []batch.Result, seeds int) error {
	return outfile.Write(path, func(w io.Writer) error { return WriteMarkdown(w, command, results, seeds) })
}

// WriteMarkdown writes the scoreboard as Markdown, with the command that made
// it.
func WriteMarkdown(w io.Writer, command string, results []batch.Result, seeds int) error {
	var b strings.Builder
	of, cut := legend(results, seeds)
	mark := ""
	if cut {
		mark = fmt.Sprintf("\n† Runs were stopped at %s requests. The figures are up to there, and not\ncompared with those of whole runs.\n", words.Whole(MaxSent))
	}
	fmt.Fprintf(&b, head, command, of, mark)
	for _, r := range results {
		sectionOf(r).markdown(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s section) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n|", s.name, s.gist)
	for _, c := range s.columns {
		fmt.Fprintf(b, " | %s", c.name)
	}
	b.WriteString(" |\n|---" + strings.Repeat("|--:", len(s.columns)) + "|\n")
	for row, label := range s.rows {
		fmt.Fprintf(b, "| %s", label)
		for _, c := range s.columns {
			cell := c.cells[row]
			if cell.best {
				cell.median = "**" + cell.median + "**"
			}
			fmt.Fprintf(b, " | %s / %s", cell.median, cell.worst)
		}
		b.WriteString(" |\n")
	}
}
