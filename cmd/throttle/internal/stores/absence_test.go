package stores

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// TestAbsence: each absence is said once, also one after a call that failed alone.
func TestAbsence(t *testing.T) {
	var b bytes.Buffer
	a := Absence{Log: slog.New(slog.NewTextHandler(&b, nil)), Name: "redis", Away: "share"}
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
		a.note(c.err, c.is)
		if got := b.String(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("call %d, %v: logged %q, want %q", i, c.err, got, c.want)
		}
	}
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
		for range 10 {
			time.Sleep(everyLook - time.Second)
			fail(1)
			Probe(ctx, a.Guard)
		}
		said("now and then", "E")
		time.Sleep(2 * everyLook)
		said("ten seconds later", "I")
		fail(9)
		said("an open breaker", "E")
		time.Sleep(time.Second)
		Probe(ctx, a.Guard)
		said("closed again", "I")
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
