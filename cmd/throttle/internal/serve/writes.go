package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/rules"
)

// checkWrites refuses files that are not what the program would write over them.
func checkWrites(f *config.File) error {
	for _, w := range f.Writes() {
		switch info, err := os.Stat(w.File); {
		case w.File == "" || err != nil:
		case info.IsDir():
			return f.Fail(w.Path, "%s is a directory; name a file", w.File)
		case !info.Mode().IsRegular():
			return f.Fail(w.Path, "%s is a pipe, a socket or a device, which a file would replace; name a file", w.File)
		}
	}
	if s := f.Store; s != nil && s.Snapshot != "" && operate.Foreign(string(s.Snapshot)) {
		return f.Fail("store.snapshot", "%s has something else in it than a snapshot, which would replace it; name another file, or remove this one", s.Snapshot)
	}
	unread := (*fs.PathError)(nil)
	if err := readOverlay(f); err != nil && !errors.As(err, &unread) {
		return f.Fail("rules.overlay", "%s is no overlay: %v; name another file, or remove this one", f.Rules.Overlay, err)
	}
	return nil
}

// checkWritable refuses a snapshot and an overlay that this process, as this user, cannot
// write. Kept copies that cannot be written are logged: the program goes on without them.
func checkWritable(f *config.File) error {
	for _, w := range f.Writes() {
		if w.File == "" || w.Path != "store.snapshot" && w.Path != "rules.overlay" {
			continue
		}
		if err := outfile.Writable(w.File); err != nil {
			return f.Fail(w.Path, "%v", err)
		}
	}
	if err := readOverlay(f); err != nil {
		return f.Fail("rules.overlay", "%v", err)
	}
	return nil
}

// readOverlay returns what is wrong with the file of the overlay; nil if there is none.
func readOverlay(f *config.File) error {
	if f.Rules == nil || f.Rules.Overlay == "" || f.Rules.Overlay == config.InStore {
		return nil
	}
	_, data, err := (&rules.File{Path: string(f.Rules.Overlay)}).Load(context.Background())
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, new(rules.Overlay))
	}
	return err
}
