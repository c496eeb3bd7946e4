package bench

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// tables returns what was measured as Markdown.
func (r results) tables() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d processors, %s. Medians of %d samples of %v in turn, in ns for each decision.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.GOMAXPROCS(0), runtime.Version(), rounds, sample)
	b.WriteString(r.promises())
	b.WriteString("\n" + r.times())
	b.WriteString("\n" + r.memory())
	return b.String()
}

// promises returns the table of the ratios that are promised.
func (r results) promises() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| keys | drawn | they | of | fastest other, 1 goroutine | `Take` | `Allow` | fastest other, 2 goroutines | `Take` | `Allow` |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range r.cells() {
		if c.debt == spent {
			continue
		}
		fmt.Fprintf(&b, "| %v", c)
		for w, most := range ceilings {
			name, f := r.fastest(c, w)
			fmt.Fprintf(&b, " | %s, %.0f", name, f.ns[w])
			for _, own := range []string{takeName, storeAllowName} {
				x, mark := r.ratio(c, own, w), ""
				if x > most {
					mark = " **above**"
				}
				fmt.Fprintf(&b, " | %.2f%s", x, mark)
			}
		}
		b.WriteString(" |\n")
	}
	fmt.Fprintf(&b, "| wanted at most | | | | | %[1]g | %[1]g | | %[2]g | %[2]g |\n", ceilings[0], ceilings[1])
	return b.String()
}

// times returns a table for each number of keys: a line for each limiter, and a
// column for each cell, with one goroutine and two.
func (r results) times() string {
	var b strings.Builder
	for _, keys := range []int{1, 1000, manyKeys} {
		for _, long := range []bool{false, true} {
			var columns []cell
			for _, c := range r.cells() {
				if c.keys == keys && c.long == long {
					columns = append(columns, c)
				}
			}
			if len(columns) > 0 {
				b.WriteString(r.columns(columns) + "\n")
			}
		}
	}
	return b.String()
}

func (r results) columns(columns []cell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s", keyCount(columns[0]))
	for _, c := range columns {
		how := ""
		if c.zipf {
			how = "Zipf, "
		}
		fmt.Fprintf(&b, " | %s%s: 1 | 2", how, c.debt)
	}
	b.WriteString(" |\n" + strings.Repeat("|---", 1+widths*len(columns)) + "|\n")
	for _, p := range limiterPeers {
		line, any := "| "+p.name+" |", false
		for _, c := range columns {
			f, measured := r[c][p.name]
			for w := range widths {
				switch {
				case !measured:
					line += " – |"
				case f.isWrong():
					line += fmt.Sprintf(" %.0f %% wrong |", 100*f.wrong)
				default:
					line += fmt.Sprintf(" %.0f |", f.ns[w])
				}
			}
			any = any || measured
		}
		if any {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func keyCount(c cell) string {
	s := grouped(c.keys) + " keys"
	if c.keys == 1 {
		s = "1 key"
	}
	if c.long {
		s += " of 200 bytes"
	}
	return s
}
