package intercept

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// BenchmarkRequest is a request to a handler that does nothing, through a Proxy of loopback,
// beside the same handler by TLS without one; each on a new connection with a full
// handshake, and on one that is kept.
func BenchmarkRequest(b *testing.B) {
	a := &Authority{Dir: b.TempDir() + "/ca"}
	key, err := NewKey()
	if err != nil {
		b.Fatal(err)
	}
	c, err := NewCertificate(key, []string{"api.example.com"}, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	if err := WriteKey(a.Dir, key); err != nil {
		b.Fatal(err)
	}
	if err := WriteCertificate(a.Dir, c, nil); err != nil {
		b.Fatal(err)
	}
	if err := a.Load(time.Now()); err != nil {
		b.Fatal(err)
	}
	leaf, err := a.Leaf("api.example.com", time.Now())
	if err != nil {
		b.Fatal(err)
	}
	nop := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	p := &Proxy{Authority: a, Hosts: []Target{{"api.example.com", 443}}, Next: nop}
	defer p.Shutdown(b.Context())
	through := httptest.NewServer(p)
	defer through.Close()
	direct := httptest.NewUnstartedServer(nop)
	direct.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
	direct.StartTLS()
	defer direct.Close()
	for _, kept := range []bool{false, true} {
		for _, by := range []string{"proxy", "direct"} {
			b.Run(map[bool]string{false: "new", true: "kept"}[kept]+"/"+by, func(b *testing.B) {
				t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: poolOf(c)}, DisableKeepAlives: !kept}
				defer t.CloseIdleConnections()
				if by == "proxy" {
					t.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: through.Listener.Addr().String()})
				} else {
					t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, "tcp", direct.Listener.Addr().String())
					}
				}
				client := &http.Client{Transport: t}
				for b.Loop() {
					answer, err := client.Get("https://api.example.com/")
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			})
		}
	}
}

// BenchmarkLeaf signs a certificate of a host.
func BenchmarkLeaf(b *testing.B) {
	key, err := NewKey()
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	c, err := NewCertificate(key, []string{"api.example.com"}, now)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := newLeaf("api.example.com", key, c, key, now); err != nil {
			b.Fatal(err)
		}
	}
}
