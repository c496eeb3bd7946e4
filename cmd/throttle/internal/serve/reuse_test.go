//go:build linux || darwin

package serve

import (
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
)

// TestReusePort: the next program listens where the one before still does, both say where,
// and an address that another program has for itself is a mistake in the file.
func TestReusePort(t *testing.T) {
	text := strings.Replace(files, "listen: 127.0.0.1:0", "listen: {address: 'AT', reuse_port: true}", 1)
	dir := folder(t, hello, "f.yaml", strings.Replace(text, "AT", "127.0.0.1:0", 1), "rules.yaml", twoAnHour)
	first := start(t, dir, "f.yaml")
	at := strings.TrimPrefix(first.gateway, "http://")
	again := strings.Replace(text, "AT", at, 1)
	next := start(t, folder(t, hello, "f.yaml", again, "rules.yaml", twoAnHour), "f.yaml")
	first.stop()
	if got := next.statuses(1, "/a/x", "K", "1"); next.gateway != first.gateway || got != "200" {
		t.Errorf("the next program listens on %q and answers %s, want %s and 200", next.gateway, got, first.gateway)
	}
	alone := httptest.NewServer(nil)
	t.Cleanup(alone.Close)
	taken := strings.Replace(text, "AT", alone.Listener.Addr().String(), 1)
	dir = folder(t, hello, "f.yaml", taken, "rules.yaml", twoAnHour)
	err := Run(t.Context(), []string{filepath.Join(dir, "f.yaml")}, strings.NewReader(""), io.Discard, io.Discard)
	if code := exit.Code(err, io.Discard); code != 2 || !strings.Contains(err.Error(), "f.yaml:5:11: gateway.listen: listen") {
		t.Errorf("on an address that is taken: %v, exit code %d; want its place, and 2", err, code)
	}
}
