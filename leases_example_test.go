package throttle_test

import (
	"context"
	"fmt"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
)

// A thousand requests that come under one limit cost the store, which may be
// far away, a few questions.
func ExampleLeases() {
	store := &throttle.Leases{Store: new(throttle.Memory)}
	all := limit.Limit{Count: 100_000, Period: time.Minute}
	passed := 0
	for range 1000 {
		if d, err := throttle.Take(context.Background(), store, "api", all, 1); err == nil && d.OK {
			passed++
		}
	}
	fmt.Println(passed, "passed; few questions:", store.Counts().Asked < 100)
	// Output:
	// 1000 passed; few questions: true
}
