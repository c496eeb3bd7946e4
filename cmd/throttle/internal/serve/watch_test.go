package serve

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestWatchReplacedFolder: where a folder, or a link to it, was replaced, the new one is
// watched from the next poll on.
func TestWatchReplacedFolder(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"a", "b", "one", "two"} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string) {
		if err := os.Symlink(to, at("new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(at("new"), at("current")); err != nil {
			t.Fatal(err)
		}
	}
	link("a")
	files := []string{at("one/rules.yaml"), at("current/rules.yaml")}
	w, err := watcher(files)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	link("b")
	if err := os.Rename(at("one"), at("old")); err != nil {
		t.Fatal(err)
	}
	if err := watchFolders(w, files); err == nil {
		t.Error("a folder that is away: no error")
	}
	if err := os.Rename(at("two"), at("one")); err != nil {
		t.Fatal(err)
	}
	if err := watchFolders(w, files); err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for e := (fsnotify.Event{}); e.Name != name; {
			select {
			case e = <-w.Events:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s was written, and nothing was told", name)
			}
		}
	}
}
