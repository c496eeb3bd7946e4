//go:build unix

package operate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// manager is a service manager that listens for what it is told.
type manager struct {
	t *testing.T
	c *net.UnixConn
}

func newManager(t *testing.T, name string) *manager {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return &manager{t, c}
}

// told returns the next datagram.
func (m *manager) told() string {
	m.t.Helper()
	b := make([]byte, 4096)
	if err := m.c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		m.t.Fatal(err)
	}
	n, err := m.c.Read(b)
	if err != nil {
		m.t.Fatalf("the manager was told nothing: %v", err)
	}
	return string(b[:n])
}

// next returns the next datagram that is no food of the watchdog.
func (m *manager) next() string {
	for {
		if text := m.told(); text != "WATCHDOG=1" {
			return text
		}
	}
}

type locked struct {
	mu sync.Mutex
	strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

func (l *locked) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

func kill(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

// until waits for something, and fails if it does not come.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}

// TestProcess: the service manager is told of the start, of reloads, and of the
// end; a reload that fails is said, and serving goes on; SIGUSR1 keeps the state.
func TestProcess(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@throttle-test-" + filepath.Base(t.TempDir())} {
		m := newManager(t, name)
		var log locked
		reloads := make(chan error, 2)
		reloads <- nil
		reloads <- errors.New("rules.yaml:3:1: no\nsuch\nthing")
		kept := make(chan bool, 1)
		p := &Process{
			Reload:   func(context.Context) error { return <-reloads },
			Snapshot: func(context.Context) error { kept <- true; return errors.New("disk full") },
			Log:      slog.New(slog.NewTextHandler(&log, nil)),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() { p.Run(ctx, Catch(), "2 roles"); close(ended) }()
		expect := func(want ...string) {
			t.Helper()
			got := m.next()
			for _, w := range want {
				if !strings.Contains("\n"+got+"\n", "\n"+w) {
					t.Errorf("the manager was told %q, want %q", got, w)
				}
			}
		}
		expect("READY=1\n", "STATUS=2 roles\n")
		kill(t, syscall.SIGHUP)
		expect("RELOADING=1\n", "MONOTONIC_USEC=")
		expect("READY=1\n", "STATUS=2 roles\n")
		kill(t, syscall.SIGHUP)
		expect("RELOADING=1\n")
		expect("READY=1\n", "STATUS=not all reloaded: rules.yaml:3:1: no such thing\n")
		kill(t, syscall.SIGUSR1)
		select {
		case <-kept:
		case <-time.After(10 * time.Second):
			t.Fatal("SIGUSR1 keeps no state")
		}
		cancel()
		expect("STOPPING=1\n")
		<-ended
		for _, want := range []string{"msg=reloaded", "what was in use stays", "disk full"} {
			if !strings.Contains(log.said(), want) {
				t.Errorf("the log has no %q:\n%s", want, log.said())
			}
		}
	}
}

// TestWatchdog: the watchdog is fed twice in its time while the process is
// healthy, and not while it is not.
func TestWatchdog(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "20000")
	var mu sync.Mutex
	asked, sick := 0, 3 // from the third time on
	p := &Process{Healthy: func() error {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked >= sick {
			return errors.New("stuck")
		}
		return nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { p.Run(ctx, Catch(), ""); close(ended) }()
	got := []string{m.told(), m.told(), m.told()}
	if !strings.HasPrefix(got[0], "READY=1") || got[1] != "WATCHDOG=1" || got[2] != "WATCHDOG=1" {
		t.Errorf("the manager was told %q", got)
	}
	until(t, "it is asked five times whether it is healthy", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return asked >= 5
	})
	cancel()
	<-ended
	if last := m.told(); !strings.HasPrefix(last, "STOPPING=1") {
		t.Errorf("a process that was unhealthy said %q", last)
	}
}

// TestSlowReload: while a reload takes its time the watchdog is fed, and a second
// one and a snapshot that are asked for meanwhile are not lost. After the end
// signals do not end the process, which drains.
func TestSlowReload(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "20000")
	began, goOn, kept := make(chan bool), make(chan bool), make(chan bool)
	p := &Process{
		Reload:   func(context.Context) error { began <- true; <-goOn; return nil },
		Snapshot: func(context.Context) error { kept <- true; return nil },
	}
	ctx, cancel := context.WithCancel(t.Context())
	signals, ended := Catch(), make(chan bool)
	kill(t, syscall.SIGHUP) // before Run: it waits
	go func() { p.Run(ctx, signals, ""); close(ended) }()
	<-began
	for m.told() != "WATCHDOG=1" {
	}
	for m.told() != "WATCHDOG=1" {
	}
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP} {
		kill(t, s)
	}
	until(t, "the signals are taken", func() bool { return len(signals) == 0 })
	goOn <- true
	for range 2 { // in either order
		select {
		case <-kept:
		case <-began:
			goOn <- true
		case <-time.After(10 * time.Second):
			t.Fatal("a signal was lost")
		}
	}
	cancel()
	<-ended
	kill(t, syscall.SIGHUP)
	kill(t, syscall.SIGUSR1)
	time.Sleep(10 * time.Millisecond) // as long as a signal may take
}

// TestSnapshotEvery: the state is kept every so often without a signal, and the end waits
// for what is being kept.
func TestSnapshotEvery(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		var kept []time.Duration
		p := &Process{SnapshotEvery: time.Minute, Snapshot: func(context.Context) error {
			time.Sleep(5 * time.Second)
			kept = append(kept, time.Since(began))
			return nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Second)
		defer cancel()
		p.Run(ctx, make(Signals), "")
		if want := []time.Duration{65 * time.Second, 125 * time.Second}; !slices.Equal(kept, want) {
			t.Errorf("the state was kept after %v, want %v", kept, want)
		}
	})
}

// TestReloadAtEnd: where the process ends during a reload, the manager is not told that
// it is ready once more.
func TestReloadAtEnd(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	ctx, cancel := context.WithCancel(t.Context())
	p := &Process{Reload: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	ended := make(chan bool)
	go func() { p.Run(ctx, Catch(), ""); close(ended) }()
	m.next()
	kill(t, syscall.SIGHUP)
	if got := m.next(); !strings.HasPrefix(got, "RELOADING=1") {
		t.Errorf("at a reload the manager was told %q", got)
	}
	cancel()
	<-ended
	if err := Notify("LAST=1"); err != nil {
		t.Fatal(err)
	}
	if stopping, last := m.next(), m.next(); !strings.HasPrefix(stopping, "STOPPING=1") || last != "LAST=1" {
		t.Errorf("at the end the manager was told %q and %q, want STOPPING=1 alone", stopping, last)
	}
}

func TestWatchdogTime(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{{"", "", 0}, {"2000000", "", time.Second}, {"2000000", "1", 0}, {"x", "", 0}, {"-5", "", 0}, {"0", "", 0}, {"9223372036854775807", "", 30 * time.Minute}} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		if got := watchdog(); got != c.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: every %v, want %v", c.usec, c.pid, got, c.want)
		}
	}
}

// TestNotifyFails: a manager that is gone is an error, and none is none.
func TestNotifyFails(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	if err := Notify("READY=1"); err == nil || !strings.Contains(err.Error(), "NOTIFY_SOCKET") {
		t.Errorf("a manager that is gone: %v", err)
	}
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify("READY=1"); err != nil {
		t.Error(err)
	}
}

// TestNotifyHangs: a service manager that reads nothing holds up nobody.
func TestNotifyHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	ended := make(chan error, 1)
	go func() {
		for {
			if err := Notify("WATCHDOG=1"); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for a service manager that reads nothing")
	}
}
