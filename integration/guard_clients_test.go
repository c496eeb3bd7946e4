package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// guardConns is the number of connections of each client that has a pool.
const guardConns = 16

// A guardClient makes a store by a new client of the server at addr, without a
// connection where the client allows that.
type guardClient struct {
	name     string
	postgres bool
	store    func(t *testing.T, addr string) store.Store
}

// guardClients are all clients that the documents name.
func guardClients() []guardClient {
	return []guardClient{
		{"go-redis", false, func(t *testing.T, addr string) store.Store {
			o := clients.GoRedisOptions(addr)
			o.PoolSize = guardConns
			c := redis.NewClient(o)
			t.Cleanup(func() { c.Close() })
			return &throttleredis.Store{Do: clients.GoRedis(c)}
		}},
		{"redigo", false, func(t *testing.T, addr string) store.Store {
			p := clients.RedigoPool(addr)
			t.Cleanup(func() { p.Close() })
			return &throttleredis.Store{Do: clients.Redigo(p)}
		}},
		{"rueidis", false, func(t *testing.T, addr string) store.Store {
			c := connected(t, func() (rueidis.Client, error) { return rueidis.NewClient(clients.RueidisOptions(addr)) })
			t.Cleanup(c.Close)
			return &throttleredis.Store{Do: clients.Rueidis(c)}
		}},
		{"valkey-go", false, func(t *testing.T, addr string) store.Store {
			c := connected(t, func() (valkey.Client, error) { return valkey.NewClient(clients.ValkeyOptions(addr)) })
			t.Cleanup(c.Close)
			return &throttleredis.Store{Do: clients.Valkey(c)}
		}},
		{"pgx", true, func(t *testing.T, addr string) store.Store {
			return &throttlesql.Store{Query: clients.Pgx(guardPool(t, "postgres://postgres@"+addr+"/postgres?sslmode=disable"))}
		}},
		{"pgx TLS SCRAM", true, func(t *testing.T, addr string) store.Store {
			return &throttlesql.Store{Query: clients.Pgx(guardPool(t, "postgres://scram:secret@"+addr+"/postgres?sslmode=require"))}
		}},
		{"database/sql", true, func(t *testing.T, addr string) store.Store {
			db := guardDB(t, "postgres://postgres@"+addr+"/postgres?sslmode=disable")
			return &throttlesql.Store{Query: clients.DatabaseSQL(db)}
		}},
		{"database/sql TLS SCRAM", true, func(t *testing.T, addr string) store.Store {
			db := guardDB(t, "postgres://scram:secret@"+addr+"/postgres?sslmode=require")
			return &throttlesql.Store{Query: clients.DatabaseSQL(db)}
		}},
	}
}

func guardPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c.MaxConns = guardConns
	p, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func guardDB(t *testing.T, url string) *sql.DB {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*c.ConnConfig)
	db.SetMaxOpenConns(guardConns)
	db.SetMaxIdleConns(guardConns)
	t.Cleanup(func() { db.Close() })
	return db
}

// guardPostgres starts a server with a user who needs TLS and SCRAM, and the
// tables of the stores.
func guardPostgres(t *testing.T) *rig.PostgresServer {
	t.Helper()
	p := rig.Postgres(t, "max_connections=1000")
	p.Exec(t, "create role scram superuser login password 'secret'")
	created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, p.URL))})
	dir := filepath.Join(p.Dir, "data")
	key, cert := guardCertificate(t)
	for name, text := range map[string]string{
		"server.key":  key,
		"server.crt":  cert,
		"pg_hba.conf": "hostssl all scram all scram-sha-256\nhost all postgres all trust\n",
	} {
		ownFile(t, dir, name, text)
	}
	p.Exec(t, "alter system set ssl = on")
	p.Exec(t, "select pg_reload_conf()")
	rig.Until(t, "the server speaks TLS", func() error {
		return guardPool(t, "postgres://scram:secret@"+p.Addr+"/postgres?sslmode=require").Ping(t.Context())
	})
	return p
}

// ownFile writes a file that belongs to whom its folder does, and to nobody else.
func ownFile(t *testing.T, dir, name, text string) {
	t.Helper()
	owner, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	path, as := filepath.Join(dir, name), owner.Sys().(*syscall.Stat_t)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, int(as.Uid), int(as.Gid)); err != nil {
		t.Fatal(err)
	}
}

// guardCertificate makes a key and a certificate of it by itself.
func guardCertificate(t *testing.T) (key, cert string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return block("PRIVATE KEY", secret), block("CERTIFICATE", signed)
}
