package serve

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/internal/bubble"
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
