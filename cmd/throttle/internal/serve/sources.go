package serve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/admin"
	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/rules"
)

// everyFile is how often a file of rules is read besides being watched: inotify is
// missing on network file systems.
const everyFile = 5 * time.Second

// sources are where the rules come from.
type sources struct {
	live *rules.Live // nil: no rules are configured
	all  []admin.Source
	file *rules.Source // nil: none
	path string        // of file
	log  *slog.Logger
}

// openSources reads the rules for the first time. A bad file is an error; a URL that
// is away is said, and asked again.
func openSources(ctx context.Context, f *config.File, log *slog.Logger) (*sources, error) {
	s := &sources{log: log}
	r := f.Rules
	if r == nil {
		return s, nil
	}
	if r.File != "" {
		s.path = string(r.File)
		s.file = &rules.Source{Fetch: rules.FromFile(s.path), Read: tree.Rules, Every: everyFile}
		s.add("file", s.path, s.file)
		if err := s.file.Refresh(ctx); err != nil {
			return nil, flawOf(f, s.path, err)
		}
	}
	if r.URL != "" {
		every := r.Every
		if every <= 0 {
			every = time.Minute
		}
		page := &rules.Source{Fetch: rules.FromURL(nil, string(r.URL)), Read: tree.Rules, Every: every, Timeout: r.Timeout, Keep: string(r.Keep)}
		s.add("url", string(r.URL), page)
		_ = page.Refresh(ctx) // OnState says what is wrong
	}
	s.live = &s.all[len(s.all)-1].Live
	return s, nil
}

// flawOf is what is wrong with the file of rules, with its place.
func flawOf(f *config.File, path string, err error) error {
	e := (*rules.Error)(nil)
	if !errors.As(err, &e) {
		return f.Fail("rules.file", "%v", err)
	}
	what := strings.TrimPrefix(e.Path+": ", ": ") + e.What
	return usage.Error((&tree.Error{File: path, Line: e.Line, Column: e.Column, What: what}).Error())
}

// add adds a source, whose changes are logged.
func (s *sources) add(name, from string, src *rules.Source) {
	s.all = append(s.all, admin.Source{Name: name, Source: src})
	var mu sync.Mutex
	version, last := "", ""
	src.OnState = func(is rules.Status) {
		mu.Lock()
		defer mu.Unlock()
		text := ""
		if is.Err != nil {
			text = is.Err.Error()
		}
		switch {
		case text != "" && text != last && is.Version == "":
			s.log.Error("no rules: nobody is limited by them", "source", name, "from", from, "err", text)
		case text != "" && text != last:
			s.log.Error("the rules stay as they are", "source", name, "from", from, "version", is.Version, "err", text)
		case text == "" && is.Version != version:
			s.log.Info("new rules", "source", name, "from", from, "version", is.Version)
		case text == "" && last != "":
			s.log.Info("the rules can be read again", "source", name, "from", from, "version", is.Version)
		}
		if is.KeepErr != nil {
			s.log.Warn("the rules could not be kept", "source", name, "err", is.KeepErr)
		}
		version, last = is.Version, text
	}
}

// run reads the sources now and then, until ctx ends.
func (s *sources) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, src := range s.all {
		all.Go(func() { src.Run(ctx) })
	}
	all.Wait()
}

// refresh reads all sources now.
func (s *sources) refresh(ctx context.Context) error {
	var errs []error
	for _, src := range s.all {
		errs = append(errs, src.Refresh(ctx))
	}
	return errors.Join(errs...)
}

// version is that of the rules in use.
func (s *sources) version() string {
	if s.live == nil {
		return ""
	}
	return s.live.Load().Version()
}
