//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/internal/bubble"
)

// A process that gets SIGINT or SIGTERM in the middle of its work ends with 1
// and says how far it got. Having read its scenario from a named pipe tells when it
// has begun.
func TestSignals(t *testing.T) {
	text, err := os.ReadFile("internal/sim/testdata/small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("duration: 2m"), []byte("duration: 8000h"), 1)
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		path := filepath.Join(t.TempDir(), "pipe.yaml")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		c := program(t, "sim", "-policy=none", "-seeds=2", path)
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for { // until nobody reads it any more
			w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if errors.Is(err, syscall.ENXIO) {
				break
			}
			if err := errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err := c.Wait()
		if want := "throttle: sim: interrupted: 0 of 2 runs\n"; c.ProcessState.ExitCode() != 1 || stderr.String() != want || stdout.Len() > 0 {
			t.Errorf("%v: got %v, stdout %q, stderr %q; want exit code 1, nothing, %q", signal, err, stdout.String(), stderr.String(), want)
		}
	}
}

// Of two signals at once, as of timeout(1), the second does not kill; a later one does.
func TestSecondSignal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, signal := context.WithCancel(t.Context())
		var kills atomic.Bool
		secondKills(ctx, func() { kills.Store(true) })
		time.Sleep(time.Hour)
		signal()
		time.Sleep(oneSignal - 1)
		if synctest.Wait(); kills.Load() {
			t.Errorf("another signal kills less than %v after the first", oneSignal)
		}
		time.Sleep(time.Nanosecond)
		if synctest.Wait(); !kills.Load() {
			t.Errorf("no signal kills %v after the first", oneSignal)
		}
	})
}

// One that waits for standard input ends too. More than a pipe holds tells when
// it has begun to read.
func TestSignalWhileReading(t *testing.T) {
	for _, args := range [][]string{
		{"explain"}, {"rules", "-"}, {"import", "envoy", "-"}, {"check", "-"}, {"serve", "-"}, {"replay", "-rules", "-", "interrupt_test.go"},
	} {
		c := program(t, args...)
		stdin, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := stdin.Write(bytes.Repeat([]byte(" "), 70_000)); err != nil {
			t.Fatal(err)
		}
		interrupt(t, c, &stderr)
	}
}

// Standard input that cannot be read is wrong input, to each command that reads it.
func TestStandardInputUnreadable(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, args := range [][]string{
		{"explain"}, {"rules", "-"}, {"import", "envoy", "-"}, {"check", "-"}, {"serve", "-"}, {"replay", "-rules", "-", "interrupt_test.go"}, {"replay", "-suggest", "address", "-"},
	} {
		var stdout, stderr bytes.Buffer
		code := exit.Code(run(t.Context(), args, input{dir}, &stdout, &stderr), &stderr)
		if text := stderr.String(); code != 2 || stdout.Len() > 0 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "is a directory") {
			t.Errorf("throttle %q < DIRECTORY: code %d, stdout %q, stderr %q; want 2, nothing, one line", args, code, stdout.String(), text)
		}
	}
}

// One that waits for a named pipe that nobody writes to ends too.
func TestSignalWhileReadingAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"sim", path},
		{"tune", path},
		{"rules", path},
		{"import", "envoy", path},
		{"check", path},
		{"serve", path},
		{"replay", "-rules", path, "interrupt_test.go"},
		{"replay", "-suggest", "address", path},
		{"find", "-observe", path},
		{"find", "-d", "@" + path, "http://127.0.0.1:1"},
	} {
		c := program(t, args...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when it is opened there
		if err != nil {
			t.Fatal(err)
		}
		interrupt(t, c, &stderr)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// interrupt sends a signal to c, and wants it to say so and end with code 1.
func interrupt(t *testing.T, c *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(20*time.Second, func() { c.Process.Kill() })
	err := c.Wait()
	stuck.Stop()
	if c.ProcessState.ExitCode() != 1 || !bytes.HasSuffix(stderr.Bytes(), []byte(": interrupted\n")) {
		t.Errorf("%v: got %v, stderr %q; want exit code 1, interrupted", c.Args[1:], err, stderr.String())
	}
}
