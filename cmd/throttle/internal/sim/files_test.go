package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/outfile"
)

func TestSVG(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.svg")
	_, stderr, code := play(t.Context(), "sim", "-seeds=1", "-policy=none,backoff", "emr", "-svg", path)
	if code != 0 || stderr != "" {
		t.Fatalf("-svg: got code %d, stderr %q", code, stderr)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "<svg") || !strings.Contains(string(text), "emr: throttled answers so far") {
		t.Errorf("-svg wrote %.60q (%v), want a picture of emr", text, err)
	}
}

// A device, also behind a link, is written to and not replaced by a file, even
// in a directory that takes no other.
func TestFilesThatAreDevices(t *testing.T) {
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := play(t.Context(), "sim", "-seeds=1", "-policy=none", "sleeper", "-svg", link, "-html", link)
	if code != 0 || stderr != "" {
		t.Errorf("-svg and -html to a device: got code %d, stderr %q; want 0, nothing", code, stderr)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is now %v, %v", info, err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s is now %v, %v", os.DevNull, info, err)
	}
	if err := outfile.CheckWritable("-html", "/dev/fd/1"); err != nil {
		t.Errorf("a descriptor as a file: %v, want none", err)
	}
}
