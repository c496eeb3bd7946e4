//go:build unix

package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestNamedSockets: the name of a Unix socket, which its owner chooses, is no address,
// neither on a connection nor in a header of the PROXY protocol: it is trusted with nothing.
func TestNamedSockets(t *testing.T) {
	t.Chdir(t.TempDir()) // a name with slashes is no address
	to := service(t, header("X-Real-Ip", "X-Forwarded-For", "X-Customer"))
	trusting := func(l Listen) *engine {
		return serve(t, Config{
			Listen:   []Listen{l},
			Identity: Believed{Header: "X-Customer", From: network(t, "10.0.0.0/8")},
			Control:  control(t, `{"rules": [], "proxies": {"trusted": ["10.0.0.0/8"]}}`),
			Routes:   []Route{{To: []string{to}}},
		})
	}
	request := lines("GET / HTTP/1.1", "Host: h", "X-Customer: acme", "X-Forwarded-For: 192.0.2.9", "Connection: close")
	names := []string{"10.0.0.1:80", "192.0.2.7:80", "[2001:db8::1]:80", "plain"}

	by, err := net.Listen("unix", "gateway")
	if err != nil {
		t.Fatal(err)
	}
	e := trusting(Listen{Addr: "gateway", Listener: by})
	for _, name := range names {
		c, err := net.DialUnix("unix", &net.UnixAddr{Name: name, Net: "unix"}, &net.UnixAddr{Name: e.addr, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		if got := asked(t, c, request); got != "" {
			t.Errorf("from the socket %s the service sees %s", name, got)
		}
	}

	e = trusting(Listen{Addr: "127.0.0.1:0", ProxyProtocol: network(t, "127.0.0.0/8")})
	for _, name := range names {
		ends := make([]byte, 216) // source and destination
		copy(ends, name)
		if got := asked(t, e.dial(), "\r\n\r\n\x00\r\nQUIT\n\x21\x31\x00\xd8"+string(ends)+request); got != "" {
			t.Errorf("from the socket %s in front of the proxy the service sees %s", name, got)
		}
	}
}

// asked sends text and returns the body of the answer, which must be 200.
func asked(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 {
		t.Fatalf("%d, %v", a.StatusCode, err)
	}
	return string(body)
}
