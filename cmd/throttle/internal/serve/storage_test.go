package serve

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
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

// TestTold: each absence is said once, also one after a call that failed alone.
func TestTold(t *testing.T) {
	var b bytes.Buffer
	var is store.GuardStats
	on := told(slog.New(slog.NewTextHandler(&b, nil)), "redis", "share", func() store.GuardStats { return is })
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
		is = c.is
		on(c.err)
		if got := b.String(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("call %d, %v: logged %q, want %q", i, c.err, got, c.want)
		}
	}
}
