package knees

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/integration/rig"
)

// nginx compresses a text for each request, in one process: some milliseconds of
// one processor.
func nginx(t *testing.T) (url string) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatalf("no nginx: run scripts/need-integration.sh, which installs it: %v", err)
	}
	dir, at := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	conf := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log /dev/null crit;
events { worker_connections 8192; }
http {
	access_log off; keepalive_requests 1000000; gzip on; gzip_comp_level 9; gzip_types text/plain;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	types { text/plain txt; }
	server { listen %[2]s; root %[1]s; }
}
`, dir, at)
	text := strings.Builder{}
	for i := range 3_000 {
		fmt.Fprintf(&text, "%d bottles of %x on the wall\n", i, i*2654435761)
	}
	for name, body := range map[string]string{"nginx.conf": conf, "wall.txt": text.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, filepath.Dir(dir)} { // its worker is another user
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(os.Interrupt)
		c.Wait()
	})
	rig.Until(t, "nginx listens", func() error {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return "http://" + at + "/wall.txt"
}

// postgres is an API with four connections to a PostgreSQL, whose query sums
// numbers for some milliseconds.
func postgres(t *testing.T) (url string) {
	config, err := pgxpool.ParseConfig(rig.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return api(t, func(ctx context.Context) error {
		var sum int64
		return pool.QueryRow(ctx, "SELECT sum(i) FROM generate_series(1, 20000) i").Scan(&sum)
	})
}

// cassandra is an API that inserts a row for each request into a Cassandra that
// bears 500 requests a second of its clients and lets the others wait.
func cassandra(t *testing.T) (url string) {
	node := rig.Cassandra(t, "native_transport_rate_limiting_enabled: true", "native_transport_max_requests_per_second: 500")
	c := gocql.NewCluster(node.Addr)
	c.Timeout, c.ConnectTimeout = 10*time.Second, 10*time.Second
	c.WriteCoalesceWaitTime = 0
	c.Consistency = gocql.One
	c.DisableInitialHostLookup = true
	session, err := c.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	for _, change := range []string{
		"CREATE KEYSPACE knees WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE knees.rows (id timeuuid PRIMARY KEY, text text)",
	} {
		if err := session.Query(change).ExecContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return api(t, func(ctx context.Context) error {
		return session.Query("INSERT INTO knees.rows (id, text) VALUES (?, 'x')", gocql.TimeUUID()).ExecContext(ctx)
	})
}

// api is a server that answers with 200 where do returns no error, else with 500.
func api(t *testing.T, do func(ctx context.Context) error) (url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := do(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}
