package accesslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	chunkSize = 128 << 10
	// MaxLine bounds the bytes of a line; a longer one is bad.
	MaxLine = 64 << 10
)

// Bad is a line that could not be read.
type Bad struct {
	// File and Line are its place; lines count from 1.
	File string
	Line int64
	// What is wrong with it.
	What string
}

// String returns FILE:LINE: and the mistake.
func (b *Bad) String() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.What) }

// chunk is some lines of a log, whole ones.
type chunk struct {
	text    string
	long    bool // it stands for a line that is too long
	err     error
	entries []Entry
	lines   int64
	seen    []bool // the sources of Fields
	bad     int64
	first   Bad // of the bad ones; its Line is within the chunk
	done    chan struct{}
	waiting int // entries that wait in their file
}

// readChunks cuts r into chunks until its end, or that of ctx. The error is in the last
// chunk.
func readChunks(ctx context.Context, r io.Reader, give func(*chunk) bool) {
	buffer := make([]byte, chunkSize)
	have := 0
	skip := false // the rest of a line that is too long
	for ctx.Err() == nil {
		n, err := io.ReadFull(r, buffer[have:])
		have += n
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && readToEnd(r)
		text := buffer[:have]
		if skip {
			end := bytes.IndexByte(text, '\n')
			if skip = end < 0; skip {
				end = have - 1
			}
			text = text[end+1:]
		}
		whole := bytes.LastIndexByte(text, '\n') + 1
		if ended {
			whole = len(text)
		}
		c := &chunk{text: string(text[:whole])}
		if err != nil && !ended {
			c.err = err
		}
		if len(text)-whole > MaxLine {
			c.long, skip, whole = true, true, len(text)
		}
		if !give(c) || ended || c.err != nil {
			return
		}
		have = copy(buffer, text[whole:])
	}
}

// readToEnd reports whether r was at its end: io.ReadFull says the same of an r that
// ends and of one that fails with io.ErrUnexpectedEOF, as of data that is cut off, and
// then fails again. What was written since is left out.
func readToEnd(r io.Reader) bool {
	_, err := r.Read(make([]byte, 1))
	return err == nil || errors.Is(err, io.EOF)
}

// parse reads the lines of a chunk.
func (c *chunk) parse(f *Format) {
	s := f.setter()
	c.entries = make([]Entry, 0, len(c.text)/128+1)
	rest := c.text
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		c.lines++
		line = strings.TrimSuffix(line, "\r")
		if line != "" {
			c.line(f, &s, line)
		}
	}
	if c.long {
		c.lines++
		c.fail(tooLong)
	}
	c.seen = s.seen
}

// line reads one line.
func (c *chunk) line(f *Format, s *setter, line string) {
	if len(line) > MaxLine {
		c.fail(tooLong)
		return
	}
	c.entries = append(c.entries, Entry{})
	e := &c.entries[len(c.entries)-1]
	what := f.parse(line, s, e)
	if what == "" && e.Time.IsZero() {
		what = "no time"
	}
	if what != "" {
		c.entries = c.entries[:len(c.entries)-1]
		c.fail(what)
	}
}

var tooLong = fmt.Sprintf("longer than %d KiB", MaxLine>>10)

func (c *chunk) fail(what string) {
	if c.bad++; c.bad == 1 {
		c.first = Bad{Line: c.lines, What: what}
	}
}
