package store_test

import (
	"context"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

func ExampleInFlight() {
	var exports store.InFlight

	for range 4 {
		h, refused, ok := exports.Acquire(
			store.Count{Key: "all::export", Max: 100},
			store.Count{Key: "42::export", Max: 3},
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
	var running store.InFlight
	var s memory.Store
	ctx := context.Background()

	ask := []limit.Ask{{Key: "42", Limit: limit.Limit{Count: 10, Period: time.Minute}, N: 1}}
	decided := make([]limit.Decision, 1)
	for range 2 {
		h, refused, ok, err := running.Admit(ctx, &s, ask, decided, store.Count{Key: "42", Max: 1})
		defer h.Release()
		fmt.Println(ok, refused, err)
	}
	d, _ := store.Take(ctx, &s, "42", ask[0].Limit, 0)
	fmt.Println(d.Remaining, "left")
	// Output:
	// true -1 <nil>
	// false 0 <nil>
	// 9 left
}
