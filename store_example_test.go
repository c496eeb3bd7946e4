package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
)

func ExampleTake() {
	var store throttle.Memory
	twoPerMinute := limit.Limit{Count: 2, Period: time.Minute}

	for range 3 {
		d, err := throttle.Take(context.Background(), &store, "user:42", twoPerMinute, 1)
		if err != nil {
			panic(err)
		}
		fmt.Println(d.OK, d.Remaining, d.RetryAfter.Round(time.Second))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 30s
}

// Errors of a store count, and pass.
func ExampleFailOpen() {
	store := throttle.StoreFunc(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
		return false, errors.New("no connection")
	})
	failures := 0
	counted := throttle.StoreFunc(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		ok, err := store.Take(ctx, a, d)
		if err != nil {
			failures++
		}
		return ok, err
	})
	limited := limit.Limit{Count: 2, Period: time.Minute}
	d, err := throttle.Take(context.Background(), throttle.FailOpen(counted), "user:42", limited, 1)
	fmt.Println(d.OK, err, failures)
	// Output: true <nil> 1
}
