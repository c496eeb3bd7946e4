package stores

import (
	"os"
	"testing"

	"github.com/throttle-go/throttle/stores/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
