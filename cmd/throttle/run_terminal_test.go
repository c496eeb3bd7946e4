//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRunTerminal: Ctrl-C on a terminal reaches the program once, as the terminal sends it to
// the program too.
func TestRunTerminal(t *testing.T) {
	api := newLimited(t)
	ours, theirs := pair(t)
	const script = `n=0; trap 'n=$((n+1))' INT; echo begun; while [ $n = 0 ]; do sleep 0.1; done; sleep 0.5; echo $n in all`
	run, dir := api.runs(t, "-q", "-host", api.host, "--", "sh", "-c", script)
	run.Stdin, run.Stdout, run.Stderr = theirs, theirs, theirs
	run.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	stuck := time.AfterFunc(20*time.Second, func() { syscall.Kill(-run.Process.Pid, syscall.SIGKILL) })
	defer stuck.Stop()
	said := until(ours, "begun")
	if _, err := ours.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	said += until(ours, "in all")
	if err := run.Wait(); err != nil || !strings.Contains(said, "1 in all") {
		t.Errorf("%v: the program got %q; want one interrupt", err, said)
	}
	empty(t, dir)
}
