// Package terminal colours text and shows progress, on a terminal only.
package terminal

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Is reports whether w is a terminal on which lines may be rewritten
// and coloured.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
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
			fmt.Fprintf(w, "\r\x1b[K%s", text)
		}
	}
}
