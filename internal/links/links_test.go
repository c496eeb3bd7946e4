package links

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFollow: links are followed by any number of steps, in the folder too, to files that
// need not be there, as the system follows them.
func TestFollow(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir()) // which may be behind one itself
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, folder := range []string{"volume/state", "app"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("volume/there", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"one": "two", "two": "three", "three": "app/file", "to-there": "volume/there",
		"app/data": "../volume/state", "volume/state/up": "../file", "by-folder": "app/data/../file",
		"rooted": filepath.Join(dir, "one"), "circle": "back", "back": "circle", "astray": "nowhere/file",
	} {
		if err := os.Symlink(to, name); err != nil {
			t.Skip(err)
		}
	}
	for _, c := range []struct{ path, want string }{
		{"plain", "plain"},
		{"./app/../plain", "plain"},
		{"nowhere/file", "nowhere/file"},
		{"one", "app/file"},
		{"three", "app/file"},
		{"to-there", "volume/there"},
		{"app/data", "volume/state"},
		{"app/data/file", "volume/state/file"},
		{"app/data/up", "volume/file"},
		{"app/data/../file", "volume/file"},
		{"by-folder", "volume/file"},
		{"rooted", filepath.Join(dir, "app/file")},
		{filepath.Join(dir, "one"), filepath.Join(dir, "app/file")},
		{"astray", "./nowhere/file"},
	} {
		if got := Follow(c.path); got != c.want {
			t.Errorf("Follow(%q) = %q, want %q", c.path, got, c.want)
		}
	}
	if got := Follow("circle"); filepath.Base(got) != "circle" && filepath.Base(got) != "back" {
		t.Errorf("Follow of a circle = %q, want a name in it", got)
	}
}
