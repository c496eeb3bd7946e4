//go:build unix

package serve

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipes: files that are replaced by pipes are not waited for, neither by a reload nor
// at the end: what was in use stays, and the log says why.
func TestPipes(t *testing.T) {
	for _, c := range []struct{ name, says string }{
		{"f.yaml", "not reloaded; what was in use stays"},
		{"rules.yaml", "the rules stay as they are"},
	} {
		dir := folder(t, hello, "f.yaml", files, "rules.yaml", twoAnHour)
		r := start(t, dir, "f.yaml")
		pipe(t, filepath.Join(dir, c.name))
		r.said(c.says, c.name+": is a pipe")
		if code := r.stop(); code != 0 {
			t.Errorf("%s: exit code %d", c.name, code)
		}
	}
}

// TestPipeOfAnAnswer: nor does a reload wait for the file of a static answer.
func TestPipeOfAnAnswer(t *testing.T) {
	dir := folder(t, hello, "f.yaml", strings.ReplaceAll(files, "body: less", "file: less.txt"), "rules.yaml", twoAnHour, "less.txt", "less")
	r := start(t, dir, "f.yaml")
	pipe(t, filepath.Join(dir, "less.txt"))
	if status, body := r.tryReload(); status != 422 || !strings.Contains(body, "less.txt: is a pipe") {
		t.Errorf("%d %s; want 422, and the file", status, body)
	}
	if code := r.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// pipe puts a pipe that nobody writes into in place of a file.
func pipe(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path+"~", 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(path+"~", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end.Close() }) // ends those who wait
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}
