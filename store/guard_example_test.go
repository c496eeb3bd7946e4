package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// Three instances of a service share a limit in a Store that cannot be reached:
// each continues with a third of the limit.
func ExampleGuard() {
	shared := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
		return false, errors.New("no route to host")
	})
	safe := &store.Guard{
		Store:     shared,
		Instances: 3,
		Failures:  1,
		OnState: func(err error) {
			if err == nil {
				fmt.Println("the store is back")
				return
			}
			fmt.Println("without the store:", err)
		},
	}
	perMinute := limit.Limit{Count: 6, Period: time.Minute}
	for range 3 {
		d, err := store.Take(context.Background(), safe, "user:42", perMinute, 1)
		fmt.Println(d.OK, err)
	}
	fmt.Println(safe.Stats().Fallback, "decided without the store")
	// Output:
	// without the store: no route to host
	// true <nil>
	// true <nil>
	// false <nil>
	// 3 decided without the store
}
