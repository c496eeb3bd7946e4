package operate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/throttle-go/throttle/internal/links"
	"github.com/throttle-go/throttle/memory"
)

// Restore fills s, which is unused yet, with what Save has kept at path, and
// reports whether there was anything. After an error s is empty and usable: the
// limits begin unused. Files that processes which were killed have left beside it are
// removed.
func Restore(path string, s *memory.Store) (found bool, err error) {
	path = links.Follow(path)
	removeLeft(path, time.Now())
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("the state of the store: %w", err)
	}
	if err := s.Restore(data); err != nil {
		return false, fmt.Errorf("the state of the store in %s: %w", path, err)
	}
	return true, nil
}

// snapshotHead is how a snapshot begins, of any version.
const snapshotHead = "throttle.Memory "

// Foreign reports whether a file is there that Save has not written: not even the head
// is that of a snapshot. Save would replace it.
func Foreign(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // opening a pipe would wait for its other end
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // only read from
	head, err := io.ReadAll(io.LimitReader(f, int64(len(snapshotHead))))
	return err == nil && !strings.HasPrefix(snapshotHead, string(head))
}

// leftFor is how old a file must be to be one that nobody writes any more.
const leftFor = time.Minute

// removeLeft removes the files that Save has not come to rename.
func removeLeft(path string, now time.Time) {
	all, _ := os.ReadDir(filepath.Dir(path)) // without it Save will fail, and say why
	for _, e := range all {
		digits, ours := strings.CutPrefix(e.Name(), temporary(path))
		if !ours || digits == "" || strings.Trim(digits, "0123456789") != "" { // such as .state.json
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > leftFor {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name())) // the next start tries again
		}
	}
}

// temporary is how the names of the files begin that Save writes first; digits follow.
func temporary(path string) string { return "." + filepath.Base(path) + "." }

// Save keeps the state of s at path, for its owner alone: it holds the secret by
// which keys are hashed. Whenever the machine stops, the old or the new state is
// there, whole. A symbolic link stays, and what it leads to is written.
func Save(path string, s *memory.Store) error {
	path = links.Follow(path)
	f, err := os.CreateTemp(filepath.Dir(path), temporary(path)+"*") // mode 0600
	if err != nil {
		return fmt.Errorf("the state of the store: %w", err)
	}
	_, err = f.Write(s.Snapshot())
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("the state of the store: %w", err), os.Remove(f.Name()))
	}
	return nil
}
