package stores

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/stores/rig"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // it tells of every server that we kill
	rig.Serve(new(Client))
	os.Exit(rig.Main(m))
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
