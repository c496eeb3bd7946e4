package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

func ExampleTake() {
	var s memory.Store
	twoPerMinute := limit.Limit{Count: 2, Period: time.Minute}

	for range 3 {
		d, err := store.Take(context.Background(), &s, "user:42", twoPerMinute, 1)
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

// Requests that the Store cannot decide about pass, and its errors are counted.
func ExampleFailOpen() {
	s := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
		return false, errors.New("no connection")
	})
	failures := 0
	counted := store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		ok, err := s.Take(ctx, a, d)
		if err != nil {
			failures++
		}
		return ok, err
	})
	limited := limit.Limit{Count: 2, Period: time.Minute}
	d, err := store.Take(context.Background(), store.FailOpen(counted), "user:42", limited, 1)
	fmt.Println(d.OK, err, failures)
	// Output: true <nil> 1
}
