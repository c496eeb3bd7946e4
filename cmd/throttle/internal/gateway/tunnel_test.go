package gateway

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
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

// upgrades upgrades a connection to what a request asks for, and echoes it; to other
// requests it says their protocol.
func upgrades(w http.ResponseWriter, r *http.Request) {
	protocol := r.Header.Get("Upgrade")
	if protocol == "" {
		fmt.Fprint(w, r.Proto)
		return
	}
	c, in, err := http.NewResponseController(w).Hijack()
	if err != nil { // it came by HTTP/2
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	defer c.Close()
	fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
	io.Copy(c, in)
}

// secureServices start a service by TLS that speaks HTTP/1.1 and HTTP/2, and one that
// speaks HTTP/2 alone.
func secureServices(t *testing.T) (both, alone *httptest.Server) {
	t.Helper()
	both, alone = httptest.NewUnstartedServer(http.HandlerFunc(upgrades)), httptest.NewUnstartedServer(http.HandlerFunc(upgrades))
	both.EnableHTTP2, alone.EnableHTTP2 = true, true
	alone.Config.ErrorLog = log.New(io.Discard, "", 0)
	alone.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.SupportedProtos[0] == "h2" {
			return nil, nil
		}
		c := alone.TLS.Clone()
		c.NextProtos = []string{"h3"} // else crypto/tls would not refuse http/1.1
		return c, nil
	}}
	both.StartTLS()
	alone.StartTLS()
	t.Cleanup(both.Close)
	t.Cleanup(alone.Close)
	return both, alone
}

// TestTunnelBesideHTTP2: to an upstream that speaks HTTP/2 too, connections are upgraded
// by HTTP/1.1. One that speaks HTTP/2 alone serves the request without the upgrade, and
// is not ejected by it.
func TestTunnelBesideHTTP2(t *testing.T) {
	both, alone := secureServices(t)
	secure := UpstreamTLS{CA: writePEM(t, "CERTIFICATE", both.Certificate().Raw), ServerName: "example.com"}
	e := serve(t, Config{Routes: []Route{
		{Match: "/both", To: []string{both.URL}, TLS: secure, Upgrades: []string{"WebSocket", "chat"}},
		{Match: "/alone", To: []string{alone.URL}, TLS: secure},
		{Match: "/h2c", To: []string{h2cService(t)}},
	}})
	for _, x := range []struct {
		path, protocol string
		want           int
	}{
		{"/both", "", 200},
		{"/both", "websocket", 101},
		{"/both", "chat", 101},
		{"/both", "", 200},
		{"/alone", "", 200},
		{"/alone", "websocket", 200},
		{"/h2c", "websocket", 200},
	} {
		fields := []string{"GET " + x.path + " HTTP/1.1", "Host: h"}
		if x.protocol != "" {
			fields = append(fields, "Connection: Upgrade", "Upgrade: "+x.protocol)
		}
		c := e.dial()
		io.WriteString(c, lines(fields...))
		in := bufio.NewReader(c)
		a, err := http.ReadResponse(in, nil)
		if err != nil || a.StatusCode != x.want {
			t.Errorf("%s %s: %v, %v, want %d", x.path, x.protocol, a, err, x.want)
			continue
		}
		if x.want == 101 {
			io.WriteString(c, "ping")
			got := make([]byte, 4)
			if _, err := io.ReadFull(in, got); err != nil || string(got) != "ping" {
				t.Errorf("%s %s: %q, %v, want the echo of ping", x.path, x.protocol, got, err)
			}
		} else if body, err := io.ReadAll(a.Body); x.path != "/h2c" && string(body) != "HTTP/2.0" {
			t.Errorf("%s %s: %q, %v, want HTTP/2.0", x.path, x.protocol, body, err)
		}
	}
	for _, s := range e.Upstreams() {
		if !s.Until.IsZero() {
			t.Errorf("%s is ejected until %v", s.Address, s.Until)
		}
	}
}
