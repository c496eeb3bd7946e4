package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// OwnState is the file in which keys are remembered if no store is named.
func OwnState() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "throttle")
	return filepath.Join(dir, "take"), os.MkdirAll(dir, 0o700)
}

// A memoryFile is a memory.Store that is kept in a file between decisions. Several
// processes may use it: they take turns by a lock on another file beside it.
type memoryFile string

// Take decides, and writes what is to be remembered.
func (f memoryFile) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	unlock, err := LockFile(ctx, string(f)+".lock")
	if err != nil {
		return false, err
	}
	defer unlock()
	m, err := f.read()
	if err != nil {
		return false, err
	}
	if ok, err = m.Take(ctx, a, d); err != nil {
		return false, err
	}
	return ok, f.write(m)
}

// read is what is remembered; nothing if there is no file.
func (f memoryFile) read() (*memory.Store, error) {
	m := new(memory.Store)
	text, err := os.ReadFile(string(f))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, nil
	case err != nil:
		return nil, err
	case len(text) == 0:
		return m, nil
	}
	if err := m.Restore(text); err != nil {
		return nil, fmt.Errorf("%w; remove the file to start over", err)
	}
	return m, nil
}

// write replaces the file. It holds the secret by which keys are hashed, so it
// is for the user alone.
func (f memoryFile) write(m *memory.Store) error {
	file, err := os.OpenFile(string(f), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return outfile.Write(string(f), func(w io.Writer) error {
		_, err := w.Write(m.Snapshot())
		return err
	})
}

// LockFile locks a file, which is made if there is none, and waits for it until
// ctx ends.
func LockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		busy, err := tryLock(f)
		switch {
		case err != nil:
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		case !busy:
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("%s is locked: %w", path, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}
