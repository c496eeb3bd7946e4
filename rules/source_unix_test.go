//go:build unix

package rules_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/rules"
)

// TestFromFilePipe: a file that is replaced by a pipe is not waited for: the old rules
// stay, and the error says why.
func TestFromFilePipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json")
	s := rules.Source{Fetch: rules.FromFile(path)}
	if err := os.WriteFile(path, versionOf("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(path, os.O_RDWR, 0) // ends those who wait, when it is closed
	if err != nil {
		t.Fatal(err)
	}
	refreshed := make(chan error)
	go func() { refreshed <- s.Refresh(t.Context()) }()
	select {
	case err := <-refreshed:
		if err == nil || !strings.Contains(err.Error(), path+": is a pipe") || s.Live.Load().Version() != "1" {
			t.Errorf("Refresh = %v, version %s; want that it is a pipe, and 1", err, s.Live.Load().Version())
		}
		end.Close()
	case <-time.After(10 * time.Second):
		t.Error("Refresh waits for the other end of the pipe")
		end.Close()
		<-refreshed
	}
}
