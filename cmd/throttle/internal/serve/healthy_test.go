//go:build unix

package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
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
	turn chan struct{} // a call holds it
}

func (h *hung) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	return h.Store.Take(ctx, a, d)
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
	s := &hung{turn: make(chan struct{}, 1)}
	p := &program{
		began: new(config.File), log: slog.New(slog.DiscardHandler), storage: &storage{Store: s}, sources: new(sources),
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
		b := make([]byte, 4096)
		for late := time.Now().Add(within); n < enough; {
			if err := socket.SetReadDeadline(late); err != nil {
				t.Fatal(err)
			}
			size, err := socket.Read(b)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(b[:size]) == "WATCHDOG=1" {
				n++
			}
		}
		return n
	}
	if n := fed(5, 20*time.Second); n < 5 {
		t.Errorf("while it makes progress the watchdog is fed %d times, want 5", n)
	}
	s.turn <- struct{}{} // as a lock that is never released
	fed(100, 200*time.Millisecond)
	if n := fed(3, 200*time.Millisecond); n > 0 {
		t.Errorf("while the store hangs the watchdog is fed %d times", n)
	}
	<-s.turn
	if n := fed(5, 20*time.Second); n < 5 {
		t.Errorf("after the store has hung the watchdog is fed %d times, want 5", n)
	}
	cancel()
	<-ended
}
