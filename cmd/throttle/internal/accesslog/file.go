package accesslog

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
)

// headSize is how much of a log is looked at to detect its format.
const headSize = 64 << 10

// file is one log, whose entries come in the order of their times.
type file struct {
	name   string
	format *Format
	source io.Reader
	close  func() error

	ordered chan *chunk // in the order of the log

	current *chunk // of which entries are taken
	at      int
	lines   int64  // before current
	seen    []bool // the sources of Fields, up to current
	ended   bool

	window    time.Duration
	most      int      // that wait
	mostBytes int      // of the chunks of which lines wait
	waiting   []waiter // in the order of their times
	bytes     int      // of their chunks
	latest    time.Time
}

// waiter is an entry that waits, and keeps its chunk in memory.
type waiter struct {
	*Entry
	chunk *chunk
}

// aheadChunks is how many chunks of all files are read ahead, at least one of each.
const aheadChunks = 4

// open opens a log. Its format is detected from its first lines if name is empty.
func open(name, format string, given Fields, stdin io.Reader) (*file, error) {
	f := &file{name: name, close: func() error { return nil }}
	source := stdin
	if name != "-" {
		opened, err := infile.Open(name)
		if err != nil {
			return nil, err
		}
		f.close = opened.Close
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return nil, errors.Join(fmt.Errorf("%s: is a directory; name its files", name), f.close())
		}
		source = opened
	}
	if err := f.begin(source, format, given); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// begin looks at what the log is.
func (f *file) begin(source io.Reader, format string, given Fields) error {
	r, err := unpacked(source)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	head, err := r.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.source = r
	if len(strings.TrimSpace(string(head))) == 0 && err != nil {
		return fmt.Errorf("%s: %w", f.name, errEmpty)
	}
	text := strings.TrimLeft(string(head), "\r\n")
	blank := len(head) - len(text)
	before := int64(strings.Count(string(head[:blank]), "\n"))
	first, _, more := strings.Cut(text, "\n")
	whole := more || err != nil
	if f.format, err = formatOf(format, given, text); err != nil {
		return fmt.Errorf("%s:%d: %w; the line is %s", f.name, before+1, err, quoted(strings.TrimSpace(first)))
	}
	f.seen = make([]bool, f.format.marked)
	switch {
	case !f.format.header:
		return nil
	case !whole:
		return fmt.Errorf("%s: no line of names within the first %d KiB", f.name, headSize>>10)
	case !more:
		return fmt.Errorf("%s: only a line of names", f.name)
	}
	f.lines = before + 1
	_, err = r.Discard(blank + len(first) + 1)
	return err
}

// unpacked returns the text of a log, of gzip what is in it.
func unpacked(source io.Reader) (*bufio.Reader, error) {
	r := bufio.NewReaderSize(source, headSize)
	magic, err := r.Peek(4)
	if len(magic) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, c := range compressions {
		if strings.HasPrefix(string(magic), c.magic) {
			return nil, fmt.Errorf("compressed by %s; write '%s -dc FILE | throttle replay ... -'", c.name, c.name)
		}
	}
	if strings.HasPrefix(string(magic), "\x1f\x8b") {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, unzipError(err)
		}
		z.Multistream(false)
		r = bufio.NewReaderSize(&unzipped{z, r}, headSize)
	}
	if mark, _ := r.Peek(3); string(mark) == "\ufeff" {
		_, _ = r.Discard(3) // which is there
	}
	return r, nil
}

// unzipped reads what several members of gzip hold, up to their end or to zeros that fill
// up the block of a tape. Its errors say what to do about a file that is cut off or mixed.
type unzipped struct {
	z *gzip.Reader
	r *bufio.Reader // what z reads
}

func (u *unzipped) Read(b []byte) (int, error) {
	for {
		n, err := u.z.Read(b)
		if errors.Is(err, io.EOF) {
			err = u.another()
		}
		if n > 0 || err != nil {
			return n, unzipError(err)
		}
	}
}

// another goes on to the next member; io.EOF if there is none.
func (u *unzipped) another() error {
	for {
		c, err := u.r.ReadByte()
		switch {
		case err != nil:
			return err
		case c == 0:
		case c != '\x1f': // with which a member begins
			return errBehind
		default:
			_ = u.r.UnreadByte() // it was just read
			err := u.z.Reset(u.r)
			u.z.Multistream(false)
			if errors.Is(err, gzip.ErrHeader) {
				return errBehind
			}
			return err
		}
	}
}

func unzipError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the gzip data is cut off; write 'gzip -dc FILE | throttle replay ... -' to read what is there")
	}
	return err
}

var errBehind = errors.New("behind the gzip data stands something else; write 'gzip -dc FILE | throttle replay ... -' to leave it out")

var errEmpty = errors.New("is empty; there is no request to replay")

var compressions = []struct{ name, magic string }{
	{"zstd", "\x28\xb5\x2f\xfd"}, {"bzip2", "BZh"}, {"xz", "\xfd7zX"}, {"lz4", "\x04\x22\x4d\x18"},
}

// read reads the log into chunks, which others parse.
func (f *file) read(ctx context.Context, work chan<- job) {
	defer close(f.ordered)
	readChunks(ctx, f.source, func(c *chunk) bool {
		c.done = make(chan struct{})
		select {
		case f.ordered <- c:
		case <-ctx.Done():
			return false
		}
		select {
		case work <- job{c, f.format}:
			return true
		case <-ctx.Done():
			return false
		}
	})
}

// next returns the next entry in the order of the log; nil at its end.
func (f *file) next(ctx context.Context, r *Reader) (*Entry, error) {
	for !f.ended {
		if c := f.current; c != nil && f.at < len(c.entries) {
			f.at++
			return &c.entries[f.at-1], nil
		}
		if err := f.turn(ctx, r); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// turn goes on to the next chunk.
func (f *file) turn(ctx context.Context, r *Reader) error {
	if f.current != nil {
		f.lines += f.current.lines
	}
	f.at = 0
	f.current = f.parsed(ctx)
	c := f.current
	if c == nil {
		f.ended = true
		return ctx.Err()
	}
	r.lines += c.lines
	for i, seen := range c.seen {
		f.seen[i] = f.seen[i] || seen
	}
	if c.bad > 0 {
		bad := c.first
		bad.File, bad.Line = f.name, bad.Line+f.lines
		if err := r.fail(bad, c.bad, f.format.Name); err != nil {
			return err
		}
	}
	if c.err != nil {
		return fmt.Errorf("%s:%d: %w", f.name, f.lines+c.lines+1, c.err)
	}
	return nil
}

// parsed waits for the next chunk; nil at the end of the log or of ctx.
func (f *file) parsed(ctx context.Context) (c *chunk) {
	select {
	case c = <-f.ordered:
	case <-ctx.Done():
	}
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return c
	case <-ctx.Done():
		return nil
	}
}

const (
	// mostWaiting bounds the entries of all files that wait for earlier ones.
	mostWaiting = 20_000
	// mostWaitingBytes bounds the text that they keep in memory. An entry keeps its
	// chunk, so it is that of whole chunks.
	mostWaitingBytes = 64 << 20
)

// pull returns the earliest entry that no later line of the log can precede, or that
// can wait no longer.
func (f *file) pull(ctx context.Context, r *Reader) (*Entry, error) {
	for {
		n := len(f.waiting)
		if n > 0 && (f.ended || f.window <= 0 || n >= f.most || f.bytes > f.mostBytes || f.latest.Sub(f.waiting[0].Time) > f.window) {
			return f.first(), nil
		}
		if f.ended {
			return nil, nil
		}
		e, err := f.next(ctx, r)
		if err != nil {
			return nil, err
		}
		if e != nil {
			f.wait(e)
		}
	}
}

// first takes the first entry that waits.
func (f *file) first() *Entry {
	w := f.waiting[0]
	f.waiting[0] = waiter{} // or it is kept in memory
	f.waiting = f.waiting[1:]
	if w.chunk.waiting--; w.chunk.waiting == 0 {
		f.bytes -= len(w.chunk.text)
	}
	return w.Entry
}

// wait puts an entry of the current chunk behind those that are not later.
func (f *file) wait(entry *Entry) {
	e := waiter{entry, f.current}
	if e.chunk.waiting++; e.chunk.waiting == 1 {
		f.bytes += len(e.chunk.text)
	}
	if !e.Time.Before(f.latest) {
		f.latest = e.Time
		f.waiting = append(f.waiting, e)
		return
	}
	at, _ := slices.BinarySearchFunc(f.waiting, e, func(a, b waiter) int {
		if a.Time.After(b.Time) {
			return 1
		}
		return -1 // of equal times, the new one comes last
	})
	f.waiting = slices.Insert(f.waiting, at, e)
}
