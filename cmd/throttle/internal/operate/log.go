package operate

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// logPatience is how long the first who logs waits for a reader of the log that hangs.
	logPatience = 100 * time.Millisecond
	// lastWords bounds the wait for what is to be written at the end of the program.
	lastWords = time.Second
	// maxUnwritten bounds the lines that wait for the reader, in bytes.
	maxUnwritten = 1 << 20
)

// Log returns a Logger to the Handler that newHandler makes for a [LogWriter] to to. flush
// is the Flush of that.
func Log(to io.Writer, newHandler func(io.Writer) slog.Handler) (log *slog.Logger, flush func()) {
	own := slog.New(newHandler(to))
	w := &LogWriter{To: to, Left: func(lines int) { own.Warn("nobody read the log: lines are left out", "lines", lines) }}
	return slog.New(newHandler(w)), w.Flush
}

// LogWriter writes the lines of a log. A reader that hangs, as a collector whose pipe is
// full, holds up nobody: up to 1 MiB is kept meanwhile, and lines beyond are left out. While
// the log is read, a line is written before its Write returns. It is safe for concurrent
// use; the fields must not change after first use.
type LogWriter struct {
	// To is where lines are written, one Write for each.
	To io.Writer
	// Left, if not nil, is called when there is room again, with the number of lines that
	// were left out. It may write to To.
	Left func(lines int)

	mu    sync.Mutex // guards what follows
	lines [][]byte
	size  int           // of the lines, in bytes
	left  int           // lines that there was no room for
	hangs bool          // the reader does, as far as is known
	done  chan struct{} // closed when all is written; nil if nothing is to be
}

// Write keeps a line to be written, and waits a little for that, once for each time that
// the reader hangs.
func (w *LogWriter) Write(line []byte) (int, error) {
	if hangs := w.keep(line); !hangs {
		w.wait(logPatience)
	}
	return len(line), nil
}

// Flush waits for what is not written yet, a second at most. Call it at the end of the
// program.
func (w *LogWriter) Flush() { w.wait(lastWords) }

func (w *LogWriter) keep(line []byte) (hangs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.size+len(line) > maxUnwritten {
		w.left++
		return w.hangs
	}
	w.lines, w.size = append(w.lines, bytes.Clone(line)), w.size+len(line)
	if w.done == nil {
		w.done = make(chan struct{})
		go w.write() // until all is written
	}
	return w.hangs
}

// wait waits until all is written, or for d, after which the reader counts as hanging.
func (w *LogWriter) wait(d time.Duration) {
	w.mu.Lock()
	done := w.done
	w.mu.Unlock()
	if done == nil {
		return
	}
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		w.mu.Lock()
		w.hangs = w.done == done
		w.mu.Unlock()
	}
}

func (w *LogWriter) write() {
	for lines, left := w.take(); lines != nil; lines, left = w.take() {
		for _, line := range lines {
			_, _ = w.To.Write(line) // an error means that nobody reads it any more
		}
		if left > 0 && w.Left != nil {
			w.Left(left)
		}
	}
}

// take returns what is to be written now. Where that is nothing, all is written.
func (w *LogWriter) take() (lines [][]byte, left int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, left = w.lines, w.left
	w.lines, w.size, w.left = nil, 0, 0
	if lines == nil { // none is left out where there is room
		close(w.done)
		w.done, w.hangs = nil, false
	}
	return lines, left
}
