package outfile

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinks: what is written under the name of a symbolic link is in the file that it
// leads to, whether or not that is there, and the link stays.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "reports"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "latest.html")
	file := filepath.Join(dir, "reports", "today.html")
	if err := os.Symlink(filepath.Join("reports", "today.html"), link); err != nil {
		t.Skip(err)
	}
	for _, text := range []string{"first", "second"} {
		if err := Write(link, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(link)
		if err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s: the link is %v, %v", text, info, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s: the file has %q, %v", text, got, err)
		}
	}
}

// TestLinkToMissing: two outputs to one file that is not there are refused, and one into a
// folder that is not there, also by a link.
func TestLinkToMissing(t *testing.T) {
	dir := t.TempDir()
	link, away := filepath.Join(dir, "link"), filepath.Join(dir, "away")
	if err := os.Symlink("file", link); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(filepath.Join("nowhere", "file"), away); err != nil {
		t.Fatal(err)
	}
	err := Check(false, nil, Output{Option: "-html", Path: link}, Output{Option: "-svg", Path: filepath.Join(dir, "file")})
	if err == nil || !strings.Contains(err.Error(), "name two files") {
		t.Errorf("two outputs to one file: %v", err)
	}
	if err := CheckWritable("-html", away); err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("into no folder: %v", err)
	}
}
