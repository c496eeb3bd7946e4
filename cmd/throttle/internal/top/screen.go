package top

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/throttle-go/throttle/cmd/throttle/internal/terminal"
	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// step is the seconds of one column of a chart.
const step = 15

// status is what is shown of the status of a listener.
type status struct{ Instance, Build string }

// screen is what is shown.
type screen struct {
	to     io.Writer
	width  int
	height int // zero: any
	status status
	rules  []string
	ticks  []ticks.Tick
	say    string // what is wrong
	lines  int    // that stand on the terminal
}

func (s *screen) add(t ticks.Tick) {
	if n := len(s.ticks); n > 0 && t.ID <= s.ticks[n-1].ID {
		return
	}
	s.ticks = append(s.ticks, t)
	s.ticks = s.ticks[max(len(s.ticks)-ticks.Kept, 0):]
}

// once writes the lines, however long they are.
func (s *screen) once() error {
	s.width = math.MaxInt
	_, err := io.WriteString(s.to, strings.Join(s.text(), "\n")+"\n")
	return err
}

// draw rewrites the lines, as far as they fit: those above the terminal are out of
// reach.
func (s *screen) draw() error {
	s.width, s.height = cmp.Or(terminal.Width(s.to), s.width), cmp.Or(terminal.Height(s.to), s.height)
	var b strings.Builder
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.lines)
	}
	all := s.text()
	if s.say != "" {
		all = append(all, s.say)
	}
	if over := len(all) - (s.height - 1); s.height > 1 && over > 0 {
		all = append(all[:s.height-2], fmt.Sprintf("%d lines more, on a higher terminal", over+1))
	}
	for _, line := range all {
		if r := []rune(line); len(r) > s.width-1 {
			line = string(r[:s.width-1])
		}
		b.WriteString("\x1b[K" + line + "\n")
	}
	b.WriteString("\x1b[J")
	s.lines = len(all)
	_, err := io.WriteString(s.to, b.String())
	return err
}

// row is a line: a name, a chart and the figures of the last second.
type row struct{ name, chart, figures string }

// text is the lines: state, decisions, latency, and each rule.
func (s *screen) text() []string {
	if len(s.ticks) == 0 {
		return []string{s.status.Instance + ": the first second is being measured"}
	}
	t := s.ticks[len(s.ticks)-1]
	state := ""
	if t.Kill {
		state = "KILL SWITCH ON  "
	}
	if t.Draining {
		state += "draining  "
	}
	passed, refused, _ := t.PerSecond("")
	rows := []row{
		{"decisions", s.chart(false, sum("")), fmt.Sprintf("%s passed/s  %s refused/s", ticks.Rate(passed), ticks.Rate(refused))},
		{"added latency, p99", s.chart(true, p99), fmt.Sprintf("p50 %s  p99 %s", ticks.Seconds(t.P50), ticks.Seconds(t.P99))},
	}
	for _, name := range s.rules {
		passed, refused, shadow := t.PerSecond(name)
		rows = append(rows, row{name, s.chart(false, sum(name)), fmt.Sprintf("%s passed/s  %s over/s  %s shadow/s", ticks.Rate(passed), ticks.Rate(refused), ticks.Rate(shadow))})
	}
	first := fmt.Sprintf("%s%s  rules %s, confirmed %.0f s ago  store %s, %s without it", state, s.status.Instance, t.Version, t.Age, t.Store, words.Whole(t.Fallback))
	return append([]string{first}, lay(rows, s.width-1)...)
}

// Columns of a row.
const (
	nameColumns  = 20
	leastColumns = 8 // of a name
)

// lay makes lines of rows, of so many columns. Where there are too few the beginning of the
// charts goes first, then the ends of the names.
func lay(rows []row, columns int) (lines []string) {
	figures := 0
	for _, r := range rows {
		figures = max(figures, utf8.RuneCountInString(r.figures))
	}
	name, left := nameColumns, columns-nameColumns-figures-len("   ")
	if left <= 0 { // no chart, and no spaces around it
		name, left = max(nameColumns+min(left+len("  "), 0), leastColumns), 0
	}
	for _, r := range rows {
		chart := []rune(r.chart)
		if chart = chart[max(len(chart)-left, 0):]; len(chart) > 0 {
			r.figures = string(chart) + "  " + r.figures
		}
		lines = append(lines, fmt.Sprintf("%-*.*s %s", name, name, r.name, r.figures))
	}
	return lines
}

// sum is all decisions of a rule by the second.
func sum(rule string) func(*ticks.Tick) float64 {
	return func(t *ticks.Tick) float64 {
		passed, refused, _ := t.PerSecond(rule)
		return passed + refused
	}
}

func p99(t *ticks.Tick) float64 {
	if t.P99 == nil {
		return math.NaN()
	}
	return *t.P99
}

// chart draws the last ten minutes in a column for each step, a blank where nothing
// was measured.
func (s *screen) chart(largest bool, value func(*ticks.Tick) float64) string {
	slots := ticks.Slots(s.ticks, s.ticks[len(s.ticks)-1].ID, step, largest, value)
	top := 0.0
	for _, v := range slots {
		if v > top {
			top = v
		}
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range slots {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case top == 0:
			b.WriteRune(bars[0])
		default:
			b.WriteRune(bars[min(int(v/top*float64(len(bars))), len(bars)-1)])
		}
	}
	return b.String()
}
