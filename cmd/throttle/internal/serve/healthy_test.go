//go:build unix

package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// hung is a Store that may hang, whatever its context says.
type hung struct {
	memory.Store
	turn    chan struct{} // a call holds it
	waiting atomic.Int64  // the calls that wait for their turn
}

func (h *hung) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	h.waiting.Add(1)
	h.turn <- struct{}{}
	h.waiting.Add(-1)
	defer func() { <-h.turn }()
	return h.Store.Take(ctx, a, d)
}

// sick has something once it is logged that the program is unhealthy.
type sick chan struct{}

func (c sick) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("unhealthy: ")) {
		c.forget()
		c <- struct{}{}
	}
	return len(line), nil
}

func (c sick) forget() {
	select {
	case <-c:
	default:
	}
}

// next is what the service manager is told next, nothing if the time is over.
func next(t *testing.T, socket *net.UnixConn, late time.Time) string {
	t.Helper()
	if err := socket.SetReadDeadline(late); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	size, err := socket.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return string(b[:size])
}

// The watchdog of systemd is fed while the process makes progress, not while what
// each request needs hangs, and again afterwards.
func TestWatchdog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", "40000")
	unhealthy := make(sick, 1)
	s := &hung{turn: make(chan struct{}, 1)}
	p := &program{
		began: new(config.File), log: slog.New(slog.NewTextHandler(unhealthy, nil)), storage: &storage{Store: s}, sources: new(sources),
		control: &admit.Control{InFlight: new(store.InFlight)}, counter: new(admit.Counter),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.process().Run(ctx, make(operate.Signals), "a test")
	}()
	// fed counts what feeds the watchdog until enough have come or the time is over.
	fed := func(enough int, within time.Duration) (n int) {
		for late := time.Now().Add(within); n < enough; {
			switch next(t, socket, late) {
			case "WATCHDOG=1":
				n++
			case "":
				return n
			}
		}
		return n
	}
	if n := fed(5, 20*time.Second); n < 5 {
		t.Errorf("while it makes progress the watchdog is fed %d times, want 5", n)
	}
	s.turn <- struct{}{} // as a lock that is never released
	for late := time.Now().Add(20 * time.Second); s.waiting.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the store is not asked")
		}
	}
	unhealthy.forget() // a probe before was only slow
	select {
	case <-unhealthy:
	case <-time.After(20 * time.Second):
		t.Fatal("while the store hangs it is not logged that it is unhealthy")
	}
	if err := operate.Notify("X_SENT=1"); err != nil { // what was sent before comes before
		t.Fatal(err)
	}
	for late := time.Now().Add(20 * time.Second); next(t, socket, late) != "X_SENT=1"; {
		if time.Now().After(late) {
			t.Fatal("what was sent does not come")
		}
	}
	if n := fed(1, 200*time.Millisecond); n > 0 {
		t.Errorf("while the store hangs the watchdog is fed %d times", n)
	}
	<-s.turn
	if n := fed(5, 20*time.Second); n < 5 {
		t.Errorf("after the store has hung the watchdog is fed %d times, want 5", n)
	}
	cancel()
	<-ended
}
