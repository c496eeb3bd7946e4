//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestLogReaderGone: gateway and serve go on when nobody reads their log any more, as
// behind 2>&1 | head -1, and their refusals are logged nowhere.
func TestLogReaderGone(t *testing.T) {
	addr, all := limitedPrograms(t)
	for _, args := range all {
		c := program(t, args...)
		said, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for in := bufio.NewReader(said); !answers(addr); {
			if line, err := in.ReadString('\n'); err != nil {
				t.Fatalf("%s: %v: %s", args[0], err, line)
			}
		}
		said.Close()
		for range 5 {
			a, err := http.Get("http://" + addr + "/")
			if err != nil {
				t.Errorf("%s: %v, once nobody reads its log", args[0], err)
				break
			}
			_, _ = io.Copy(io.Discard, a.Body)
			a.Body.Close()
		}
		_ = c.Process.Signal(os.Interrupt)
		if err := c.Wait(); err != nil {
			t.Errorf("%s ended with %v, want 0", args[0], err)
		}
	}
}

// limitedPrograms are the arguments of gateway and serve on one address, behind a limit of
// one request an hour.
func limitedPrograms(t *testing.T) (addr string, args [][]string) {
	t.Helper()
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(to.Close)
	addr = clitest.Vacant(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"serve.yaml": fmt.Sprintf("version: 1\nrules: {file: rules.yaml}\ndrain: {delay: 0s}\ngateway: {listen: '%s', routes: {to: '%s'}}\n", addr, to.URL),
		"rules.yaml": "rules: {name: all, limits: 1/h}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return addr, [][]string{
		{"gateway", "-to", to.URL, "-listen", addr, "-limit", "1/h"},
		{"serve", filepath.Join(dir, "serve.yaml")},
	}
}

// TestLogReaderHangs: gateway and serve start, refuse and end when the pipe of their log is
// full and nobody reads it, as with a collector that hangs.
func TestLogReaderHangs(t *testing.T) {
	addr, all := limitedPrograms(t)
	for _, args := range all {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		_ = in.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := in.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the pipe is not full: %v", err)
		}
		c := program(t, args...)
		c.Stderr = in
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		in.Close()
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for begun := time.Now(); !answers(addr) && time.Since(begun) < 30*time.Second; {
			time.Sleep(10 * time.Millisecond)
		}
		for range 5 {
			a, err := patient.Get("http://" + addr + "/")
			if err != nil {
				t.Errorf("%s: %v, while its log hangs", args[0], err)
				break
			}
			if a.Body.Close(); a.StatusCode != http.StatusTooManyRequests {
				t.Errorf("%s: %s, want 429", args[0], a.Status)
			}
		}
		_ = c.Process.Signal(os.Interrupt)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s ended with %v, want 0", args[0], err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s does not end while its log hangs", args[0])
			_ = c.Process.Kill()
			<-ended
		}
	}
}

// patient waits for an answer as long as a test should.
var patient = http.Client{Timeout: 10 * time.Second}

// answers reports whether a request is answered.
func answers(addr string) bool {
	a, err := patient.Get("http://" + addr + "/")
	if err == nil {
		a.Body.Close()
	}
	return err == nil
}
