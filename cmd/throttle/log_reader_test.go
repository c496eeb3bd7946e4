//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestLogReaderGone: gateway and serve go on when nobody reads their log any more, as
// behind 2>&1 | head -1, and their refusals are logged nowhere.
func TestLogReaderGone(t *testing.T) {
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(to.Close)
	addr := clitest.Vacant(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"serve.yaml": fmt.Sprintf("version: 1\nrules: {file: rules.yaml}\ndrain: {delay: 0s}\ngateway: {listen: '%s', routes: {to: '%s'}}\n", addr, to.URL),
		"rules.yaml": "rules: {name: all, limits: 1/h}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"gateway", "-to", to.URL, "-listen", addr, "-limit", "1/h"},
		{"serve", filepath.Join(dir, "serve.yaml")},
	} {
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

// answers reports whether a request is answered.
func answers(addr string) bool {
	a, err := http.Get("http://" + addr + "/")
	if err == nil {
		a.Body.Close()
	}
	return err == nil
}
