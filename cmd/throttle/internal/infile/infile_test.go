//go:build unix

package infile

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// until makes ctx the end of waits for the time of the test.
func until(t *testing.T, ctx context.Context) {
	before := Until
	Until = ctx
	t.Cleanup(func() { Until = before })
}

// A named pipe without a writer is waited for until the end, and so is a writer that
// writes nothing.
func TestPipeUntilTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	until(t, ctx)
	wrote := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = w.WriteString("some")
			defer w.Close()
		}
		wrote <- err
		<-ctx.Done()
	}()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := make([]byte, 10)
	if n, err := f.Read(text); string(text[:n]) != "some" || err != nil {
		t.Errorf("read %q, %v; want some", text[:n], err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	end()
	if _, err := f.Read(text); !errors.Is(err, errInterrupted) && err != io.EOF { // the writer ends as well
		t.Errorf("reading from nobody: %v; want %v", err, errInterrupted)
	}
	if _, err := Open(path); !errors.Is(err, errInterrupted) {
		t.Errorf("opening without a writer: %v; want %v", err, errInterrupted)
	}
}

// A file is read as it is, also after the end.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	until(t, ctx)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); string(text) != "text" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
	if _, err := Open(path + "x"); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}
