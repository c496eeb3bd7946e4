package tutorial

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long one command may take on a machine that is busy with much
// else.
const patience = 3 * time.Minute

// mark is printed when a command has ended.
const mark = "-- that was all --"

// A shell is a bash that a reader types into.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

// begin starts a bash in a folder. All that it has started ends with the test, however
// that ends: the first thing in the bash kills all of it when its pipe closes.
func begin(t *testing.T, dir string, env []string) *shell {
	t.Helper()
	leash, release, err := os.Pipe()
	check(t, err)
	cmd := exec.Command("bash", "--norc")
	cmd.Dir, cmd.Env, cmd.ExtraFiles = dir, env, []*os.File{leash}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	check(t, err)
	out, stdout, err := os.Pipe()
	check(t, err)
	cmd.Stdout, cmd.Stderr = stdout, stdout
	check(t, cmd.Start())
	leash.Close()
	stdout.Close()
	limit := time.AfterFunc(patience, func() { release.Close() })
	t.Cleanup(func() {
		limit.Stop()
		release.Close()
		_ = cmd.Wait() // it was killed
		out.Close()
	})
	s := &shell{in: in, out: bufio.NewReader(out)}
	s.do(t, "(read -r <&3; kill -KILL 0) & exec 3<&-")
	return s
}

// do types a line and returns what is printed until it has ended.
func (s *shell) do(t *testing.T, command string) string {
	t.Helper()
	if _, err := fmt.Fprintf(s.in, "%s\nprintf '\\n%s\\n'\n", command, mark); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	var printed strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: not done, or not within %v: %v; printed so far:\n%s", command, patience, err, printed.String())
		}
		if line == mark+"\n" {
			return strings.TrimSuffix(printed.String(), "\n")
		}
		printed.WriteString(line)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
