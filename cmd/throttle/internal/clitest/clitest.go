// Package clitest runs commands in tests and compares what they write.
package clitest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/sim"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A Command is the Run of a command, or the whole program.
type Command func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error

// Play runs a command with nothing to read. It returns what the command wrote
// and the exit code.
func Play(ctx context.Context, run Command, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	err := run(ctx, args, strings.NewReader(""), &out, &errs)
	code = exit.Code(err, &errs)
	return out.String(), errs.String(), code
}

// Golden compares got with a file in testdata, or rewrites the file.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if that is right, run 'go test -update' and read the difference\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// Builtin returns a built-in scenario.
func Builtin(t *testing.T, name string) sim.Scenario {
	t.Helper()
	s, ok := sim.Find(name)
	if !ok {
		t.Fatalf("no scenario %s", name)
	}
	return s
}

// A BrokenPipe fails to be written to.
type BrokenPipe struct{}

func (BrokenPipe) Write([]byte) (int, error) { return 0, errors.New("pipe is broken") }

// Vacant returns an address that nothing listens on.
func Vacant(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Program returns the path of a program that a test needs. Without it the test is skipped,
// or fails where THROTTLE_REQUIRE=1.
func Program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("THROTTLE_REQUIRE") == "1":
		t.Fatal(name + " is missing; scripts/need.sh installs it")
	default:
		t.Skip(name + " is missing; scripts/need.sh installs it")
	}
	return path
}
