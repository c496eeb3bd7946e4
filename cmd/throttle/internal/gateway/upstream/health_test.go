package upstream

import (
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestHealth: an address that refuses connections is ejected at once, one that
// fails otherwise after some failures in a row, for longer each time.
func TestHealth(t *testing.T) {
	type fail struct {
		at   time.Duration
		dead bool
	}
	for _, c := range []struct {
		name  string
		fails []fail
		want  time.Duration // ejected until, since t0
	}{
		{"healthy", nil, 0},
		{"dead", []fail{{0, true}}, time.Second},
		{"four failures", []fail{{0, false}, {0, false}, {0, false}, {0, false}}, 0},
		{"five failures", []fail{{0, false}, {0, false}, {0, false}, {0, false}, {0, false}}, time.Second},
		{"requests sent before", []fail{{0, true}, {time.Millisecond, true}, {2 * time.Millisecond, true}}, time.Second},
		{"back-off", []fail{{0, true}, {time.Second, true}}, 3 * time.Second},
		{"a failed trial of any kind", []fail{{0, true}, {time.Second, false}}, 3 * time.Second},
		{"at most 30 s", []fail{{0, true}, {1e9, true}, {3e9, true}, {7e9, true}, {15e9, true}, {31e9, true}, {61e9, true}}, 91 * time.Second},
	} {
		var h health
		for _, f := range c.fails {
			h = h.failed(t0.Add(f.at), f.dead, 0)
		}
		if got := h.until; c.want == 0 && !got.IsZero() || c.want > 0 && !got.Equal(t0.Add(c.want)) {
			t.Errorf("%s: ejected until %v, want %v after %v", c.name, got, c.want, t0)
		}
	}
	if d := (health{}).failed(t0, true, 0.999).until.Sub(t0); d <= time.Second || d > 1250*time.Millisecond {
		t.Errorf("with jitter %v, want up to a quarter more than 1 s", d)
	}
}
