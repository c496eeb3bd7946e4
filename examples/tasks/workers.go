package tasks

import (
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// Worker returns a Throttle that shares 50 calls a second with all processes
// that use the same Store, as a throttleredis.Store.
func Worker(shared store.Store) *throttle.Throttle {
	return &throttle.Throttle{Fleet: throttle.Fleet{
		Store: shared,
		Key:   "vendor-api",
		Limit: limit.Limit{Count: 50, Period: time.Second},
	}}
}
