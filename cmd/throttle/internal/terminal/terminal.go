package terminal

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// onTerminal reports whether w is a terminal on which lines may be rewritten
// and coloured.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

func Colours(w io.Writer) bool { return onTerminal(w) }

// Progress returns a function that rewrites one line on a terminal, not
// too often, and removes it when given nothing. In a pipe it is silent.
func Progress(w io.Writer) func(text string) {
	if !onTerminal(w) {
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
