//go:build unix

package serve

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
)

// TestUnwritable: a snapshot or an overlay that cannot be written, or is something else,
// is one line with the place at the start, and not found at the end or in an incident.
func TestUnwritable(t *testing.T) {
	for _, c := range []struct {
		more, want string
		checked    bool // other users and machines see it, too
	}{
		{"store: {url: 'memory:', snapshot: gone/s}", "3:35: store.snapshot: cannot write to gone: no such file or directory\n", false},
		{"store: {url: 'memory:', snapshot: .}", "3:35: store.snapshot: DIR is a directory; name a file\n", true},
		{"store: {url: 'memory:', snapshot: device}", "3:35: store.snapshot: device is a pipe, a socket or a device, ", true},
		{"store: {url: 'memory:', snapshot: text}", "3:35: store.snapshot: text has something else in it than a snapshot, which would replace it; ", true},
		{"rules: {overlay: gone/o.json}", "3:18: rules.overlay: cannot write to gone: no such file or directory\n", false},
		{"rules: {overlay: text}", "3:18: rules.overlay: text is no overlay: ", true},
		{"rules: {overlay: other.json}", "3:18: rules.overlay: other.json is no overlay: ", true},
	} {
		dir := folder(t, hello, "f.yaml", "version: 1\nadmin: {listen: '127.0.0.1:0'}\n"+c.more+"\n", "text", "hello", "other.json", `{"rulez": []}`)
		if err := os.Symlink(os.DevNull, filepath.Join(dir, "device")); err != nil { // which, if all else fails, is what is replaced
			t.Fatal(err)
		}
		name := filepath.Join(dir, "f.yaml")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, errs, code := clitest.Play(ctx, Run, name)
		cancel()
		errs = strings.ReplaceAll(strings.ReplaceAll(errs, dir+"/", ""), dir, "DIR")
		if want := "throttle: f.yaml:" + c.want; code != 2 || !strings.HasPrefix(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d\ngot  %s\nwant %s", c.more, code, errs, want)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := config.Parse([]config.Named{{Name: name, Data: text}}, variables)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(f); (err != nil) != c.checked || len(Warnings(f, time.Now())) == 0 && !c.checked {
			t.Errorf("%s: Check = %v, Warnings = %q", c.more, err, Warnings(f, time.Now()))
		}
	}
}
