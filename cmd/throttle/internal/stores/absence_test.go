package stores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// TestAbsence: each absence is said once, also one after a call that failed alone.
func TestAbsence(t *testing.T) {
	var b bytes.Buffer
	a := Absence{Log: slog.New(slog.NewTextHandler(&b, nil)), Name: "redis", Away: "share"}
	now := time.Unix(1e9, 0)
	for i, c := range []struct {
		is   store.GuardStats
		err  error
		want string
	}{
		{store.GuardStats{}, errors.New("at the start"), "does not decide"},
		{store.GuardStats{Away: true}, errors.New("x"), ""},
		{store.GuardStats{Away: true}, errors.New("x"), ""},
		{store.GuardStats{Decided: 1}, nil, "is back"},
		{store.GuardStats{Decided: 9}, errors.New("late, once"), "does not decide"},
		{store.GuardStats{Decided: 50}, errors.New("late, once more"), ""},
		{store.GuardStats{Decided: 99, Away: true}, errors.New("x"), "does not decide"},
		{store.GuardStats{Decided: 99, Away: true}, errors.New("x"), ""},
		{store.GuardStats{Decided: 101, Away: true}, errors.New("a probe"), ""},
		{store.GuardStats{Decided: 102}, nil, "is back"},
		{store.GuardStats{Decided: 103, Slow: true}, store.ErrSlow, "does not decide"},
	} {
		b.Reset()
		if a.note(c.err, c.is, now); c.err == nil {
			now = now.Add(longCalm)
		}
		if got := b.String(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("call %d, %v: logged %q, want %q", i, c.err, got, c.want)
		}
	}
}

// TestAbsenceWhy: of a store whose first call was late, or lost its connection, the log also has
// the first error that says more of the cause, once.
func TestAbsenceWhy(t *testing.T) {
	var b bytes.Buffer
	a := Absence{Log: slog.New(slog.NewTextHandler(&b, nil))}
	now, late := time.Unix(1e9, 0), fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	for i, c := range []struct {
		is   store.GuardStats
		err  error
		want string
	}{
		{store.GuardStats{}, late, "no answer"},
		{store.GuardStats{}, late, ""},
		{store.GuardStats{}, errors.New("no table"), "no table"},
		{store.GuardStats{Away: true}, late, ""},
		{store.GuardStats{Away: true}, errors.New("no role"), ""},
		{store.GuardStats{Decided: 1}, nil, "is back"},
		{store.GuardStats{Decided: 2}, errors.New("no table"), "no table"},
		{store.GuardStats{Decided: 2}, late, ""},
		{store.GuardStats{Decided: 2}, errors.New("no role"), ""},
		{store.GuardStats{Decided: 3}, nil, "is back"},
		{store.GuardStats{Decided: 4}, &pgconn.PgError{Code: "57P01", Message: "it ends"}, "it ends"},
		{store.GuardStats{Decided: 4}, fmt.Errorf("lost: %w", io.EOF), ""},
		{store.GuardStats{Decided: 4}, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "refused"},
		{store.GuardStats{Decided: 4}, &pgconn.PgError{Code: "57P03", Message: "it begins"}, ""},
		{store.GuardStats{Decided: 4}, &pgconn.PgError{Code: "28P01", Message: "a password"}, "a password"},
		{store.GuardStats{Decided: 4}, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, ""},
	} {
		b.Reset()
		if a.note(c.err, c.is, now); c.err == nil {
			now = now.Add(longCalm)
		}
		if got := b.String(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("call %d, %v: logged %q, want %q", i, c.err, got, c.want)
		}
	}
}

// TestAbsenceCalm: the calm that is needed before a store is back doubles with each
// absence, up to some minutes, also after its breaker was open, and is the first one
// again after a long time without one.
func TestAbsenceCalm(t *testing.T) {
	var b bytes.Buffer
	a := Absence{Log: slog.New(slog.NewTextHandler(&b, nil))}
	now, decided := time.Unix(1e9, 0), int64(0)
	for i, c := range []struct {
		after time.Duration // since it was back
		calm  time.Duration // that is needed
	}{
		{0, 5 * time.Second},
		{time.Second, 10 * time.Second},
		{9*time.Minute + 59*time.Second, 20 * time.Second},
		{time.Second, 40 * time.Second},
		{time.Second, 80 * time.Second},
		{time.Second, 160 * time.Second},
		{time.Second, 5 * time.Minute},
		{time.Minute, 5 * time.Minute},
		{10 * time.Minute, 5 * time.Second},
		{time.Second, 10 * time.Second},
	} {
		said := func(when, want string) {
			t.Helper()
			if got := b.String(); !strings.Contains(got, want) || (got == "") != (want == "") {
				t.Errorf("absence %d, %s: logged %q, want %q", i, when, got, want)
			}
			b.Reset()
		}
		now = now.Add(c.after)
		a.note(errors.New("late"), store.GuardStats{Decided: decided}, now)
		said("at its start", "does not decide")
		now = now.Add(time.Second)
		a.note(errors.New("late"), store.GuardStats{Decided: decided}, now)
		decided++
		if i%2 == 1 { // the breaker closes
			a.note(nil, store.GuardStats{Decided: decided}, now.Add(time.Millisecond))
		}
		a.settle(store.GuardStats{Decided: decided}, now.Add(c.calm-1))
		said("before its calm", "")
		now = now.Add(c.calm)
		a.settle(store.GuardStats{Decided: decided, Away: true}, now)
		a.settle(store.GuardStats{Decided: decided - 1}, now)
		said("while it does not decide", "")
		a.settle(store.GuardStats{Decided: decided}, now)
		said("after its calm", "is back")
	}
}

// stuck is a handler whose first line waits.
type stuck struct {
	slog.Handler
	first, open chan struct{}
}

func (h stuck) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelError {
		close(h.first)
		<-h.open
	}
	return h.Handler.Handle(ctx, r)
}

// TestAbsenceOrder: a log that blocks holds up nobody but the caller that writes, and
// what is said later stands behind.
func TestAbsenceOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var b lines
		h := stuck{slog.NewTextHandler(&b, nil), make(chan struct{}), make(chan struct{})}
		a := &Absence{Log: slog.New(h)}
		now := time.Now()
		go a.note(errors.New("x"), store.GuardStats{}, now)
		<-h.first
		a.note(nil, store.GuardStats{Decided: 1}, now)
		close(h.open)
		synctest.Wait()
		text := b.take()
		if away, back := strings.Index(text, "does not decide"), strings.Index(text, "is back"); away < 0 || back < away {
			t.Errorf("logged %q, want that it is back behind that it does not decide", text)
		}
	})
}

// faulty is a store that fails while it is told to.
type faulty struct {
	memory.Store
	away atomic.Bool
}

func (f *faulty) Take(ctx context.Context, asks []limit.Ask, into []limit.Decision) (bool, error) {
	if f.away.Load() {
		return false, errors.New("away")
	}
	return f.Store.Take(ctx, asks, into)
}

// lines are what a log says.
type lines struct {
	mu   sync.Mutex
	text string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	return len(b), nil
}

// take returns what was said since the last call.
func (l *lines) take() (text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, l.text = l.text, ""
	return text
}

// TestAbsenceEnds: whatever is said to be away is said to be back: after a call that
// failed alone, with and without others behind it, and after an open breaker; while calls
// fail now and then, it is said once.
func TestAbsenceEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var b lines
		f := new(faulty)
		a := &Absence{Log: slog.New(slog.NewTextHandler(&b, nil)), Guard: &store.Guard{Store: f}}
		a.Guard.OnState = a.OnState
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go a.Run(ctx)
		fail := func(n int) {
			f.away.Store(true)
			for range n {
				Probe(ctx, a.Guard)
			}
			f.away.Store(false)
		}
		said := func(what, want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for line := range strings.Lines(b.take()) {
				got += line[strings.Index(line, "level=")+len("level="):][:1]
			}
			if got != want {
				t.Errorf("%s: said %q, want %q (E: it does not decide, I: it is back)", what, got, want)
			}
		}
		time.Sleep(time.Second)
		fail(1)
		said("a call that failed alone", "E")
		time.Sleep(2 * everyLook)
		said("ten seconds later, without other calls", "I")
		time.Sleep(longCalm)
		for range 10 {
			time.Sleep(everyLook - time.Second)
			fail(1)
			Probe(ctx, a.Guard)
		}
		said("now and then", "E")
		time.Sleep(2 * everyLook)
		said("ten seconds later", "I")
		time.Sleep(longCalm)
		fail(9)
		said("an open breaker", "E")
		time.Sleep(time.Second)
		Probe(ctx, a.Guard)
		said("closed again", "I")
		time.Sleep(longCalm)
		f.away.Store(true)
		Probe(ctx, a.Guard)
		time.Sleep(time.Minute)
		said("while it is away", "E")
		f.away.Store(false)
		time.Sleep(2 * everyLook)
		said("when it is back", "I")
		time.Sleep(time.Minute)
		said("a minute later", "")
	})
}
