// Package rig starts and stops real engines for tests: Redis and Valkey, single,
// replicated, watched by sentinels or as a cluster; PostgreSQL, with a standby
// where wanted; Kafka and Cassandra. They listen on free ports of the loopback, write to nothing but
// folders of their own, and die with the process of the test however it ends.
// [Proxy] stands between a client and any of them and disturbs the connection;
// [Clock] shifts the clock of one.
//
// Each engine can be killed, frozen, thawed and started again by the methods
// of [Process]. Those that a test starts end with the test. The Shared ones are
// one for each test binary; they end with [Main], which TestMain of every
// package that uses this one calls.
//
// It needs Linux. Where a program is missing the test is skipped and says
// loudly what to install, or fails where THROTTLE_REQUIRE=1.
package rig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything here may take on a machine that is busy with
// much else. Nothing waits for it where all is well.
const patience = 60 * time.Second

// Main runs the tests of a binary and then ends what is left of the engines and
// their folders. It returns the code for os.Exit.
func Main(m *testing.M) int {
	code := m.Run()
	stopAll()
	if root, err := folders(); err == nil {
		os.RemoveAll(root)
	}
	return code
}

// errMissing is the lack of a program.
var errMissing = errors.New("not installed")

// program is the path of a program, looked for at the given paths, which may
// be patterns, whose last match counts, or names to be found in $PATH.
func program(debian string, places ...string) (string, error) {
	for _, place := range places {
		if path, err := exec.LookPath(place); err == nil && place != "" {
			return path, nil
		}
		if found, err := filepath.Glob(place); err == nil && len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s is %w: scripts/need.sh installs it, or on Debian: apt-get install %s",
		places[0], errMissing, debian)
}

// check ends the test if an engine could not be started: skipped if it is not
// installed and THROTTLE_REQUIRE is not 1.
func check(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if errors.Is(err, errMissing) && os.Getenv("THROTTLE_REQUIRE") != "1" {
		t.Skip("NO ENGINE, this is NOT tested:", err)
	}
	t.Fatal("rig:", err)
}

// folders is the folder of this test binary, below which every engine has its
// own. It is locked as long as the binary runs, so that the next one knows
// which folders were left behind by binaries that were killed, and removes
// those.
var folders = sync.OnceValues(func() (string, error) {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), "throttle-rig-*"))
	for _, dir := range old {
		if fd, err := lockFolder(dir); err == nil {
			os.RemoveAll(dir)
			syscall.Close(fd)
		}
	}
	for {
		dir, err := os.MkdirTemp("", "throttle-rig-")
		if err != nil {
			return "", err
		}
		if _, err := lockFolder(dir); err != nil { // stays open: the lock ends with the process
			continue // another removes what it takes for left behind
		}
		if err := os.Chmod(dir, 0o755); !errors.Is(err, os.ErrNotExist) { // PostgreSQL runs as another user
			return dir, err
		}
	}
})

// lockFolder locks a folder until the file is closed. It is no os.File, which
// the garbage collector would close.
func lockFolder(dir string) (fd int, err error) {
	if fd, err = syscall.Open(dir, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
		return 0, err
	}
	if err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		syscall.Close(fd)
	}
	return fd, err
}

// folder makes a folder for one engine.
func folder(name string) (string, error) {
	root, err := folders()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(root, name+"-")
}

// Ports are taken from below those from which the system takes ports of outgoing
// connections, so that one stays free while its engine is down. They are given
// out in blocks, each of which one process has locked, so that two processes of
// tests never give out the same.
const (
	firstPort, blocks = 10240, 217
	blockSize         = 100
)

var ports struct {
	sync.Mutex
	left []int // of the blocks that this process has locked
}

// port finds a port that is free on the loopback. A race with programs that are
// no tests remains: see start.
func port() (int, error) {
	l, err := listen()
	if err != nil {
		return 0, err
	}
	return portOf(l), l.Close()
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// listen listens on a port of the loopback that is given out once.
func listen() (net.Listener, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		if len(ports.left) == 0 {
			if err := lockBlock(); err != nil {
				return nil, err
			}
		}
		p := ports.left[0]
		ports.left = ports.left[1:]
		if l, err := net.Listen("tcp", local(p)); err == nil {
			return l, nil
		}
	}
	return nil, errors.New("found no free port from 10240 to 31940 on 127.0.0.1")
}

// lockBlock locks a block of ports until the process ends. The caller holds the
// lock of ports.
func lockBlock() error {
	dir := filepath.Join(os.TempDir(), "throttle-ports")
	for _, block := range rand.Perm(blocks) {
		mine := filepath.Join(dir, fmt.Sprint(block))
		if err := os.MkdirAll(mine, 0o755); err != nil {
			return err
		}
		if _, err := lockFolder(mine); err != nil {
			continue // another process has it
		}
		for i := range blockSize {
			ports.left = append(ports.left, firstPort+block*blockSize+i)
		}
		return nil
	}
	return fmt.Errorf("all blocks of ports are locked in %s", dir)
}

// FreePort finds a port of the loopback for a server that is none of the rig's. It
// is given out once.
func FreePort(t testing.TB) int {
	t.Helper()
	p, err := port()
	check(t, err)
	return p
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// Until waits until f returns nil, asking again every few milliseconds, and
// ends the test with what it was waiting for and the last error otherwise.
func Until(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := until(f); err != nil {
		t.Fatalf("rig: waiting until %s: %v", what, err)
	}
}

func until(f func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for {
		err := f()
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-tick.C:
		case <-end:
			return err
		}
	}
}
