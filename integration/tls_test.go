package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// An issuer makes certificates that its roots know.
type issuer struct {
	key   *ecdsa.PrivateKey
	about *x509.Certificate
	roots *x509.CertPool
	file  string // of the roots
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	now := time.Now()
	i := &issuer{roots: x509.NewCertPool(), file: filepath.Join(t.TempDir(), "roots.pem"), about: &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	var err error
	if i.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	signed, err := x509.CreateCertificate(rand.Reader, i.about, i.about, &i.key.PublicKey, i.key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	i.roots.AppendCertsFromPEM(text)
	if err := os.WriteFile(i.file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return i
}

// certificate makes a key and a certificate of 127.0.0.1 that ends then.
func (i *issuer) certificate(t *testing.T, ends time.Time) (key, cert string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: ends.Add(-24 * time.Hour), NotAfter: ends,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, about, i.about, &private.PublicKey, i.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))
}

// A tlsServer is a real server that speaks TLS, and what gives it a certificate.
type tlsServer struct {
	addr string
	turn func(t *testing.T, key, cert string)
}

func tlsRedis(t *testing.T, i *issuer) tlsServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	dir := t.TempDir()
	n := rig.Redis(t)
	return tlsServer{addr, func(t *testing.T, key, cert string) {
		files := [2]string{filepath.Join(dir, "key"), filepath.Join(dir, "cert")}
		for k, text := range []string{key, cert} {
			if err := os.WriteFile(files[k], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n.Must(t, "CONFIG", "SET", "tls-key-file", files[0], "tls-cert-file", files[1], "tls-ca-cert-file", i.file, "tls-auth-clients", "no", "tls-port", port)
	}}
}

func tlsPostgres(t *testing.T) tlsServer {
	t.Helper()
	p := guardPostgres(t)
	return tlsServer{p.Addr, func(t *testing.T, key, cert string) {
		ownFile(t, filepath.Join(p.Dir, "data"), "server.key", key)
		ownFile(t, filepath.Join(p.Dir, "data"), "server.crt", cert)
		p.Exec(t, "select pg_reload_conf()")
	}}
}

// tlsStores are stores that know the roots, and have no connection yet.
func tlsStores(t *testing.T, roots *issuer, secret string) map[string]func(addr string) store.Store {
	config := &tls.Config{RootCAs: roots.roots, ServerName: "127.0.0.1"}
	url := func(addr string) string {
		return fmt.Sprintf("postgres://scram:%s@%s/postgres?sslmode=verify-full&sslrootcert=%s", secret, addr, roots.file)
	}
	return map[string]func(addr string) store.Store{
		"go-redis": func(addr string) store.Store {
			o := clients.GoRedisOptions(addr)
			o.TLSConfig = config
			c := redis.NewClient(o)
			t.Cleanup(func() { c.Close() })
			return &throttleredis.Store{Do: clients.GoRedis(c)}
		},
		"redigo": func(addr string) store.Store {
			p := clients.RedigoPool(addr)
			p.DialContext = func(ctx context.Context) (redigo.Conn, error) {
				return redigo.DialContext(ctx, "tcp", addr, redigo.DialUseTLS(true), redigo.DialTLSConfig(config), redigo.DialTLSHandshakeTimeout(quick))
			}
			t.Cleanup(func() { p.Close() })
			return &throttleredis.Store{Do: clients.Redigo(p)}
		},
		"rueidis": func(addr string) store.Store {
			o := clients.RueidisOptions(addr)
			o.TLSConfig, o.ForceSingleClient = config, true
			return &throttleredis.Store{Do: func(ctx context.Context, args ...any) (any, error) {
				c, err := rueidis.NewClient(o) // it connects when it is made
				if err != nil {
					return nil, err
				}
				defer c.Close()
				return clients.Rueidis(c)(ctx, args...)
			}}
		},
		"pgx": func(addr string) store.Store { return &throttlesql.Store{Query: clients.Pgx(pool(t, url(addr)))} },
		"database/sql": func(addr string) store.Store {
			return &throttlesql.Store{Query: clients.DatabaseSQL(openDB(t, "pgx", url(addr)))}
		},
		"lib/pq": func(addr string) store.Store {
			return &throttlesql.Store{Query: clients.LibPQ(openDB(t, "postgres", url(addr)))}
		},
	}
}

// nothingCharged checks an error of a Take that had no connection.
func nothingCharged(t *testing.T, err error, why string) {
	t.Helper()
	var r *throttleredis.Error
	var p *throttlesql.Error
	switch {
	case errors.As(err, &r) && !r.Charged, errors.As(err, &p) && !p.Charged:
		if !strings.Contains(err.Error(), why) {
			t.Errorf("error %v, want one that says %q", err, why)
		}
	default:
		t.Errorf("error %v, want an Error, and nothing charged", err)
	}
}

// TestTLS: a certificate that has ended, one of another issuer, a wrong password and
// a server that says nothing in the handshake charge nothing and are named; a guard
// is in time; and with a new certificate the store decides, without a call lost.
func TestTLS(t *testing.T) {
	t.Parallel()
	known, foreign := newIssuer(t), newIssuer(t)
	servers := map[bool]tlsServer{false: tlsRedis(t, known), true: tlsPostgres(t)}
	all := tlsStores(t, known, "secret")
	wrong := tlsStores(t, known, "wrong")
	for _, state := range []struct {
		issuer *issuer
		ends   time.Duration
		why    string
	}{
		{known, -time.Hour, "expired"},
		{foreign, time.Hour, "unknown authority"},
		{known, time.Hour, ""},
	} {
		key, cert := state.issuer.certificate(t, time.Now().Add(state.ends))
		for postgres, server := range servers {
			server.turn(t, key, cert)
			for name, open := range all {
				if strings.Contains("pgx database/sql lib/pq", name) != postgres {
					continue
				}
				s := open(server.addr)
				if state.why == "" {
					rig.Until(t, name+" is answered", func() error {
						_, err := store.Take(t.Context(), s, name, perMinute, 1)
						return err
					})
					if postgres {
						_, err := store.Take(t.Context(), wrong[name](server.addr), name, perMinute, 1)
						nothingCharged(t, err, "password authentication failed")
					}
					continue
				}
				rig.Until(t, name+" meets the certificate", func() error {
					_, err := store.Take(t.Context(), s, name, perMinute, 1)
					if err == nil || !strings.Contains(err.Error(), state.why) {
						return fmt.Errorf("%v, not %s", err, state.why)
					}
					nothingCharged(t, err, state.why)
					return nil
				})
			}
		}
	}
	for name, open := range all {
		server := servers[strings.Contains("pgx database/sql lib/pq", name)]
		// One after the other: each changes the certificate of its server, under load.
		t.Run(name, func(t *testing.T) { turned(t, known, server, open) })
	}
}

// turned lets the handshake hang, and gives the server one certificate after the
// other, under load.
func turned(t *testing.T, known *issuer, server tlsServer, open func(string) store.Store) {
	const most = 300 * time.Millisecond // a handshake takes tens of them on a busy machine
	proxy := rig.NewProxy(t, server.addr)
	proxy.Set(rig.Fault{Stall: true})
	guard := &store.Guard{Store: open(proxy.Addr), Timeout: most, Fallback: store.FallbackDeny}
	l := load{store: guard, keys: []string{t.Name()}, limit: perMinute, callers: 4, deadline: sure}
	got := l.run(t, func() {
		rig.Until(t, "the guard gives up a call", func() error {
			if guard.Stats().LastErr == nil {
				return errors.New("no call has failed")
			}
			return nil
		})
		if s := guard.Stats(); s.Decided > 0 {
			t.Errorf("%+v while the handshake hangs", s)
		}
		proxy.Heal()
		for range 3 {
			before := guard.Stats().Decided
			rig.Until(t, "the store decides", func() error {
				if s := guard.Stats(); s.Away || s.Slow || s.Decided < before+10 {
					return fmt.Errorf("%+v", s)
				}
				return nil
			})
			key, cert := known.certificate(t, time.Now().Add(time.Hour))
			server.turn(t, key, cert)
			proxy.Cut()
		}
	})
	got.inTime(t, most)
	got.within(t, perMinute, 0)
	if n, some := got.failures(); n > 0 {
		t.Errorf("%d guarded calls failed:%s", n, some)
	}
}
