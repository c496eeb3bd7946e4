package operate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// TestSnapshot: what was used stays used over a restart; a damaged file is an
// error, and the store begins unused.
func TestSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	hour := limit.Limit{Count: 3, Period: time.Hour}
	left := func(s *memory.Store, n int64) int64 {
		t.Helper()
		d, err := store.Take(t.Context(), s, "acme", hour, n)
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining
	}
	var first, second, third memory.Store
	if found, err := Restore(path, &first); found || err != nil {
		t.Errorf("no file: %v, %v", found, err)
	}
	left(&first, 2)
	for range 2 { // the second replaces the first
		if err := Save(path, &first); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if found, err := Restore(path, &second); !found || err != nil {
		t.Fatalf("a good file: %v, %v", found, err)
	}
	if n := left(&second, 0); n != 1 {
		t.Errorf("after a restart %d are left, want 1", n)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := Restore(path, &third); found || err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged file: %v, %v", found, err)
	}
	if n := left(&third, 0); n != 3 {
		t.Errorf("after a damaged file %d are left, want 3", n)
	}
	if err := Save(filepath.Join(path, "no", "such"), &third); err == nil {
		t.Error("a folder that is not there is no error")
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("files are left behind: %v, %v", all, err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data[:len(data)-1]) {
		t.Errorf("a failed Save changed the file: %v", err)
	}
}

// TestSnapshotLeft: what a process that was killed has left is removed at the next
// start, and neither what one writes now nor other files.
func TestSnapshotLeft(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-leftFor - time.Second)
	for name, at := range map[string]time.Time{".state.123": old, ".state.456": time.Now(), ".state.": old, ".state.1a": old, ".state.json": old, ".states.1": old, "state.1": old} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := Restore(filepath.Join(dir, "state"), new(memory.Store)); found || err != nil {
		t.Errorf("Restore = %v, %v; want nothing found", found, err)
	}
	all, err := os.ReadDir(dir)
	if _, gone := os.Stat(filepath.Join(dir, ".state.123")); len(all) != 6 || err != nil || gone == nil {
		t.Errorf("there are %v, %v; want all but .state.123", all, err)
	}
}

// TestForeign: what Save has written, also half of it, is known by its head; other files
// are not to be replaced.
func TestForeign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if Foreign(path) {
		t.Error("no file is foreign")
	}
	if err := Save(path, new(memory.Store)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"": false, string(data): false, string(data[:len(data)/2]): false, string(data[:5]): false, "rules: []\n": true, "throttle": false, "th: 1": true} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Foreign(path); got != want {
			t.Errorf("Foreign of %.20q = %v, want %v", text, got, want)
		}
	}
}

// TestSnapshotLink: a snapshot that is named by a symbolic link to another one, as to a
// volume, is kept where they lead, and the links stay.
func TestSnapshotLink(t *testing.T) {
	link, between, file := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "current"), filepath.Join(t.TempDir(), "state")
	for from, to := range map[string]string{link: between, between: file} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(filepath.Dir(file), ".state.123")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(left, time.Time{}, time.Now().Add(-2*leftFor)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Save(link, new(memory.Store)); err != nil {
			t.Fatal(err)
		}
	}
	if to, err := os.Readlink(between); to != file {
		t.Errorf("the second link leads to %q, %v; want %s", to, err, file)
	}
	if found, err := Restore(file, new(memory.Store)); !found || err != nil {
		t.Errorf("Restore = %v, %v; want the state", found, err)
	}
	if found, err := Restore(link, new(memory.Store)); !found || err != nil {
		t.Errorf("Restore by the link = %v, %v; want the state", found, err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what a process that was killed has left is there still")
	}
}
