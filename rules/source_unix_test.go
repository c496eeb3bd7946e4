//go:build unix

package rules_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/rules"
)

// TestFromFilePipe: a file that is replaced by a pipe is not waited for: the old rules
// stay, and the error says why.
func TestFromFilePipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json")
	s := rules.Source{Fetch: rules.FromFile(path)}
	if err := os.WriteFile(path, versionOf("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(path, os.O_RDWR, 0) // ends those who wait, when it is closed
	if err != nil {
		t.Fatal(err)
	}
	refreshed := make(chan error)
	go func() { refreshed <- s.Refresh(t.Context()) }()
	select {
	case err := <-refreshed:
		if err == nil || !strings.Contains(err.Error(), path+": is a pipe") || s.Live.Load().Version() != "1" {
			t.Errorf("Refresh = %v, version %s; want that it is a pipe, and 1", err, s.Live.Load().Version())
		}
		end.Close()
	case <-time.After(10 * time.Second):
		t.Error("Refresh waits for the other end of the pipe")
		end.Close()
		<-refreshed
	}
}

// TestLinksStay: files that are named by symbolic links, into a folder that a link leads to
// as well, are written where these lead, and share a lock with those who name them plainly.
func TestLinksStay(t *testing.T) {
	dir := t.TempDir()
	volume, link := filepath.Join(dir, "volume"), filepath.Join(dir, "link")
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"data": "volume", "link": "middle", "middle": "data/overlay"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	linked, plain := rules.File{Path: link}, rules.File{Path: filepath.Join(volume, "overlay")}
	version := ""
	for i, f := range []*rules.File{&linked, &plain, &linked} {
		next, ok, err := f.Swap(t.Context(), version, versionOf(strings.Repeat("x", i+1)))
		if err != nil || !ok {
			t.Fatalf("Swap %d: %t, %v", i, ok, err)
		}
		version = next
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v; want a link", info, err)
	}
	for _, name := range []string{"overlay", "overlay.lock"} {
		if _, err := os.Lstat(filepath.Join(volume, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 4 {
		t.Errorf("beside the links: %v, %v; want the folder alone", all, err)
	}
}
