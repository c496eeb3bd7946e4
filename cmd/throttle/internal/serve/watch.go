package serve

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long files must be left alone before they are read: who writes
	// a file does so in several steps.
	settle = 100 * time.Millisecond
	// everyPoll is how often the files are read besides.
	everyPoll = 5 * time.Second
)

// watch reads the files again when they change, until ctx ends: as the system tells,
// and every 5 seconds, as it does not tell on every file system.
func (p *program) watch(ctx context.Context) {
	if slices.Contains(p.names, "-") {
		return
	}
	files := slices.Clone(p.names)
	if p.sources.file != nil {
		files = append(files, p.sources.path)
	}
	var events chan fsnotify.Event // nil: has nothing
	var errs chan error
	w, err := watcher(files)
	if err == nil {
		defer w.Close()
		events, errs = w.Events, w.Errors
	} else {
		p.log.Warn("changes of files are seen every 5 s only", "err", err)
	}
	poll := time.NewTicker(everyPoll)
	defer poll.Stop()
	quiet := time.NewTimer(settle) // for what has changed since the first reading
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			if events != nil {
				_ = watchFolders(w, files) // one that is away is tried again
			}
			p.changed(ctx, false)
		case <-quiet.C:
			p.changed(ctx, true)
		case e := <-events:
			if concerns(files, e.Name) {
				quiet.Reset(settle)
			}
		case err := <-errs:
			p.log.Warn("watching files", "err", err)
		}
	}
}

// watcher watches the folders of files: editors replace files, and Kubernetes swaps
// ..data.
func watcher(files []string) (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := watchFolders(w, files); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// watchFolders watches the folders of files. Again, it watches those that have replaced
// others: the system watches a folder, not its name.
func watchFolders(w *fsnotify.Watcher, files []string) error {
	var errs []error
	for _, name := range files {
		errs = append(errs, w.Add(filepath.Dir(name)))
	}
	return errors.Join(errs...)
}

// concerns reports whether an event is about one of the files, or a link that they
// may be reached by.
func concerns(files []string, name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, "..") || slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == base })
}

// changed reads the files again, and, if told to, the file of the rules.
func (p *program) changed(ctx context.Context, told bool) {
	p.changedFiles()
	if told && p.sources.file != nil {
		_ = p.sources.file.Refresh(ctx) // its OnState says what is wrong
	}
}

// changedFiles reads the files again, if they changed or were refused, and says so.
func (p *program) changedFiles() {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	before := p.loaded.Load()
	err := p.reloadFiles(false)
	after := p.loaded.Load()
	switch {
	case after == before: // as they were
	case err != nil && before.err != nil && before.err.Error() == err.Error():
	case err != nil:
		p.journal.Logger(p.log).Error("not reloaded; what was in use stays", "err", err)
	default:
		p.journal.Logger(p.log).Info("reloaded", "version", after.version)
	}
}
