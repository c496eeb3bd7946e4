package rules

import (
	"fmt"
	"strings"
)

// Error says what is wrong with a Set, in one line.
type Error struct {
	// Path is the place in the Set, as in "rules[2].limits[0]"; empty for the
	// whole.
	Path string
	// Line and Column are the place in the text, from 1; a column is a
	// character. Zero if the Set was not read from text, or its [Node] has no
	// place.
	Line, Column int
	// What states the mistake, and a correct form.
	What string
}

// Error returns the text "rules: LINE:COLUMN: PATH: " and What.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("rules: ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", e.Line, e.Column)
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.What)
	return oneLine(b.String())
}

// oneLine returns text without line breaks.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '\u007f' || r == '\u2028' || r == '\u2029' || r == '\u0085' {
			return ' '
		}
		return r
	}, text)
}
