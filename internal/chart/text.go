package chart

import (
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// marks are what series without a Mark are drawn with, in turn.
var marks = []rune("*o+x#@%&")

func (c Chart) mark(i int) rune {
	if m := c.Series[i].Mark; m != 0 && string(m) == clean(string(m)) {
		return m
	}
	return marks[i%len(marks)]
}

// Text writes c in characters, one column for each; the area of the lines has
// the given width and height, zero or below being 72 and 16, and at most 1000.
// A column shows all values, from the lowest to the highest, that the line
// passes there. The error is that of w, or of points that are not well-formed,
// before anything is written.
func (c Chart) Text(w io.Writer, width, height int) error {
	if err := c.check(); err != nil {
		return err
	}
	width, height = extent(width, 72), extent(height, 16)
	var lines []string
	if c.Title != "" {
		lines = append(lines, clean(c.Title))
	}
	b, ok := c.bounds()
	if !ok {
		lines = append(lines, "(nothing to draw)")
	} else {
		lines = append(lines, c.drawText(b, width, height)...)
	}
	lines = append(lines, c.legend(width)...)
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(strings.TrimRight(line, " "))
		out.WriteByte('\n')
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// extent is n, or what stands for zero, within what is sensible.
func extent(n, otherwise int) int {
	if n <= 0 {
		return otherwise
	}
	return min(max(n, 2), 1000)
}

// drawText is the area with its axes.
func (c Chart) drawText(b box, width, height int) (lines []string) {
	x0, x1 := widenX(b.x0, b.x1)
	y0, y1 := widen(b.y0, b.y1)
	x, y := inside(x0, x1, max(width/12, 1)), around(y0, y1, max(height/4, 1))
	labels, margin := y.rows(height)
	if c.Y != "" {
		lines = append(lines, strings.Repeat(" ", margin)+" "+clean(c.Y))
	}
	for i, row := range c.cells(x, y, width, height) {
		edge := " │"
		if labels[i] != "" {
			edge = " ┤"
		}
		lines = append(lines, pad(labels[i], margin)+edge+string(row))
	}
	axis, under := x.under(width)
	indent := strings.Repeat(" ", margin+1)
	return append(lines, indent+"└"+axis, indent+" "+under+"  "+clean(c.X))
}

// widenX is the range of X to be shown, which need not reach to zero.
func widenX(lo, hi float64) (float64, float64) {
	if hi-lo <= 1e-9*max(math.Abs(lo), math.Abs(hi)) {
		return widen(lo, hi)
	}
	return lo, hi
}

// rows are the labels of each row, and the width of the widest.
func (s scale) rows(height int) (labels []string, margin int) {
	labels = make([]string, height)
	for i := s.first; i <= s.last; i++ {
		row := height - 1 - cell(s.place(s.tick(i)), height)
		labels[row] = s.label(i)
		margin = max(margin, len(labels[row]))
	}
	return labels, margin
}

// cell is which of n cells a place between 0 and 1 falls into.
func cell(place float64, n int) int {
	return min(max(int(math.Round(place*float64(n-1))), 0), n-1)
}

// cells are the rows of the area, from above.
func (c Chart) cells(x, y scale, width, height int) [][]rune {
	rows := make([][]rune, height)
	for i := range rows {
		rows[i] = []rune(strings.Repeat(" ", width))
	}
	for i := len(c.Series) - 1; i >= 0; i-- { // earlier ones over later ones
		for _, line := range c.Series[i].lines(x, y, float64(width-1), float64(height-1)) {
			for col, r := range reach(line, width) {
				for row := cellOf(r.high, height); r.seen && row <= cellOf(r.low, height); row++ {
					rows[row][col] = c.mark(i)
				}
			}
		}
	}
	return rows
}

func cellOf(at float64, n int) int { return min(max(int(math.Round(at)), 0), n-1) }

// extremes is what a line reaches within a column; the y of high is the
// smaller, for y points down.
type extremes struct {
	seen      bool
	high, low float64
}

func (e *extremes) add(y float64) {
	if !e.seen {
		*e = extremes{true, y, y}
	}
	e.high, e.low = min(e.high, y), max(e.low, y)
}

// reach is what a line reaches in each of the columns, the ends of its segments
// and where they pass from one column to the next included.
func reach(line []point, width int) []extremes {
	columns := make([]extremes, width)
	columns[cellOf(line[0].x, width)].add(line[0].y)
	for i, to := range line[1:] {
		from := line[i]
		first, last := cellOf(from.x, width), cellOf(to.x, width)
		for col := first; col <= last; col++ {
			columns[col].add(along(from, to, max(float64(col)-0.5, from.x)))
			columns[col].add(along(from, to, min(float64(col)+0.5, to.x)))
		}
	}
	return columns
}

// along is the y at x of the segment between two points.
func along(from, to point, x float64) float64 {
	if to.x == from.x {
		return to.y
	}
	return from.y + float64((to.y-from.y)*((x-from.x)/(to.x-from.x)))
}

// under is the axis below the area, and the line of labels below that.
func (s scale) under(width int) (axis, labels string) {
	line, text := []rune(strings.Repeat("─", width)), []rune{}
	for i := s.first; i <= s.last; i++ {
		col, label := cell(s.place(s.tick(i)), width), s.label(i)
		line[col] = '┬'
		at := max(col-len(label)/2, 0)
		if len(text) > 0 && at < len(text)+1 {
			continue // no room for this one
		}
		text = append(text, []rune(strings.Repeat(" ", at-len(text))+label)...)
	}
	return string(line), string(text)
}

// legend names the series, in as few lines as fit into the width.
func (c Chart) legend(width int) (lines []string) {
	line := ""
	for i, s := range c.Series {
		entry := "  " + string(c.mark(i)) + " " + clean(s.Name)
		if line != "" && utf8.RuneCountInString(line+entry) > width {
			lines, line = append(lines, line), ""
		}
		line += entry
	}
	if line == "" {
		return lines
	}
	return append(lines, line)
}

// pad is text moved to the right end of width columns.
func pad(text string, width int) string {
	return strings.Repeat(" ", width-utf8.RuneCountInString(text)) + text
}
