package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// TestClearLowered: Clear under a lower limit also forgets, in every Store, what was
// used under the larger one, for those that go back to that.
func TestClearLowered(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]store.Store{
		"memory":     new(memory.Store),
		"redis":      &throttleredis.Store{Do: goRedis(t, rig.SharedRedis(t).Addr), Prefix: fmt.Sprint("clear", time.Now().UnixNano())},
		"postgresql": created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, rig.SharedPostgres(t).Database(t)))}),
	} {
		for _, from := range kindsToStep() {
			for _, to := range kindsToStep() {
				if log := limit.SlidingLog; name == "redis" && (from.Kind == log) != (to.Kind == log) {
					continue // a log has a key of its own
				}
				from.Count, from.Period = 1000, 600*limit.Month
				to.Count, to.Period = 2, 600*limit.Month
				clears(t, s, fmt.Sprint(name, " refused: ", from.Kind, " to ", to.Kind), from, to, 1)
				clears(t, s, fmt.Sprint(name, " given back: ", from.Kind, " to ", to.Kind), from, to, -4) // all that to can owe
			}
		}
	}
}

// clears uses up from, asks for n under to and clears that.
func clears(t *testing.T, s store.Store, key string, from, to limit.Limit, n int64) {
	t.Helper()
	take := func(l limit.Limit, n int64) limit.Decision {
		d, err := store.Take(t.Context(), s, key, l, n)
		if err != nil {
			t.Fatalf("%s: Take(%v, %d): %v", key, l, n, err)
		}
		return d
	}
	take(from, 1000)
	take(to, n)
	if err := store.Clear(t.Context(), s, key, to); err != nil {
		t.Fatalf("%s: Clear: %v", key, err)
	}
	if d := take(to, 2); !d.OK {
		t.Errorf("%s: 2 of 2 after Clear: %+v, want OK", key, d)
	}
	if d := take(from, 0); d.Remaining != 998 {
		t.Errorf("%s: %d of 1000 remain under the limit before, want 998", key, d.Remaining)
	}
}
