package admin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

// sign makes a certificate for name, which ends in some time.
func (a *authority) sign(name string, ends time.Duration) tls.Certificate {
	a.t.Helper()
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(ends),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestMutualTLS: a certificate that the CA has signed is as good as a token; one
// of another CA, one that has ended, and none are refused.
func TestMutualTLS(t *testing.T) {
	ours, other := newAuthority(t), newAuthority(t)
	l, err := net.Listen("tcp", "0.0.0.0:0") // which needs mTLS or a token
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	r := startOn(t, Config{
		TLS: &tls.Config{
			Certificates: []tls.Certificate{ours.sign("admin", time.Hour)}, ClientCAs: ours.pool,
			ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		},
		Writers: []string{"jane"}, Pprof: true,
	}, l)
	r.base = "https://127.0.0.1:" + port
	get := func(path string, with ...tls.Certificate) int {
		client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{RootCAs: ours.pool, Certificates: with},
		}}
		a, err := client.Get(r.base + path)
		if err != nil {
			return 0
		}
		defer a.Body.Close()
		return a.StatusCode
	}
	jane, bob := ours.sign("jane", time.Hour), ours.sign("bob", time.Hour)
	for _, c := range []struct {
		name, path string
		with       []tls.Certificate
		want       int
	}{
		{"a writer", "/debug/pprof/cmdline", []tls.Certificate{jane}, 200},
		{"a reader writes", "/debug/pprof/cmdline", []tls.Certificate{bob}, 403},
		{"a reader", "/api/v1/status", []tls.Certificate{bob}, 200},
		{"no certificate", "/api/v1/status", nil, 0},
		{"no certificate, a probe", "/livez", nil, 0},
		{"another CA", "/api/v1/status", []tls.Certificate{other.sign("jane", time.Hour)}, 0},
		{"one that has ended", "/api/v1/status", []tls.Certificate{ours.sign("jane", -time.Minute)}, 0},
	} {
		if got := get(c.path, c.with...); got != c.want {
			t.Errorf("%s: %s: %d, want %d", c.name, c.path, got, c.want)
		}
	}
}
