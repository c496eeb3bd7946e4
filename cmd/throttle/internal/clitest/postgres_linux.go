package clitest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a PostgreSQL server of a test, which trusts the user postgres and ends
// with the test. It is not safe for concurrent use.
type Postgres struct {
	// URL is that of its database.
	URL string

	t     *testing.T
	serve func() *exec.Cmd
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// StartPostgres starts one with empty data. Without the programs of PostgreSQL it skips
// the test, or fails it if THROTTLE_REQUIRE is set.
func StartPostgres(t *testing.T) *Postgres {
	t.Helper()
	bin, as := postgresProgram(t, "postgres"), postgresUser(t)
	data, err := os.MkdirTemp("", "throttle-postgres") // not within a folder of root alone
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(data) })
	if as != nil {
		check(t, os.Chown(data, int(as.Uid), int(as.Gid)))
	}
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(name, args...)
		c.Dir, c.Env = data, append(os.Environ(), "LC_ALL=C")
		// It ends with this process too, in whatever way that ends.
		c.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGQUIT}
		return c
	}
	made := command(filepath.Join(filepath.Dir(bin), "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "--encoding=UTF8", "--locale=C")
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	p := &Postgres{t: t, URL: "postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable"}
	p.serve = func() *exec.Cmd {
		return command(bin, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "dynamic_shared_memory_type=mmap")
	}
	p.Start()
	t.Cleanup(p.Stop)
	return p
}

// Start starts it, with the data that it had.
func (p *Postgres) Start() {
	p.t.Helper()
	p.cmd, p.ended = p.serve(), make(chan struct{})
	started := make(chan error)
	go func() { // on one thread, as the kernel takes the end of that for ours
		runtime.LockOSThread()
		started <- p.cmd.Start()
		_ = p.cmd.Wait() // it was told to end
		close(p.ended)
	}()
	check(p.t, <-started)
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := p.answers()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			p.t.Fatalf("PostgreSQL does not answer: %v", err)
		}
	}
}

func (p *Postgres) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, p.URL)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// Stop ends it and all connections at once, as a crash does. Its data stay.
func (p *Postgres) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // fails if it has ended
	<-p.ended
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	for _, pattern := range []string{filepath.Join(os.Getenv("PGBIN"), name), "/usr/lib/postgresql/*/bin/" + name, "/usr/pgsql-*/bin/" + name} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 && filepath.IsAbs(found[0]) {
			return found[len(found)-1]
		}
	}
	if os.Getenv("THROTTLE_REQUIRE") != "" {
		t.Fatal("there is no PostgreSQL: scripts/need.sh installs it")
	}
	t.Skip("NO POSTGRESQL: this is NOT tested; scripts/need.sh installs it")
	return ""
}

// postgresUser is the user that it runs as, since it refuses root; nil for that of the test.
func postgresUser(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	check(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	check(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	check(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true}
}
