package store_test

import (
	"context"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// A thousand requests that are subject to one limit cost a remote Store a few
// calls.
func ExampleLeases() {
	leases := &store.Leases{Store: new(memory.Store)}
	all := limit.Limit{Count: 100_000, Period: time.Minute}
	passed := 0
	for range 1000 {
		if d, err := store.Take(context.Background(), leases, "api", all, 1); err == nil && d.OK {
			passed++
		}
	}
	fmt.Println(passed, "passed; few questions:", leases.Stats().Calls < 100)
	// Output:
	// 1000 passed; few questions: true
}
