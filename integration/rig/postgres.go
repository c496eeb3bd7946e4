package rig

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A PostgresServer is one PostgreSQL server that trusts the user postgres.
type PostgresServer struct {
	*Process
	// Addr is its host and port.
	Addr string
	// Port is the port of Addr.
	Port int
	// URL is the URL of the database postgres.
	URL string

	databases atomic.Int64
}

// Postgres starts a PostgreSQL server that does not wait for the disk: commits
// survive its crash, but would not survive that of the machine. Settings are as
// after -c of postgres and win over ours, such as "max_connections=200". It is
// ready in some 0.3 s, the first in 1 s.
func Postgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	return postgres(t, settings, nil)
}

// PostgresOf starts a server as Postgres does, of a version that scripts/need.sh
// has installed for it: "12" or "18". There is no 12 for arm64.
func PostgresOf(t testing.TB, version string, settings ...string) *PostgresServer {
	t.Helper()
	bin, err := postgresOf(version)
	check(t, err)
	s, err := again(func() (*PostgresServer, error) {
		dir, err := postgresFolder()
		if err != nil {
			return nil, err
		}
		if err := initData(filepath.Join(bin, "initdb"), filepath.Join(dir, "data")); err != nil {
			return nil, err
		}
		return startPostgresIn(dir, filepath.Join(bin, "postgres"), settings, nil)
	})
	check(t, err)
	t.Cleanup(s.remove)
	return s
}

func postgres(t testing.TB, settings, env []string) *PostgresServer {
	t.Helper()
	s, err := again(func() (*PostgresServer, error) { return startPostgres(settings, env) })
	check(t, err)
	t.Cleanup(s.remove)
	return s
}

// SharedPostgres returns one server for all tests of the binary that ask for it;
// [PostgresServer.Database] gives each a database of its own.
func SharedPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	s, err := sharedPostgres()
	check(t, err)
	return s
}

var sharedPostgres = sync.OnceValues(func() (*PostgresServer, error) {
	return again(func() (*PostgresServer, error) { return startPostgres([]string{"max_connections=300"}, nil) })
})

// Database makes an empty database and returns its URL.
func (s *PostgresServer) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	s.Exec(t, "create database "+name)
	return s.In(name)
}

// Exec runs one statement in the database postgres.
func (s *PostgresServer) Exec(t testing.TB, sql string) {
	t.Helper()
	if err := s.exec(sql); err != nil {
		t.Fatalf("rig: %s: %v", sql, err)
	}
}

func (s *PostgresServer) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, sql)
	return err
}

// Version returns the version that the server reports, such as "15.20".
func (s *PostgresServer) Version(t testing.TB) (v string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL)
	check(t, err)
	defer c.Close(ctx)
	check(t, c.QueryRow(ctx, "show server_version").Scan(&v))
	return v
}

// Crash ends the server as a loss of power would, but for the disk: at once
// and with all its processes, no checkpoint made. Restart recovers it.
func (s *PostgresServer) Crash() { <-s.signal(syscall.SIGQUIT) }

// In returns the URL of a database.
func (s *PostgresServer) In(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr, database)
}

func startPostgres(settings, env []string) (*PostgresServer, error) {
	made, err := madeData()
	if err != nil {
		return nil, err
	}
	dir, err := postgresFolder()
	if err != nil {
		return nil, err
	}
	if err := asPostgres("cp", "-a", made, filepath.Join(dir, "data")); err != nil {
		return nil, err
	}
	path, err := postgresProgram("postgres")
	if err != nil {
		return nil, err
	}
	return startPostgresIn(dir, path, settings, env)
}

// startPostgresIn starts a program on the data in a folder, which goes if that
// fails.
func startPostgresIn(dir, path string, settings, env []string) (*PostgresServer, error) {
	p, err := port()
	if err != nil {
		return nil, err
	}
	as, err := postgresUser()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(p)}
	for _, s := range append([]string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=32MB",
		"fsync=off", "full_page_writes=off", "dynamic_shared_memory_type=mmap",
	}, settings...) {
		args = append(args, "-c", s)
	}
	s := &PostgresServer{Addr: local(p), Port: p, Process: &Process{
		Dir: dir, path: path, args: args, env: env, user: as,
		last: syscall.SIGQUIT, // its children end with it
		herd: true,            // they serve the connections, and would go on for a while
	}}
	s.clean = s.removeShared
	s.URL = s.In("postgres")
	s.ready = s.answers
	if err := s.start(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// answers is nil if one can connect.
func (s *PostgresServer) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// removeShared removes the piece of shared memory by which a server that was
// killed tells its children's end; a machine has some thousand of them.
func (s *PostgresServer) removeShared() {
	text, err := os.ReadFile(filepath.Join(s.Dir, "data", "postmaster.pid"))
	if err != nil {
		return // it ended well
	}
	for i, line := range strings.Split(string(text), "\n") {
		var key, id uintptr
		const at = 6 // LOCK_FILE_LINE_SHMEM_KEY of miscadmin.h
		if n, _ := fmt.Sscan(line, &key, &id); i == at && n == 2 {
			syscall.Syscall(syscall.SYS_SHMCTL, id, 0, 0) // 0: IPC_RMID
		}
	}
}

// madeData is a folder with what initdb made, to be copied.
var madeData = sync.OnceValues(func() (string, error) {
	initdb, err := postgresProgram("initdb")
	if err != nil {
		return "", err
	}
	dir, err := postgresFolder()
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	return data, initData(initdb, data)
})

func initData(initdb, data string) error {
	return asPostgres(initdb, "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "--encoding=UTF8", "--locale=C")
}

// postgresOf is the folder of the programs of a version, where the user may run
// them that PostgreSQL runs as: a copy if the repository is closed to it.
func postgresOf(version string) (bin string, err error) {
	const last = "postgres"
	path, err := program("postgresql "+version, ours("postgres-"+version, "bin", last)...)
	if err != nil {
		return "", err
	}
	if asPostgres(path, "--version") == nil {
		return filepath.Dir(path), nil
	}
	dir, err := postgresFolder()
	if err != nil {
		return "", err
	}
	from, to := filepath.Dir(filepath.Dir(path)), filepath.Join(dir, version)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return filepath.Join(to, "bin"), run(ctx, nil, "cp", "-rL", from, to)
}

func postgresProgram(name string) (string, error) {
	return program("postgresql", filepath.Join(os.Getenv("PGBIN"), name), "/usr/lib/postgresql/*/bin/"+name, "/usr/pgsql-*/bin/"+name)
}

// postgresUser is the user that PostgreSQL runs as, as it refuses root: nil for the user
// of the test if that is another.
var postgresUser = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true}, err
})

// postgresFolder makes a folder into which PostgreSQL may write.
func postgresFolder() (string, error) {
	as, err := postgresUser()
	if err != nil {
		return "", err
	}
	dir, err := folder("postgres")
	if err != nil || as == nil {
		return dir, err
	}
	return dir, os.Chown(dir, int(as.Uid), int(as.Gid))
}

// asPostgres runs a program to its end as the user that PostgreSQL runs as.
func asPostgres(path string, args ...string) error {
	as, err := postgresUser()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return run(ctx, as, path, args...)
}
