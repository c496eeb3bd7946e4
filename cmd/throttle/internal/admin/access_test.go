package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
)

// TestTokens: without a token nothing but the probes is answered; a token that
// may read does not write; a bad one is none.
func TestTokens(t *testing.T) {
	var log locked
	r := start(t, Config{Tokens: tokens, Pprof: true, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	for _, c := range []struct {
		method, path, secret string
		want                 int
	}{
		{"GET", "/livez", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/metrics", "", 401},
		{"GET", "/metrics", readSecret, 200},
		{"GET", "/api/v1/status", "", 401},
		{"GET", "/api/v1/status", readSecret, 200},
		{"GET", "/api/v1/status", writeSecret, 200},
		{"GET", "/api/v1/status", readSecret + "x", 401},
		{"GET", "/api/v1/status", readSecret[:len(readSecret)-1], 401},
		{"GET", "/api/v1/status", "dash", 401},
		{"GET", "/debug/pprof/cmdline", readSecret, 403},
		{"GET", "/debug/pprof/cmdline", writeSecret, 200},
		{"GET", "/debug/pprof/cmdline", "", 401},
		{"POST", "/api/v1/status", writeSecret, 404},
		{"GET", "/api/v1/status/../../../etc/passwd", writeSecret, 404},
		{"GET", "/nothing", "", 404},
	} {
		var fields []string
		if c.secret != "" {
			fields = []string{"Authorization", "Bearer " + c.secret}
		}
		a := r.send(c.method, c.path, "", fields...)
		if a.status != c.want {
			t.Errorf("%s %s with %q: %d, want %d: %s", c.method, c.path, c.secret, a.status, c.want, a.body)
		}
		if c.want == 401 && a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: 401 without WWW-Authenticate", c.method, c.path)
		}
		if c.want >= 400 && a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: an error of type %q", c.method, c.path, a.header.Get("Content-Type"))
		}
		if csp := a.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'self'") {
			t.Errorf("%s %s: CSP %q", c.method, c.path, csp)
		}
	}
	if said := log.String(); !strings.Contains(said, "admin refused") || strings.Contains(said, readSecret[:10]) {
		t.Errorf("the log says %s", said)
	}
	for _, scheme := range []string{"Basic " + readSecret, readSecret, "Bearer", "Bearer  "} {
		if a := r.send("GET", "/api/v1/status", "", "Authorization", scheme); a.status != 401 {
			t.Errorf("Authorization %q: %d", scheme, a.status)
		}
	}
}

// TestNoPprof: profiles are served where that is asked for only.
func TestNoPprof(t *testing.T) {
	if a := start(t, Config{}).send("GET", "/debug/pprof/", ""); a.status != 404 {
		t.Errorf("/debug/pprof/ without Pprof: %d", a.status)
	}
}

// TestBeyondLoopback: a listener that others reach, with nothing to know callers
// by, is refused with one line and exit code 2.
func TestBeyondLoopback(t *testing.T) {
	for _, c := range []struct {
		address string
		config  Config
		want    string
	}{
		{"0.0.0.0:0", Config{}, "can be reached by others: set a token"},
		{"[::]:0", Config{}, "can be reached by others"},
		{"0.0.0.0:0", Config{TLS: &tls.Config{}}, "can be reached by others"},
		{"0.0.0.0:0", Config{TLS: &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven}}, "can be reached by others"},
		{"127.0.0.1:0", Config{Tokens: []Token{{"short", "0123456789", true}}}, "has 10 bytes; it must have at least 16"},
		{"127.0.0.1:0", Config{Tokens: []Token{{"a", readSecret, false}, {"b", readSecret, true}}}, "another token has the same secret"},
		{"127.0.0.1:0", Config{OTLP: "collector:4318"}, "must be like http://collector:4318"},
	} {
		l, err := net.Listen("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // one that serves is a mistake
		err = Serve(ctx, c.config, l)
		cancel()
		if code := exit.Code(err, &said); code != 2 || !strings.Contains(said.String(), c.want) || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("%s %+v: code %d, %q; want 2 and %q", c.address, c.config, code, said.String(), c.want)
		}
		if _, err := l.Accept(); err == nil {
			t.Error("the listener is open still")
		}
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	var log locked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Serve(ctx, Config{Tokens: tokens, Log: slog.New(slog.NewTextHandler(&log, nil))}, l); err != nil {
		t.Errorf("with tokens: %v", err)
	}
	if !strings.Contains(log.String(), "in the clear") {
		t.Errorf("tokens without TLS are not warned of: %s", log.String())
	}
}

// TestRebinding: a request with the name of another host is refused, whatever it
// asks for.
func TestRebinding(t *testing.T) {
	r := start(t, Config{Hosts: []string{"Ops.Example.org"}})
	for host, want := range map[string]int{
		"": 200, "localhost:6070": 200, "LOCALHOST": 200, "localhost.": 200, "[::1]:6070": 200, "127.0.0.1": 200, "10.1.2.3:80": 200,
		"ops.example.org": 200, "ops.example.org:6070": 200,
		"evil.example": 421, "evil.example:6070": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421,
		"xn--localhost": 421, "ops.example.org.evil.example": 421, "127.0.0.1:80:80": 421, "0x7f000001": 421,
	} {
		if a := r.send("GET", "/api/v1/status", "", "Host", host); a.status != want || want == 421 && !strings.Contains(a.body, "add it to admin.hosts") {
			t.Errorf("Host %q: %d, want %d: %s", host, a.status, want, a.body)
		}
	}
}

// TestOtherOrigins: a page of another origin neither writes nor reads.
func TestOtherOrigins(t *testing.T) {
	r := start(t, Config{})
	for _, c := range []struct {
		method, path string
		fields       []string
		want         int
	}{
		{"POST", "/api/v1/kill", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"POST", "/api/v1/kill", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"POST", "/api/v1/kill", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403},
		{"POST", "/api/v1/kill", []string{"Origin", "http://evil.example"}, 403},
		{"POST", "/api/v1/kill", []string{"Origin", "null"}, 403},
		{"GET", "/api/v1/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"GET", "/api/v1/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		{"GET", "/api/v1/status", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"GET", "/api/v1/status", []string{"Sec-Fetch-Site", "none"}, 200},
	} {
		if a := r.send(c.method, c.path, "", c.fields...); a.status != c.want {
			t.Errorf("%s %s %v: %d, want %d: %s", c.method, c.path, c.fields, a.status, c.want, a.body)
		}
		if a := r.send(c.method, c.path, "", c.fields...); a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s allows other origins", c.method, c.path)
		}
	}
}

// TestUnixSocket: the API by a unix socket, for those that may open it.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	r := startOn(t, Config{}, l)
	r.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	r.base = "http://throttle"
	if a := r.send("GET", "/api/v1/status", ""); a.status != 200 {
		t.Errorf("by the unix socket: %d %s", a.status, a.body)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is there still")
	}
}

// TestBigHeaders: a large header costs one connection and nothing else.
func TestBigHeaders(t *testing.T) {
	r := start(t, Config{})
	if got := r.raw("GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("a header of 64 kB: %.60q", got)
	}
	if a := r.send("GET", "/livez", ""); a.status != 200 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// TestConnections: connections beyond the bound are closed, and their room is
// free again when the others end.
func TestConnections(t *testing.T) {
	r := start(t, Config{})
	var all []net.Conn
	closed := 0
	for range maxConns + 8 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, c := range all[maxConns:] {
		if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil { // before those that are held end
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if closed != 8 {
		t.Errorf("%d of 8 connections beyond the bound were closed", closed)
	}
	for _, c := range all {
		c.Close()
	}
	for i := 0; ; i++ {
		if a, err := r.http.Get(r.base + "/livez"); err == nil {
			a.Body.Close()
			break
		} else if i > 1000 {
			t.Fatalf("no room after the others have ended: %v", err)
		}
	}
}
