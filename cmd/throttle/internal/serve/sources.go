package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/admin"
	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
)

const (
	// everyFile is how often a file of rules is read besides being watched: inotify
	// is missing on network file systems.
	everyFile = 5 * time.Second
	// firstWait bounds the wait for a URL and an overlay at the start.
	firstWait = 3 * time.Second
	// mostChanges bounds the changes of a version that are logged.
	mostChanges = 10
)

// sources are where the rules come from: a management server, a file on top of it, a URL on
// top of that, and an overlay on top of all.
type sources struct {
	stack *rules.Stack // nil: no rules are configured
	all   []admin.Source
	file  *rules.Source // nil: none
	path  string        // of file
	keys  bool          // logs show keys of callers
	log   *slog.Logger
	after func(*rules.Live) // each swap; nil: nothing
	ready func()            // from then on, what a management server sends is put into use; nil: there is none
	end   func()            // ends the connection to it
}

// openSources reads the rules for the first time. A bad file is an error; a management
// server, a URL or an overlay that is away is said, and asked again.
func openSources(ctx context.Context, f *config.File, shared rules.Shared, log *slog.Logger) (*sources, error) {
	s := &sources{log: log, keys: f.Admin != nil && f.Admin.ShowKeys, end: func() {}}
	r := f.Rules
	if r == nil {
		return s, nil
	}
	s.stack = &rules.Stack{Shared: shared, Keep: string(r.OverlayKeep), OnSwap: s.swapped, OnState: s.reporter("overlay", string(r.Overlay))}
	if r.XDS != nil {
		if err := s.openServer(ctx, f, log); err != nil {
			return nil, err
		}
	}
	if r.File != "" {
		s.path = string(r.File)
		s.file = &rules.Source{Fetch: rules.FromFile(s.path), Read: tree.Rules, Every: everyFile}
		s.add("file", s.path, s.file)
	}
	if r.URL != "" {
		every := r.Every
		if every <= 0 {
			every = time.Minute
		}
		page := &rules.Source{Fetch: rules.FromURL(nil, string(r.URL)), Read: tree.Rules, Every: every, Timeout: r.Timeout, Keep: string(r.Keep)}
		s.add("url", words.URL(string(r.URL)), page)
	}
	first, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	_ = s.stack.Refresh(first) // the reporters say what is wrong
	if err := s.fileFlaw(ctx, f); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// live are the rules in use, nil if none are configured.
func (s *sources) live() *rules.Live {
	if s.stack == nil {
		return nil
	}
	return &s.stack.Live
}

// follow calls do for the version in use, and after each swap, in the goroutine that
// swapped. It is called before run.
func (s *sources) follow(do func(*rules.Live)) {
	if s.stack != nil {
		s.after = do
		do(&s.stack.Live)
	}
}

// fileFlaw is what is wrong with the file of rules at the start. That it does not fit on top
// of what a management server sends is only logged: no server keeps the program from a start.
func (s *sources) fileFlaw(ctx context.Context, f *config.File) error {
	if s.file == nil || s.file.Status().Err == nil {
		return nil
	}
	err := s.file.Status().Err
	alone := rules.Source{Fetch: s.file.Fetch, Read: s.file.Read}
	if f.Rules.XDS == nil || alone.Refresh(ctx) != nil {
		return flawOf(f, s.path, err)
	}
	s.log.Error("the rules of the file do not fit on top of those of the management server", "source", "file", "from", s.path, "err", err)
	return nil
}

// flawOf is what is wrong with the file of rules, with its place.
func flawOf(f *config.File, path string, err error) error {
	e := (*rules.Error)(nil)
	if !errors.As(err, &e) {
		return f.Fail("rules.file", "%v", err)
	}
	what := strings.TrimPrefix(e.Path+": ", ": ") + e.What
	return &tree.Error{File: path, Line: e.Line, Column: e.Column, What: what}
}

// add adds a source.
func (s *sources) add(name, from string, src *rules.Source) {
	src.OnState = s.reporter(name, from)
	s.all = append(s.all, admin.Source{Name: name, Source: src})
	s.stack.Sources = append(s.stack.Sources, src)
}

// swapped says which version is in use from now, and how much changed. What changed
// has keys of callers in it.
func (s *sources) swapped(v rules.Version) {
	if s.after != nil {
		defer s.after(&s.stack.Live)
	}
	if len(v.Changes) == 0 && s.version() == "" { // no source has any yet
		return
	}
	if !s.keys {
		s.log.Info("new rules", "version", v.Name, "changes", counted(v.Changes))
		return
	}
	changes := v.Changes
	if len(changes) > mostChanges {
		changes = changes[:mostChanges:mostChanges]
	}
	s.log.Info("new rules", "version", v.Name, "changes", counted(v.Changes), "first", changes)
}

// counted is how many changes lines of rules.Diff tell: of many, the last line says
// how many more there are.
func counted(lines []string) int {
	more := 0
	if n := len(lines); n > 0 {
		if _, err := fmt.Sscanf(lines[n-1], "and %d more", &more); err == nil {
			return n - 1 + more
		}
	}
	return len(lines)
}

// reporter returns the OnState of a source: it says what is wrong with it, once, and
// that it is well again.
func (s *sources) reporter(name, from string) func(rules.Status) {
	var mu sync.Mutex
	last := ""
	return func(is rules.Status) {
		if errors.Is(is.Err, context.Canceled) {
			return // the program ends, and nothing is wrong with the source
		}
		mu.Lock()
		defer mu.Unlock()
		text := ""
		for _, err := range []error{is.Err, is.KeepErr} {
			if err != nil && text == "" {
				text = err.Error()
			}
		}
		switch {
		case text == last:
		case text == "":
			s.log.Info("the rules can be read again", "source", name, "from", from, "version", is.Version)
		case is.Err == nil:
			s.log.Warn("the rules could not be kept", "source", name, "from", from, "err", text)
		case is.Version == "" && name == "file": // the program ends with it
		case is.Version == "" && is.Confirmed.IsZero(): // an overlay that was read may be empty
			s.log.Error("no rules from there: they limit nobody", "source", name, "from", from, "err", text)
		default:
			s.log.Error("the rules stay as they are", "source", name, "from", from, "version", is.Version, "err", text)
		}
		last = text
	}
}

// run reads the sources now and then, until ctx ends.
func (s *sources) run(ctx context.Context) {
	defer s.end()
	if s.ready != nil {
		s.ready()
	}
	if s.stack != nil {
		s.stack.Run(ctx)
	}
}

// refresh reads all sources now.
func (s *sources) refresh(ctx context.Context) error {
	if s.stack == nil {
		return nil
	}
	return s.stack.Refresh(ctx)
}

// version is that of the rules in use, empty if no source has any yet.
func (s *sources) version() string {
	for _, one := range s.all {
		if one.Status().Version != "" {
			return s.stack.Live.Load().Version()
		}
	}
	return ""
}
