// Package crowd tries many clients of one server, which know nothing of each other,
// in processes of their own over real sockets.
package crowd

import (
	"os"
	"testing"

	"github.com/throttle-go/throttle/integration/rig"
)

func TestMain(m *testing.M) {
	rig.Serve(new(Peer))
	os.Exit(rig.Main(m))
}

// Peer is a process of the crowd: the server, or clients. Its methods are called by
// the test, from another process.
type Peer struct {
	server *server
}
