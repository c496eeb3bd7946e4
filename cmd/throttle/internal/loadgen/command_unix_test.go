//go:build unix

package loadgen

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestCommandChildren: at the end of its context a command's children end with it.
func TestCommandChildren(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := (Command{"sh", "-c", `{ echo begun; exec sleep 20; } >"$0" & wait`, pipe}).Send(ctx)
		ended <- err
	}()
	f, err := os.Open(pipe) // waits for the child
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if line, err := r.ReadString('\n'); line != "begun\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	start := time.Now()
	cancel()
	io.Copy(io.Discard, r) // until no process has it open
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("a child ended %v after its command was killed", took)
	}
	if err := <-ended; err == nil {
		t.Error("no error of a command that was killed")
	}
}

// TestUnstarted: what this machine cannot start is not the command's fault.
func TestUnstarted(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EAGAIN: true, syscall.ENOMEM: true, syscall.EMFILE: true, syscall.ENOENT: false, syscall.EACCES: false,
	} {
		if got := unstarted(fmt.Errorf("run: %w", &os.PathError{Op: "fork/exec", Path: "x", Err: err})); got != want {
			t.Errorf("%v: %t, want %t", err, got, want)
		}
	}
}
