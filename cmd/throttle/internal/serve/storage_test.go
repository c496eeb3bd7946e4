package serve

import (
	"log/slog"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
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
