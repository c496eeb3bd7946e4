package intercept

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestIntercept: requests after CONNECT reach Next with the target in their URL, by HTTP/1.1
// and by HTTP/2, and one that is none passes as it is.
func TestIntercept(t *testing.T) {
	e := serve(t, &Proxy{}, "api.example.com", "api.example.com:8443", "10.1.2.3", "[fd00::1]:444")
	for _, c := range []struct {
		url, want string
		http2     bool
	}{
		{"https://api.example.com/a?b=c", "200 HTTP/1.1 GET https://api.example.com/a?b=c host=api.example.com ", false},
		{"https://api.example.com/a?b=c", "200 HTTP/2.0 GET https://api.example.com/a?b=c host=api.example.com ", true},
		{"https://api.example.com:8443/", "200 HTTP/2.0 GET https://api.example.com:8443/ host=api.example.com:8443 ", true},
		{"https://10.1.2.3/", "200 HTTP/2.0 GET https://10.1.2.3/ host=10.1.2.3 ", true},
		{"https://[fd00::1]:444/", "200 HTTP/1.1 GET https://[fd00::1]:444/ host=[fd00::1]:444 ", false},
		{"http://plain.example/x", "200 HTTP/1.1 GET http://plain.example/x host=plain.example ", false},
	} {
		if got := get(t, e.client(c.http2), c.url); got != c.want {
			t.Errorf("GET %s: %s, want %s", c.url, got, c.want)
		}
	}
	if text := e.log.String(); text != "" {
		t.Errorf("logged %s", text)
	}
}

// TestConnectRefused: a CONNECT that is not served gets a status, a reason for programs and
// one line; nothing is dialled for it.
func TestConnectRefused(t *testing.T) {
	tunnel, err := ParseList([]string{"*.example.org", "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	e := serve(t, &Proxy{Tunnel: tunnel}, "api.example.com")
	for _, c := range []struct {
		text   string
		status int
		reason string
		want   string
	}{
		{"CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n", 403, "not-listed", "evil.com:443 is not listed, neither"},
		{"CONNECT evil.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", 403, "not-listed", "evil.com:443 is not listed, neither"},
		{"CONNECT api.example.com:80 HTTP/1.1\r\nHost: a\r\n\r\n", 403, "not-listed", "of this host it is port 443"},
		{"CONNECT x.example.org:22 HTTP/1.1\r\nHost: a\r\n\r\n", 403, "not-listed", "of this host it is port 443"},
		{"CONNECT x.api.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n", 403, "not-listed", "is not listed, neither"},
		{"CONNECT 127.0.0.1:2 HTTP/1.1\r\nHost: a\r\n\r\n", 403, "not-listed", "of this host it is port 1"},
		{"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: a\r\n\r\n", 502, "unreachable", "connection refused"},
		{"CONNECT api.example.com:0 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request", "number from 1 to 65535"},
		{"CONNECT user:pw@api.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request", "CONNECT "},
		{"CONNECT 2130706433:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request", "no IPv4 address"},
		{"CONNECT /api.example.com HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request", "want HOST:PORT"},
		{"CONNECT " + strings.Repeat("a", 9000) + ":443 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad-request", "longer than 253"},
		{"CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 400, "bad-request", "has no body"},
		{"CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad-request", "has no body"},
	} {
		conn, a := e.ask(c.text)
		body, _ := io.ReadAll(io.LimitReader(conn, a.ContentLength))
		if a.StatusCode != c.status || a.Header.Get("Throttle-Generated") != c.reason || !strings.Contains(string(body), c.want) || strings.Count(string(body), "\n") != 1 || len(body) > 300 {
			t.Errorf("%.80q: %d %v %q; want %d %s %q", c.text, a.StatusCode, a.Header, body, c.status, c.reason, c.want)
		}
	}
	if n := e.open.counts(); n != [states]int{} {
		t.Errorf("connections are counted still: %v", n)
	}
	if text := e.log.String(); !strings.Contains(text, `msg="CONNECT is refused" target=evil.com:443 status=403 why="evil.com:443 is not listed`) {
		t.Errorf("logged %s", text)
	}
}

// TestOddForms: a target in capitals or with a dot at its end is the one that is listed, and
// what was sent with the CONNECT is read after it.
func TestOddForms(t *testing.T) {
	e := serve(t, &Proxy{}, "api.example.com")
	for _, target := range []string{"API.Example.COM:443", "api.example.com.:443"} {
		c := e.secure(target, "api.example.com")
		if got := roundTrip(t, c, "GET /x HTTP/1.1\r\nHost: Api.Example.com\r\n\r\n"); !strings.Contains(got, "200 OK") || !strings.Contains(got, "https://api.example.com/x host=Api.Example.com") {
			t.Errorf("after CONNECT %s: %s", target, got)
		}
	}
	raw := e.dial()
	early := &eager{joined: joined{raw, bufio.NewReader(raw)}, first: "CONNECT api.example.com:443 HTTP/1.0\r\n\r\n"}
	c := tls.Client(early, e.trust("api.example.com"))
	if got := roundTrip(t, c, "GET /early HTTP/1.1\r\nHost: api.example.com\r\n\r\n"); !strings.Contains(got, "/early host=api.example.com") {
		t.Errorf("a ClientHello with the CONNECT: %s", got)
	}
}

// eager sends the CONNECT and what follows at once, and reads the answer after that.
type eager struct {
	joined
	first string
	read  bool
}

func (e *eager) Write(p []byte) (int, error) {
	text := e.first
	e.first = ""
	_, err := e.Conn.Write(append([]byte(text), p...))
	return len(p), err
}

func (e *eager) Read(p []byte) (int, error) {
	if !e.read {
		e.read = true
		if a, err := http.ReadResponse(e.in, &http.Request{Method: http.MethodConnect}); err != nil || a.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%v, %v", a, err)
		}
	}
	return e.in.Read(p)
}

// roundTrip sends a request and returns the answer, as it was sent.
func roundTrip(t *testing.T, c *tls.Conn, text string) string {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		return err.Error()
	}
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return fmt.Sprintln(a.Status, a.Header, string(body), err, "close:", a.Close)
}

// TestMisdirected: a request for another host than that of the CONNECT is refused, whichever
// way it names it; the certificate is that of the target all the same.
func TestMisdirected(t *testing.T) {
	e := serve(t, &Proxy{}, "api.example.com", "other.example.com", "10.0.0.1:8443")
	for _, c := range []struct{ target, name, text, want string }{
		{"api.example.com:443", "api.example.com", "GET / HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", "200 OK"},
		{"api.example.com:443", "", "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "200 OK"},
		{"api.example.com:443", "api.example.com", "GET https://api.example.com/y HTTP/1.1\r\nHost: other.example.com\r\n\r\n", "https://api.example.com/y host=api.example.com"},
		{"api.example.com:443", "api.example.com", "GET http://api.example.com/y HTTP/1.1\r\nHost: a\r\n\r\n", "https://api.example.com/y host=api.example.com"},
		{"api.example.com:443", "api.example.com", "GET / HTTP/1.1\r\nHost: other.example.com\r\n\r\n", `421 Misdirected Request`},
		{"api.example.com:443", "api.example.com", "GET / HTTP/1.1\r\nHost: api.example.com:8443\r\n\r\n", `421 Misdirected Request`},
		{"api.example.com:443", "api.example.com", "GET / HTTP/1.0\r\n\r\n", "200 OK"}, // it has no Host
		{"api.example.com:443", "api.example.com", "OPTIONS * HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "HTTP/1.1 OPTIONS https://api.example.com/* host=api.example.com"},
		{"api.example.com:443", "api.example.com", "GET https://other.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", `421 Misdirected Request`},
		{"api.example.com:443", "other.example.com", "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n", `TLS names the server "other.example.com", after CONNECT api.example.com:443`},
		{"api.example.com:443", "api.example.com", "CONNECT other.example.com:443 HTTP/1.1\r\nHost: other.example.com\r\n\r\n", "405 Method Not Allowed"},
		{"10.0.0.1:8443", "", "GET / HTTP/1.1\r\nHost: 10.0.0.1:8443\r\n\r\n", "200 OK"},
		{"10.0.0.1:8443", "", "GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", "421 Misdirected Request"},
		{"10.0.0.1:8443", "api.example.com", "GET / HTTP/1.1\r\nHost: 10.0.0.1:8443\r\n\r\n", "421 Misdirected Request"},
	} {
		inside := tls.Client(e.connect(c.target), &tls.Config{InsecureSkipVerify: true, ServerName: c.name})
		if got := roundTrip(t, inside, c.text); !strings.Contains(got, c.want) {
			t.Errorf("after CONNECT %s, with SNI %q, %q: %s; want %q", c.target, c.name, c.text, got, c.want)
		}
		host, _, _ := strings.Cut(c.target, ":")
		if err := inside.ConnectionState().PeerCertificates[0].VerifyHostname(host); err != nil {
			t.Errorf("after CONNECT %s: %v", c.target, err)
		}
	}
}

// TestToken: without the token there is nothing, also for what is not CONNECT; Next does not
// see it.
func TestToken(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header) })
	e := serve(t, &Proxy{Token: "s3cret", Next: next}, "api.example.com")
	basic := func(s string) string {
		return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(s)) + "\r\n"
	}
	for field, status := range map[string]int{
		"": 407, basic("x:wrong"): 407, basic("s3cret"): 407, "Proxy-Authorization: s3cret\r\n": 407, "Authorization: Basic eDpzM2NyZXQ=\r\n": 407,
		basic("x:s3cret"): 200, basic(":s3cret"): 200,
	} {
		for _, line := range []string{"CONNECT api.example.com:443", "GET http://api.example.com/", "GET /path"} {
			c, a := e.ask(line + " HTTP/1.1\r\nHost: api.example.com\r\n" + field + "\r\n")
			if a.StatusCode != status || (a.Header.Get("Proxy-Authenticate") != "") != (status == 407) {
				t.Errorf("%s with %q: %v, want %d", line, field, a, status)
			}
			if body, _ := io.ReadAll(io.LimitReader(c, max(a.ContentLength, 0))); strings.Contains(string(body), "Proxy-Authorization:") {
				t.Errorf("%s: Next sees %s", line, body)
			}
		}
	}
}

// TestHandshakes: a caller that trusts the authority not, speaks no TLS, or nothing, ends
// with a line of the log that says so, and makes room.
func TestHandshakes(t *testing.T) {
	for _, c := range []struct {
		name, want string
		call       func(e *engine, c joined)
	}{
		{"no trust", "the caller does not trust the CA in ", func(e *engine, c joined) {
			if err := tls.Client(c, &tls.Config{ServerName: "api.example.com"}).Handshake(); err == nil {
				e.t.Error("a caller trusts an authority that it does not know")
			}
		}},
		{"plain", "speaks no TLS after CONNECT", func(e *engine, c joined) {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
			if text, _ := io.ReadAll(c); !strings.HasPrefix(string(text), "HTTP/1.1 400 Bad Request\r\n") || !strings.HasSuffix(string(text), "after CONNECT comes TLS\n") {
				e.t.Errorf("plain HTTP: %q", text)
			}
		}},
		{"silence", "deadline exceeded", func(e *engine, c joined) { _, _ = io.ReadAll(c) }},
		{"half a hello", "deadline exceeded", func(_ *engine, c joined) {
			io.WriteString(c, "\x16\x03\x01\x02\x00\x01\x00")
			_, _ = io.ReadAll(c)
		}},
		{"gone", "EOF", func(_ *engine, c joined) { c.Close() }},
		{"old TLS", "unsupported versions", func(e *engine, c joined) {
			if err := tls.Client(c, &tls.Config{ServerName: "api.example.com", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}).Handshake(); err == nil {
				e.t.Error("TLS 1.1 is spoken")
			}
		}},
	} {
		p := new(Proxy)
		if c.want == "deadline exceeded" {
			p.HeaderTimeout = 200 * time.Millisecond
		}
		e := serve(t, p, "api.example.com")
		c.call(e, e.connect("api.example.com:443"))
		until(t, c.name, func() bool { return e.open.counts() == [states]int{} && e.log.String() != "" })
		if text := e.log.String(); !strings.Contains(text, c.want) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: logged %s, want %q", c.name, text, c.want)
		}
	}
}

// TestNoCertificate: an authority that has ended, or does not permit a host that is listed,
// is an answer to the CONNECT, which says what to do.
func TestNoCertificate(t *testing.T) {
	old := authority(t, time.Now().Add(-Life-time.Minute), "api.example.com")
	for want, e := range map[string]*engine{
		"run 'throttle ca -renew -dir ":        serve(t, &Proxy{Authority: old}, "api.example.com"),
		"does not permit api.example.com; run": serve(t, &Proxy{Authority: authority(t, time.Now(), "example.org")}, "api.example.com"),
	} {
		c, a := e.ask("CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n")
		body, _ := io.ReadAll(io.LimitReader(c, a.ContentLength))
		if a.StatusCode != http.StatusBadGateway || a.Header.Get("Throttle-Generated") != "certificate" || !strings.Contains(string(body), want) {
			t.Errorf("%d %s, want 502 %q", a.StatusCode, body, want)
		}
	}
}
