package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/sim"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// play runs the program in this process and returns what it wrote.
func play(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	err := run(ctx, args, strings.NewReader(""), &out, &errs)
	code = exit(err, &errs)
	return out.String(), errs.String(), code
}

// golden compares got with a file, or rewrites the file.
func golden(t *testing.T, name, got string) {
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

func builtin(t *testing.T, name string) sim.Scenario {
	t.Helper()
	s, ok := sim.Find(name)
	if !ok {
		t.Fatalf("no scenario %s", name)
	}
	return s
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("pipe is broken") }
