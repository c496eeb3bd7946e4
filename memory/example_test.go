package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// What keys have used survives a restart in a Snapshot.
func ExampleStore() {
	threeAnHour := limit.Limit{Count: 3, Period: time.Hour}
	before := memory.Store{MaxKeys: 100_000} // 3.2 MB at most
	for range 2 {
		if _, err := store.Take(context.Background(), &before, "user:42", threeAnHour, 1); err != nil {
			panic(err)
		}
	}

	var after memory.Store
	if err := after.Restore(before.Snapshot()); err != nil {
		panic(err)
	}
	for range 2 {
		d, err := store.Take(context.Background(), &after, "user:42", threeAnHour, 1)
		fmt.Println(d.OK, d.Remaining, d.RetryAfter.Round(time.Minute), err)
	}
	// Output:
	// true 0 0s <nil>
	// false 0 20m0s <nil>
}
