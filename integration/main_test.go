package integration

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/integration/rig"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // it tells of every server that we kill
	rig.Serve(new(Client))
	os.Exit(rig.Main(m))
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// seldom is n, or a third of it where the race detector is on, for random walks
// that are for arithmetic, not for races.
func seldom(n int) int {
	if raced {
		return n / 3
	}
	return n
}
