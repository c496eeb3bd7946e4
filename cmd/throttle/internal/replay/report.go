package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/accesslog"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outcome"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/suggest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// report is version 1 of the form that -json prints. Fields may be added to it; those
// that are there stay.
type report struct {
	Version int      `json:"version"`
	Logs    []string `json:"logs"`
	Formats []string `json:"formats"`
	Lines   int64    `json:"lines"`
	Bad     int64    `json:"bad"`
	// FirstBad is the first line that could not be read.
	FirstBad  string            `json:"first_bad,omitempty"`
	Requests  int64             `json:"requests"`
	From      time.Time         `json:"from"`
	To        time.Time         `json:"to"`
	Throttled int64             `json:"throttled"` // answered with 429 in the log
	Notes     []string          `json:"notes,omitempty"`
	Labels    []string          `json:"labels,omitempty"` // of the sides of Replay
	Replay    *outcome.Result   `json:"replay,omitempty"`
	Proposal  *suggest.Proposal `json:"proposal,omitempty"`

	nothing string // is why there is nothing to propose
}

// write writes all that came out.
func (w *work) write(stdout io.Writer, s accesslog.Stats) error {
	r := w.report(s)
	if err := w.files(stdout, r); err != nil {
		return err
	}
	switch {
	case w.json:
		return json.NewEncoder(stdout).Encode(r)
	case w.output == outfile.Dash || w.options.trace == outfile.Dash:
		return nil // a page at most goes to standard output
	}
	var b strings.Builder
	r.text(&b, w.options)
	if r.Proposal != nil && w.output == "" && len(r.Proposal.Limits) > 0 {
		b.WriteString("\n")
		if err := w.writeRules(&b, r.Proposal); err != nil {
			return err
		}
	}
	_, err := io.WriteString(stdout, b.String())
	return err
}

func (w *work) report(s accesslog.Stats) *report {
	r := &report{
		Version: 1, Logs: w.names, Formats: s.Formats, Lines: s.Lines, Bad: s.Bad,
		Requests: w.seen.requests, From: w.seen.from.UTC(), To: w.seen.to.UTC(), Throttled: w.seen.throttled,
		Labels: w.labels, Proposal: w.propose(),
	}
	if s.Bad > 0 {
		r.FirstBad = words.OneLine(s.First.String())
	}
	if w.replay != nil {
		r.Replay = w.replay.Result()
	}
	if r.Proposal != nil && len(r.Proposal.Limits) == 0 {
		r.nothing = w.nothing(r.Proposal, r.To.Sub(r.From))
	}
	r.Notes = w.allNotes(r, s)
	return r
}

// files writes the files that options name.
func (w *work) files(stdout io.Writer, r *report) error {
	if w.trace != nil {
		if err := to(w.options.trace, stdout, w.trace.write); err != nil {
			return exit.Failf("replay: -trace: %v", err)
		}
	}
	if w.output == "" || r.Proposal == nil {
		return nil
	}
	if len(r.Proposal.Limits) == 0 {
		return exit.Failf("replay: -o: nothing to propose: %s", r.nothing)
	}
	err := to(w.output, stdout, func(f io.Writer) error { return w.writeRules(f, r.Proposal) })
	if err != nil {
		return exit.Failf("replay: -o: %v", err)
	}
	return nil
}

// to writes to a file, or to standard output.
func to(path string, stdout io.Writer, fill func(io.Writer) error) error {
	if path == outfile.Dash {
		return fill(stdout)
	}
	return outfile.Write(path, fill)
}

// allNotes say what a reader of the figures must know.
func (w *work) allNotes(r *report, s accesslog.Stats) []string {
	notes := w.notes
	add := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	if !w.seen.parted && !w.spread && r.Requests > 1 {
		add("all times are whole seconds, so that all requests of a second come at once; -spread spreads them")
	}
	if r.Throttled > 0 {
		add("%s answered with 429 at the time; callers that were refused less would have made others", words.Plural(int(r.Throttled), "request was", "requests were"))
	}
	for _, source := range s.Missing {
		add("-fields: no line has a text or a number named %s", words.Quote(source))
	}
	if w.seen.foreign > 0 {
		add("%s no HTTP request, and left out", words.Plural(int(w.seen.foreign), "line is", "lines are"))
	}
	if w.seen.late > 0 {
		add("%s out of order by more than -window %v, or behind more than %s lines or %d MiB that waited, and counted at the time of the one before",
			words.Plural(int(w.seen.late), "request was", "requests were"), w.window, words.Whole(int64(s.Waiting)), s.WaitingBytes>>20)
	}
	if r.Replay != nil {
		for i, s := range r.Replay.Sides {
			if s.Forgotten > 0 {
				add("%s: %s forgotten for lack of room, and so allowed more; raise -keys", w.labels[i], words.Plural(int(s.Forgotten), "key was", "keys were"))
			}
		}
	}
	if w.peaks != nil && w.peaks.none > 0 {
		add("%s no %s", words.Plural(int(w.peaks.none), "request has", "requests have"), w.suggest)
	}
	if w.trace != nil && w.trace.more > 0 {
		add("-trace: the first %s requests; %s more are left out", words.Whole(int64(len(w.trace.times))), words.Whole(w.trace.more))
	}
	return notes
}
