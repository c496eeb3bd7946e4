package intercept

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
)

// engine is a Proxy that serves on loopback.
type engine struct {
	*Proxy
	t    *testing.T
	addr string
	log  *lines
	// end is Shutdown, once.
	end func(patience time.Duration) error
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// echo answers with what a request is.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s host=%s %s", r.Proto, r.Method, r.URL, r.Host, body)
}

// serve serves p. Its authority is for its hosts, its Next echoes if there is none.
func serve(t *testing.T, p *Proxy, hosts ...string) *engine {
	t.Helper()
	e := &engine{Proxy: p, t: t, log: new(lines)}
	p.Log = slog.New(slog.NewTextHandler(e.log, nil))
	if p.Next == nil {
		p.Next = http.HandlerFunc(echo)
	}
	var names []string
	for _, host := range hosts {
		target, err := ParseHost(host)
		if err != nil {
			t.Fatal(err)
		}
		p.Hosts, names = append(p.Hosts, target), append(names, target.Host)
	}
	if p.Authority == nil {
		p.Authority = authority(t, time.Now(), names...)
	}
	outer := httptest.NewServer(p)
	e.addr = outer.Listener.Addr().String()
	var once sync.Once
	e.end = func(patience time.Duration) (err error) {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			err = p.Shutdown(ctx)
		})
		return err
	}
	t.Cleanup(func() { _ = e.end(0); outer.Close() })
	return e
}

// dial connects to the proxy.
func (e *engine) dial() net.Conn {
	e.t.Helper()
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	e.t.Cleanup(func() { c.Close() })
	return c
}

// joined has a reader of its own, which may have read on.
type joined struct {
	net.Conn
	in *bufio.Reader
}

func (j joined) Read(p []byte) (int, error) { return j.in.Read(p) }
func (j joined) CloseWrite() error          { return closeWrite(j.Conn) }

// ask sends text and reads the header of an answer to CONNECT.
func (e *engine) ask(text string) (joined, *http.Response) {
	e.t.Helper()
	c := joined{Conn: e.dial()}
	c.in = bufio.NewReader(c.Conn)
	if _, err := io.WriteString(c, text); err != nil {
		e.t.Fatal(err)
	}
	a, err := http.ReadResponse(c.in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		e.t.Fatalf("%.80q: %v", text, err)
	}
	return c, a
}

// connect sends a CONNECT and wants 200.
func (e *engine) connect(target string) joined {
	e.t.Helper()
	c, a := e.ask("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
	if a.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(a.Body)
		e.t.Fatalf("CONNECT %s: %s %s", target, a.Status, body)
	}
	return c
}

// trust is the TLS of a client that trusts the authority alone.
func (e *engine) trust(name string) *tls.Config {
	return &tls.Config{RootCAs: poolOf(e.Authority.Certificate()), ServerName: name}
}

// poolOf trusts one certificate.
func poolOf(c *x509.Certificate) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(c)
	return roots
}

// secure is connect, and a handshake.
func (e *engine) secure(target, name string) *tls.Conn {
	e.t.Helper()
	c := tls.Client(e.connect(target), e.trust(name))
	if err := c.Handshake(); err != nil {
		e.t.Fatalf("TLS after CONNECT %s: %v", target, err)
	}
	return c
}

// client is one that uses the proxy, by HTTP/2 where that is wanted.
func (e *engine) client(http2 bool) *http.Client {
	t := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: e.addr}),
		TLSClientConfig: e.trust(""), ForceAttemptHTTP2: http2,
	}
	e.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: 20 * time.Second}
}

// get returns status and body of an answer.
func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	a, err := c.Get(url)
	if err != nil {
		return err.Error()
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", a.StatusCode, body)
}

// nothing is a log that nobody reads.
var nothing = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)

// until waits for a condition, for 10 s.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if operate.Await(ctx, done); ctx.Err() != nil {
		t.Fatalf("%s: not within 10 s", what)
	}
}
