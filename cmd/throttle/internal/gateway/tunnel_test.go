package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestTunnelHalfClosed: either end of an upgraded connection may say that nothing
// follows, and what the other one sends after that arrives.
func TestTunnelHalfClosed(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		c, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if r.URL.Path == "/first" { // and the caller second
			fmt.Fprint(c, "asked")
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Error(err)
			}
		}
		got, err := io.ReadAll(in)
		if err != nil || string(got) != "all of it" {
			t.Errorf("%s: the service got %q, %v", r.URL.Path, got, err)
		}
		if r.URL.Path == "/second" {
			fmt.Fprint(c, "asked")
		}
	})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
	for _, path := range []string{"/first", "/second"} {
		c := e.dial()
		io.WriteString(c, lines("GET "+path+" HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket"))
		in := bufio.NewReader(c)
		if a, err := http.ReadResponse(in, nil); err != nil || a.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", a, err)
		}
		var got strings.Builder
		if path == "/first" {
			io.Copy(&got, in)
		}
		io.WriteString(c, "all of it")
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&got, in); err != nil || got.String() != "asked" {
			t.Errorf("%s: the caller got %q, %v", path, got.String(), err)
		}
	}
}
