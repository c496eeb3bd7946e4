// Package terminal colours text and shows progress, on a terminal only.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"
)

// Is reports whether w is a terminal on which lines may be rewritten.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Colours reports whether w is a terminal on which text may be coloured.
func Colours(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && Is(w) }

// Width returns how many columns w has: $COLUMNS, if that is a number above
// zero, else those of the terminal that w is; zero if it is none.
func Width(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	columns, _ := size(w)
	return columns
}

// Height returns how many lines the terminal that w is has; zero if it is none.
func Height(w io.Writer) int {
	_, lines := size(w)
	return lines
}

func size(w io.Writer) (columns, lines int) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, lines
}

// cut is text without what is beyond so many columns, if there are any: a line
// that wraps could not be rewritten.
func cut(text string, columns int) string {
	if r := []rune(text); columns > 0 && len(r) > columns {
		return string(r[:columns])
	}
	return text
}

// Progress returns a function that rewrites one line on a terminal, not
// too often, and removes it when given nothing. In a pipe it is silent.
func Progress(w io.Writer) func(text string) {
	if !Is(w) {
		return func(string) {}
	}
	var last time.Time
	return func(text string) {
		if now := time.Now(); text == "" || now.Sub(last) >= 100*time.Millisecond {
			last = now
			fmt.Fprintf(w, "\r\x1b[K%s", cut(text, Width(w)-1))
		}
	}
}
