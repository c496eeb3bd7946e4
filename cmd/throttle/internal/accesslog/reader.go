package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Options say how logs are read.
type Options struct {
	// Format is the format of all logs, see Formats. If empty, that of each is detected
	// from its first lines.
	Format string
	// Fields are names of fields beyond the usual.
	Fields Fields
	// Bad is the share of lines that may be malformed. If zero, none.
	Bad float64
	// Window is how much later a line may stand than one with a later time. Lines that
	// are out of order by more come late. At most 20,000 lines
	// wait, of at most 64 MiB of the logs, of each log an equal share; beyond, the earliest
	// is given. If zero, none do.
	Window time.Duration
}

// MostFiles bounds the logs of a Reader.
const MostFiles = 32

// Reader reads logs as one, in the order of the times. It is not safe for concurrent
// use.
type Reader struct {
	options Options
	files   []*file
	heads   []head // a heap
	started bool
	cancel  context.CancelFunc
	running sync.WaitGroup
	work    chan job

	lines, bad int64
	first      Bad
}

// head is the next entry of a file.
type head struct {
	entry *Entry
	file  *file
	at    int // of the file among all
}

// job is a chunk to be parsed.
type job struct {
	chunk  *chunk
	format *Format
}

// Open opens logs; - is stdin. An empty one among several is skipped. Close must be
// called. The errors of Open and Next are one line, with the file and, where there is
// one, the line.
func Open(ctx context.Context, names []string, stdin io.Reader, o Options) (*Reader, error) {
	if len(names) > MostFiles {
		return nil, fmt.Errorf("%d files; at most %d at once: write 'cat FILE... | throttle replay ... -' if they follow each other", len(names), MostFiles)
	}
	r := &Reader{options: o, work: make(chan job)}
	var empty error
	for _, name := range names {
		f, err := open(name, o.Format, o.Fields, stdin)
		if errors.Is(err, errEmpty) {
			empty = err
			continue
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		f.window = o.Window
		f.ordered = make(chan *chunk, max(aheadChunks/len(names), 1))
		f.most, f.mostBytes = mostWaiting/len(names), mostWaitingBytes/len(names)
		r.files = append(r.files, f)
	}
	if len(r.files) == 0 {
		return nil, empty
	}
	r.begin(ctx)
	return r, nil
}

// begin starts what reads and parses, until Close or the end of ctx.
func (r *Reader) begin(ctx context.Context) {
	ctx, r.cancel = context.WithCancel(ctx)
	for range min(max(runtime.GOMAXPROCS(0), 1), 8) {
		r.running.Go(func() {
			for {
				select {
				case j := <-r.work:
					j.chunk.parse(j.format)
					close(j.chunk.done)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for _, f := range r.files {
		if f.name == "-" { // a Read that is given up keeps its goroutine until the process ends
			go f.read(ctx, r.work)
			continue
		}
		r.running.Go(func() { f.read(ctx, r.work) })
	}
}

// Close ends all reading. Next must not be called after it.
func (r *Reader) Close() (err error) {
	if r.cancel != nil {
		r.cancel()
	}
	for _, f := range r.files {
		err = errors.Join(err, f.close())
	}
	r.running.Wait()
	return err
}

// Next returns the next request, and nil after the last; and the format of its log.
func (r *Reader) Next(ctx context.Context) (*Entry, *Format, error) {
	if !r.started {
		r.started = true
		for i, f := range r.files {
			e, err := f.pull(ctx, r)
			if err != nil {
				return nil, nil, err
			}
			if e != nil {
				r.heads = append(r.heads, head{e, f, i})
			}
		}
		for i := len(r.heads)/2 - 1; i >= 0; i-- {
			r.sink(i)
		}
	} else if err := r.refill(ctx); err != nil {
		return nil, nil, err
	}
	if len(r.heads) == 0 {
		return nil, nil, r.end()
	}
	return r.heads[0].entry, r.heads[0].file.format, nil
}

// refill takes the next entry of the file whose entry was given last.
func (r *Reader) refill(ctx context.Context) error {
	if len(r.heads) == 0 {
		return nil
	}
	e, err := r.heads[0].file.pull(ctx, r)
	if err != nil {
		return err
	}
	if r.heads[0].entry = e; e == nil {
		last := len(r.heads) - 1
		r.heads[0] = r.heads[last]
		r.heads = r.heads[:last]
	}
	r.sink(0)
	return nil
}

// sink puts a head in its place.
func (r *Reader) sink(i int) {
	for {
		least := i
		for _, j := range [...]int{2*i + 1, 2*i + 2} {
			if j < len(r.heads) && r.heads[j].before(&r.heads[least]) {
				least = j
			}
		}
		if least == i {
			return
		}
		r.heads[i], r.heads[least] = r.heads[least], r.heads[i]
		i = least
	}
}

func (h *head) before(o *head) bool {
	if h.entry.Time.Equal(o.entry.Time) {
		return h.at < o.at
	}
	return h.entry.Time.Before(o.entry.Time)
}

// fail counts bad lines; the error says that they are too many.
func (r *Reader) fail(first Bad, n int64, format string) error {
	if r.bad == 0 {
		r.first = first
		r.first.What = "as format " + format + ": " + first.What
	}
	r.bad += n
	if r.bad > 1000 && float64(r.bad) > max(2*r.options.Bad, 0.1)*float64(r.lines) {
		return r.tooMany()
	}
	return nil
}

func (r *Reader) tooMany() error {
	return fmt.Errorf("%s; %d of %d lines are bad, and at most %g%% may be; name the format by -format", r.first.String(), r.bad, r.lines, 100*r.options.Bad)
}

// end checks all that was read.
func (r *Reader) end() error {
	switch {
	case float64(r.bad) > r.options.Bad*float64(r.lines):
		return r.tooMany()
	case r.lines == r.bad:
		return fmt.Errorf("%s: no request", r.files[0].name)
	}
	return nil
}

// Stats say what was read so far.
type Stats struct {
	// Lines counts all lines, Bad the malformed ones, of which First is the first.
	Lines, Bad int64
	First      Bad
	// Formats are those of the logs, each once.
	Formats []string
	// Missing are the sources of Options.Fields that no line of JSON had as a text or a
	// number; in other formats that is an error.
	Missing []string
	// Waiting and WaitingBytes are how many lines of each log may wait for earlier ones.
	Waiting, WaitingBytes int
}

// Stats returns what was read so far.
func (r *Reader) Stats() Stats {
	s := Stats{Lines: r.lines, Bad: r.bad, First: r.first, Missing: r.missing(), Waiting: r.files[0].most, WaitingBytes: r.files[0].mostBytes}
	seen := map[string]bool{}
	for _, f := range r.files {
		if !seen[f.format.Name] {
			seen[f.format.Name] = true
			s.Formats = append(s.Formats, f.format.Name)
		}
	}
	return s
}

func (r *Reader) missing() (all []string) {
	for i, g := range r.options.Fields {
		had := func(f *file) bool { return f.format.marked == 0 || f.seen[i] }
		if !slices.ContainsFunc(r.files, had) && !slices.Contains(all, g.Source) {
			all = append(all, g.Source)
		}
	}
	return all
}
