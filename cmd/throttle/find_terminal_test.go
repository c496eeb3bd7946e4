//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns both ends of a terminal of its own.
func pair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("NO TERMINAL: the question of find is NOT tested: %v", err)
	}
	ours = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { ours.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// On a terminal find -limit asks before it sends to another machine; a no, or an
// interrupt while it waits, ends it, and nothing was sent.
func TestFindAsks(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(ours *os.File, p *os.Process)
		want   string
	}{
		"no":        {func(ours *os.File, _ *os.Process) { ours.WriteString("n\n") }, "throttle: find: nothing was sent"},
		"interrupt": {func(_ *os.File, p *os.Process) { p.Signal(os.Interrupt) }, "throttle: find: interrupted"},
	} {
		ours, theirs := pair(t)
		c := program(t, "find", "-limit", "http://192.0.2.1/")
		c.Stdin, c.Stderr = theirs, theirs
		var stdout bytes.Buffer
		c.Stdout = &stdout
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		stuck := time.AfterFunc(20*time.Second, func() { c.Process.Kill() })
		said := until(ours, "[y/N] ")
		test.answer(ours, c.Process)
		said += until(ours, "\x00") // to its end
		c.Wait()
		stuck.Stop()
		if code := c.ProcessState.ExitCode(); code != 1 || stdout.Len() > 0 || !strings.Contains(said, "Send at most 2,000 requests") ||
			!strings.Contains(said, "to 192.0.2.1? [y/N] ") || !strings.Contains(said, test.want) {
			t.Errorf("%s: code %d, stdout %q, said %q; want 1, nothing, a question, %q", name, code, stdout.String(), said, test.want)
		}
	}
}

// until reads until there is a text, or nothing more.
func until(f *os.File, text string) (said string) {
	buffer := make([]byte, 1024)
	for !strings.Contains(said, text) {
		n, err := f.Read(buffer)
		said += string(buffer[:n])
		if err != nil {
			break
		}
	}
	return said
}
