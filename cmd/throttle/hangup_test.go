//go:build unix

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// TestGatewayHangup: SIGHUP reads the rules of a gateway again, and does not end one that
// has none.
func TestGatewayHangup(t *testing.T) {
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(to.Close)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules: {name: all, limits: 0/s}\n")
	for _, limited := range [][]string{{"-rules", path, "-refresh", "1h"}, {"-limit", "1000/s"}} {
		addr := clitest.Vacant(t)
		c := program(t, append([]string{"gateway", "-to", to.URL, "-listen", addr}, limited...)...)
		var log bytes.Buffer
		c.Stderr = &log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the gateway answers", func() bool { return answers(addr) })
		write("rules: []\n")
		if err := c.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the gateway admits requests after SIGHUP", func() bool {
			a, err := http.Get("http://" + addr + "/")
			if err != nil {
				t.Fatalf("%v after SIGHUP", err)
			}
			a.Body.Close()
			return a.StatusCode == http.StatusOK
		})
		_ = c.Process.Signal(os.Interrupt)
		if err := c.Wait(); err != nil {
			t.Errorf("gateway %v ended with %v, want 0: %s", limited, err, &log)
		}
	}
}
