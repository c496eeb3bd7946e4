package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Bouncer is one PgBouncer before a PostgresServer.
type Bouncer struct {
	*Process
	// Addr is its host and port, and Port the port alone.
	Addr string
	Port int
}

// PgBouncer starts a PgBouncer before a server. Settings are lines of its section
// [pgbouncer], such as "pool_mode = transaction", and win over ours.
func PgBouncer(t testing.TB, s *PostgresServer, settings ...string) *Bouncer {
	t.Helper()
	b, err := again(func() (*Bouncer, error) { return startBouncer(s.Port, settings) })
	check(t, err)
	t.Cleanup(b.remove)
	return b
}

func startBouncer(server int, settings []string) (*Bouncer, error) {
	path, err := program("pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer")
	if err != nil {
		return nil, err
	}
	at, err := port()
	if err != nil {
		return nil, err
	}
	as, err := postgresUser() // it refuses root too
	if err != nil {
		return nil, err
	}
	dir, err := postgresFolder()
	if err != nil {
		return nil, err
	}
	lines := append([]string{
		"[databases]", fmt.Sprintf("* = host=127.0.0.1 port=%d", server), "[pgbouncer]",
		"listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", at), "unix_socket_dir =",
		"auth_type = trust", "auth_file = users.txt", "admin_users = postgres", "server_login_retry = 0.2",
		"ignore_startup_parameters = extra_float_digits",
	}, settings...)
	for name, text := range map[string]string{"bouncer.ini": strings.Join(lines, "\n") + "\n", "users.txt": `"postgres" ""` + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	b := &Bouncer{Addr: local(at), Port: at, Process: &Process{Dir: dir, path: path, args: []string{"bouncer.ini"}, user: as}}
	b.ready = func() error { return b.admin("show version") }
	if err := b.start(); err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

// URL returns the URL of a database of the server through the bouncer.
func (b *Bouncer) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", b.Addr, database)
}

// Admin runs a command of the console, such as "pause".
func (b *Bouncer) Admin(t testing.TB, command string) {
	t.Helper()
	if err := b.admin(command); err != nil {
		t.Fatalf("rig: pgbouncer: %s: %v", command, err)
	}
}

func (b *Bouncer) admin(command string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	config, err := pgx.ParseConfig(b.URL("pgbouncer"))
	if err != nil {
		return err
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return c.PgConn().Exec(ctx, command).Close()
}
