package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
)

// TestFaultMemoryFull: a Redis that may evict nothing has no room left. That is
// an error of its own, never leave to pass, and what was used up stays so.
func TestFaultMemoryFull(t *testing.T) {
	t.Parallel()
	n := rig.Redis(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	s := &throttleredis.Store{Do: goRedis(t, n.Addr)}
	var got calls
	drain(t, s, "used up", perMinute, &got)
	full := func() error {
		_, err := n.Do("APPEND", "junk", strings.Repeat("x", 1<<16))
		return err
	}
	for range 1000 {
		if full() != nil {
			break
		}
	}
	for _, key := range []string{"used up", "new"} {
		d, err := store.Take(t.Context(), s, key, perMinute, 1)
		if !errors.Is(err, throttleredis.ErrFull) || d.OK {
			t.Errorf("Take(%q) of a full Redis = %+v, %v, want ErrFull", key, d, err)
		}
	}
	if d, err := store.Take(t.Context(), s, "used up", perMinute, 0); !errors.Is(err, throttleredis.ErrFull) {
		t.Errorf("peek at a full Redis = %+v, %v, want ErrFull", d, err)
	}
	if c := s.Stats(); c.Full != 3 {
		t.Errorf("Stats() = %+v, want 3 that met a full Redis", c)
	}
	n.Must(t, "DEL", "junk")
	if d, err := store.Take(t.Context(), s, "used up", perMinute, 100); err != nil || d.OK {
		t.Errorf("Take of what was used up = %+v, %v when there is room again, want a refusal", d, err)
	}
	if d, err := store.Take(t.Context(), s, "new", perMinute, 1); err != nil || !d.OK {
		t.Errorf("Take of a new key = %+v, %v when there is room again, want OK", d, err)
	}
}
