//go:build unix

package rules_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

// A named pipe that nobody writes to is given up when the context ends.
func TestFromFileThatIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := rules.FromFile(path)(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("fetched with %v; want %v", err, context.Canceled)
	}
	w, err := os.OpenFile(path, os.O_RDWR, 0) // which lets go who waits for it
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
