package throttle_test

import (
	"context"
	"fmt"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/limit"
)

func ExampleInFlight() {
	var exports throttle.InFlight

	for range 4 {
		h, refused, ok := exports.Acquire(
			throttle.Count{Key: "all::export", Most: 100},
			throttle.Count{Key: "42::export", Most: 3},
		)
		defer h.Release() // whatever happens
		fmt.Println(ok, refused)
	}
	// Output:
	// true -1
	// true -1
	// true -1
	// false 1
}

func ExampleInFlight_Admit() {
	var running throttle.InFlight
	var store throttle.Memory
	ctx := context.Background()

	ask := []limit.Ask{{Key: "42", Limit: limit.Limit{Count: 10, Period: time.Minute}, N: 1}}
	decided := make([]limit.Decision, 1)
	for range 2 {
		h, refused, ok, err := running.Admit(ctx, &store, ask, decided, throttle.Count{Key: "42", Most: 1})
		defer h.Release()
		fmt.Println(ok, refused, err)
	}
	d, _ := throttle.Take(ctx, &store, "42", ask[0].Limit, 0)
	fmt.Println(d.Remaining, "left")
	// Output:
	// true -1 <nil>
	// false 0 <nil>
	// 9 left
}
