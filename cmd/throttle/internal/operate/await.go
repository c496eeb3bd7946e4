package operate

import (
	"context"
	"time"
)

// FreshFor is how long a server that ends waits for connections that have sent nothing yet.
const FreshFor = time.Second

// Await returns once done returns true, or ctx ends. It asks every five milliseconds.
func Await(ctx context.Context, done func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
