//go:build unix

package certificate

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestPipe: files that are replaced by pipes are not waited for: the old pair stays in
// use, and the log says why.
func TestPipe(t *testing.T) {
	p := newPair(t)
	p.put(clitest.Certificate(t, at.Add(-time.Hour), at.AddDate(1, 0, 0)))
	if err := p.Load(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.Key); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(p.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(p.Key, os.O_RDWR, 0) // ends those who wait, when it is closed
	if err != nil {
		t.Fatal(err)
	}
	looked := make(chan bool)
	go func() { looked <- p.At(at.Add(2*time.Second)) != nil }()
	select {
	case ok := <-looked:
		if text := p.said(); !ok || !strings.Contains(text, "stay as they are") || !strings.Contains(text, "key: is a pipe") {
			t.Errorf("in use: %v, logged %q", ok, text)
		}
		end.Close()
	case <-time.After(10 * time.Second):
		t.Error("it waits for the other end of the pipe")
		end.Close()
		<-looked
	}
}
