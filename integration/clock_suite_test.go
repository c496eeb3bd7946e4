package integration

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
	"github.com/throttle-go/throttle/throttletest"
)

// TestClockSuite: what a clock of the server that jumps does is what package
// limit says.
func TestClockSuite(t *testing.T) {
	for name, start := range map[string]func(*rig.Clock) store.Store{
		"Redis": func(c *rig.Clock) store.Store {
			return &throttleredis.Store{Do: goRedis(t, c.Redis(t).Addr)}
		},
		"PostgreSQL": func(c *rig.Clock) store.Store {
			return created(t, &throttlesql.Store{Query: clients.Pgx(pool(t, c.Postgres(t).URL))})
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := rig.NewClock(t)
			s := start(clock)
			ahead := time.Duration(0)
			throttletest.TestStoreClock(t, s, func(d time.Duration) {
				ahead += d
				clock.Shift(t, ahead)
			})
		})
	}
}
