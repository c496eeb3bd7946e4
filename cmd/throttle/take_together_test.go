package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Processes that ask at the same time share a file, and none is lost.
func TestTakeTogether(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	const processes, most = 12, 5
	var mu sync.Mutex
	codes := map[int]int{}
	var all sync.WaitGroup
	for range processes {
		c := program(t, "take", "-timeout", "1m", "-store", "memory:"+state, "5/week", "k")
		all.Go(func() {
			var stderr bytes.Buffer
			c.Stderr = &stderr
			err := c.Run()
			if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			codes[c.ProcessState.ExitCode()]++
			if stderr.Len() > 0 {
				t.Errorf("stderr %q", &stderr)
			}
		})
	}
	all.Wait()
	if codes[0] != most || codes[4] != processes-most {
		t.Errorf("exit codes of %d processes: %v, want 0 of %d and 4 of the others", processes, codes, most)
	}
	info, err := os.Stat(state)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v; want it readable by its owner only", info.Mode(), err)
	}
}

// TestTakeUnread: where nobody reads the line, as behind | true, the exit code tells still what was decided.
func TestTakeUnread(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for _, c := range []struct {
		rule string
		code int
		says string
	}{{"0/week", 4, "throttle: take: denied, but that cannot be written: "}, {"5/week", 1, "throttle: take: charged, but that cannot be written: "}} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		read.Close()
		p := program(t, "take", "-timeout", "1m", "-store", "memory:"+state, c.rule, "k")
		var stderr bytes.Buffer
		p.Stdout, p.Stderr = write, &stderr
		_ = p.Run() // ProcessState says how it ended
		write.Close()
		if got := p.ProcessState.ExitCode(); got != c.code || !strings.HasPrefix(stderr.String(), c.says) {
			t.Errorf("take %s: code %d, %q; want %d, %s", c.rule, got, &stderr, c.code, c.says)
		}
	}
}
