package operate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/throttle-go/throttle/memory"
)

// Restore fills s, which is unused yet, with what Save has kept at path, and
// reports whether there was anything. After an error s is empty and usable: the
// limits begin unused.
func Restore(path string, s *memory.Store) (found bool, err error) {
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

// Save keeps the state of s at path, for its owner alone: it holds the secret by
// which keys are hashed. Whenever the machine stops, the old or the new state is
// there, whole.
func Save(path string, s *memory.Store) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
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
