package serve

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// TestOverlayName: services that share a database, but no limits, share no overlay.
func TestOverlayName(t *testing.T) {
	f := &config.File{Rules: &config.Rules{Overlay: config.InStore}, Store: &config.Store{}}
	for table, want := range map[string]string{"": "overlay", "one": "one", "other.limits": "other.limits"} {
		s := &storage{remote: &throttlesql.Store{Table: table}}
		if d, ok := s.shared(t.Context(), f, slog.Default()).(*throttlesql.Document); !ok || d.Name != want {
			t.Errorf("the overlay of the table %q is named %q, want %q", table, d.Name, want)
		}
	}
	for prefix, want := range map[string]string{"": "", "one:": "one:overlay"} {
		s := &storage{remote: &throttleredis.Store{Prefix: prefix}}
		if d, ok := s.shared(t.Context(), f, slog.Default()).(*throttleredis.Document); !ok || d.Name != want {
			t.Errorf("the overlay of the prefix %q is named %q, want %q", prefix, d.Name, want)
		}
	}
}

// TestOverlayTableHangs: a database that does not answer holds up the start for a while,
// and not for good.
func TestOverlayTableHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &config.File{Rules: &config.Rules{Overlay: config.InStore}, Store: &config.Store{Create: true}}
		s := &storage{remote: &throttlesql.Store{Query: func(ctx context.Context, _ string, _ ...any) throttlesql.Row { return silence{ctx} }}}
		began := time.Now()
		if d := s.shared(t.Context(), f, slog.New(slog.DiscardHandler)); d == nil || time.Since(began) != createWithin {
			t.Errorf("the overlay is %v after %v, want one after %v", d, time.Since(began), createWithin)
		}
	})
}

// silence is a row that does not come.
type silence struct{ ctx context.Context }

func (s silence) Scan(...any) error {
	<-s.ctx.Done()
	return s.ctx.Err()
}

// later is a table that can be created at the third attempt, and a Finder.
type later struct{ created, checked int }

func (l *later) Create(context.Context) error {
	if l.created++; l.created < 3 {
		return errors.New("throttlesql: create: connection refused")
	}
	return nil
}

func (l *later) Check(context.Context) error { l.checked++; return nil }

// TestTablesAreCreatedLater: what could not be created at the start, as the database was
// away, is created once it is back.
func TestTablesAreCreatedLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, g := new(later), &store.Guard{Store: store.InProcess()}
		s := &storage{Store: g, guard: g, missing: []table{l}}
		s.absence = &stores.Absence{Log: slog.New(slog.DiscardHandler), Guard: g, Finder: l}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if s.look(ctx); l.created != 3 || l.checked != 1 {
			t.Errorf("in a minute tried to create %d times, and looked %d times; want 3 and 1", l.created, l.checked)
		}
	})
}

// stalls is a Store whose answers come only after a while, as in a process that gets no
// processor.
type stalls struct{ memory.Store }

func (s *stalls) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	defer time.Sleep(150 * time.Millisecond)
	return s.Store.Take(ctx, a, d)
}

// TestLeasedStalls: what leases cannot decide, as answers come later than they live, is
// decided without them.
func TestLeasedStalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &store.Guard{Store: new(stalls), Timeout: time.Second}
		l := leased{&store.Leases{Store: g, Life: 100 * time.Millisecond}, g}
		hourly, passed := limit.Limit{Count: 6, Period: time.Hour}, 0
		for range 10 {
			d, err := store.Take(t.Context(), l, "k", hourly, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.OK {
				passed++
			}
		}
		if passed < 1 || passed > 6 {
			t.Errorf("%d of 6 pass", passed)
		}
	})
}
