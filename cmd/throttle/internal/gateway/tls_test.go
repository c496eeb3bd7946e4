package gateway

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/internal/bubble"
)

// files are a certificate, which is its own authority, and its key.
type files struct{ cert, key string }

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newCertificate makes a certificate for an address.
func newCertificate(t *testing.T, address string) files {
	t.Helper()
	return certificateUntil(t, address, time.Now().Add(time.Hour))
}

func certificateUntil(t *testing.T, address string, end time.Time) files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: address}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: end.Add(-2 * time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return files{writePEM(t, "CERTIFICATE", der), writePEM(t, "PRIVATE KEY", private)}
}

func (f files) pool(t *testing.T) *x509.CertPool {
	t.Helper()
	pool, err := certificate.Authorities(f.cert)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// replace puts other files in the place of f, as a renewal does.
func (f files) replace(t *testing.T, by files) {
	t.Helper()
	for from, to := range map[string]string{by.cert: f.cert, by.key: f.key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(time.Second)
		if err := os.Chtimes(to, later, later); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMutualTLS: with an authority for callers none comes in without a
// certificate of it, and handshakes look at the files again.
func TestMutualTLS(t *testing.T) {
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	server, caller, other := newCertificate(t, "127.0.0.1"), newCertificate(t, "127.0.0.2"), newCertificate(t, "127.0.0.3")
	e := serve(t, Config{
		Listen: []Listen{{Addr: "127.0.0.1:0", TLS: &TLS{Cert: server.cert, Key: server.key, ClientCA: caller.cert}}},
		Routes: []Route{{To: []string{to}}},
	})
	status := func(trust, of files) int {
		t.Helper()
		config := &tls.Config{RootCAs: trust.pool(t)}
		if of.cert != "" {
			pair, err := tls.LoadX509KeyPair(of.cert, of.key)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "https://"+e.addr, nil)
		a, err := transport.RoundTrip(r)
		if err != nil {
			return 0
		}
		a.Body.Close()
		return a.StatusCode
	}
	if got := status(server, caller); got != 200 {
		t.Errorf("with a certificate: %d, want 200", got)
	}
	if a, b := status(server, files{}), status(server, other); a != 0 || b != 0 {
		t.Errorf("without: %d, with a foreign one: %d; want no connection", a, b)
	}
	renewed := newCertificate(t, "127.0.0.1")
	server.replace(t, renewed)
	for range 300 { // the files are looked at once a second
		if status(renewed, caller) == 200 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("a new certificate is not in use after 3 s")
}

// TestUpstreamCertificate: an upstream is shown the certificate of the route, and
// the next one once its files change; wrong ones never.
func TestUpstreamCertificate(t *testing.T) {
	f := newCertificate(t, "127.0.0.2")
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	of := UpstreamTLS{CA: writePEM(t, "CERTIFICATE", s.Certificate().Raw), Cert: f.cert, Key: f.key, ServerName: "example.com"}
	e := serve(t, Config{Routes: []Route{{To: []string{s.URL}, TLS: of}}})
	if status, shown := do(t, e.request("GET", "/", nil)); status != 200 || shown != "127.0.0.2" {
		t.Errorf("%d, the upstream is shown %q", status, shown)
	}
	renewed := certificateUntil(t, "127.0.0.3", time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)) // counts in the bubble
	bubble.Test(t, func(t *testing.T) {
		c, err := of.Config(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		shown := func() string {
			t.Helper()
			time.Sleep(time.Second)
			pair, err := c.GetClientCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return pair.Leaf.Subject.CommonName
		}
		first := shown()
		f.replace(t, renewed)
		second := shown()
		if err := os.WriteFile(f.key, []byte("no key"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := first + " " + second + " " + shown(); got != "127.0.0.2 127.0.0.3 127.0.0.3" {
			t.Errorf("shown %s, want the second from its change on", got)
		}
	})
	if _, err := of.Config(nil); err == nil {
		t.Error("a route with a wrong key is put into use")
	}
}

// TestTLSFiles: a gateway with wrong files does not start, and says which.
func TestTLSFiles(t *testing.T) {
	good := newCertificate(t, "127.0.0.1")
	for _, c := range []TLS{{Cert: good.cert, Key: good.cert}, {Cert: "none.pem", Key: good.key}, {Cert: good.cert, Key: good.key, ClientCA: good.key}} {
		g, err := New(Config{Listen: []Listen{{Addr: "127.0.0.1:0", TLS: &c}}, Routes: []Route{{To: []string{"http://192.0.2.1"}}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Serve(t.Context()); err == nil {
			t.Errorf("%+v: it serves", c)
		}
	}
}

// TestSoakCertificates: a running gateway shows new certificates some second after
// their files have changed, and keeps them when a file is no key; the connections
// that are open serve each request.
func TestSoakCertificates(t *testing.T) {
	soak(t)
	f, next := newCertificate(t, "127.0.0.1"), newCertificate(t, "127.0.0.1")
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	e := serve(t, Config{Listen: []Listen{{Addr: "127.0.0.1:0", TLS: &TLS{Cert: f.cert, Key: f.key}}}, Routes: []Route{{To: []string{to}}}})
	both := f.pool(t)
	text, err := os.ReadFile(next.cert)
	if err != nil || !both.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	shown := func() *tls.Conn {
		c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: both}}).DialContext(t.Context(), "tcp", e.addr)
		if err != nil {
			t.Fatalf("a handshake: %v", err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*tls.Conn)
	}
	serial := func(c *tls.Conn) string { return c.ConnectionState().PeerCertificates[0].SerialNumber.String() }
	kept := shown()
	answers := bufio.NewReader(kept)
	goesOn := func() {
		t.Helper()
		if _, err := io.WriteString(kept, lines("GET / HTTP/1.1", "Host: h")); err != nil {
			t.Fatalf("the connection that was open: %v", err)
		}
		if a, err := http.ReadResponse(answers, nil); err != nil || a.StatusCode != 200 {
			t.Fatalf("the connection that was open: %v, %v", a, err)
		}
	}
	goesOn()
	old := serial(kept)
	f.replace(t, next)
	began := time.Now()
	for serial(shown()) == old {
		goesOn()
		if time.Since(began) > 20*time.Second {
			t.Fatal("the old certificate is shown still")
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("the new certificate is shown after %v", time.Since(began))
	if err := os.WriteFile(f.key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	for range 3 {
		if serial(shown()) == old {
			t.Error("the old certificate is back")
		}
		goesOn()
	}
}

// TestUpstreamNotBelieved: an upstream by TLS whose certificate has expired, is for
// another name or of an unknown authority sees no request: 502.
func TestUpstreamNotBelieved(t *testing.T) {
	var served atomic.Int64
	upstream := func(f files) string {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
		s.TLS, s.Config.ErrorLog = &tls.Config{Certificates: []tls.Certificate{pair}}, log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
	good, expired, other := newCertificate(t, "127.0.0.1"), certificateUntil(t, "127.0.0.1", time.Now().Add(-time.Minute)), newCertificate(t, "127.0.0.9")
	for _, c := range []struct {
		name string
		to   string
		of   UpstreamTLS
		want int
	}{
		{"good", upstream(good), UpstreamTLS{CA: good.cert}, 200},
		{"expired", upstream(expired), UpstreamTLS{CA: expired.cert}, 502},
		{"of another address", upstream(other), UpstreamTLS{CA: other.cert}, 502},
		{"of another name", upstream(good), UpstreamTLS{CA: good.cert, ServerName: "example.org"}, 502},
		{"of an unknown authority", upstream(good), UpstreamTLS{CA: other.cert}, 502},
		{"of an authority that the system does not know", upstream(good), UpstreamTLS{}, 502},
	} {
		served.Store(0)
		e := serve(t, Config{Routes: []Route{{To: []string{c.to}, TLS: c.of}}})
		if status, _ := do(t, e.request("GET", "/", nil)); status != c.want || (served.Load() > 0) != (c.want == 200) {
			t.Errorf("%s: %d, and %d requests were served; want %d", c.name, status, served.Load(), c.want)
		}
	}
}
