package limit_test

import (
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// No window of a minute has more than two, wherever it begins.
func ExampleLog() {
	ask := limit.Ask{Limit: limit.Limit{Kind: limit.SlidingLog, Count: 2, Period: time.Minute}, N: 1}
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	var log limit.Log
	for _, second := range []time.Duration{-10, -5, 0, 49, 50} {
		d := log.Take(noon.Add(second*time.Second), ask)
		fmt.Println(int64(second), d.OK, d.RetryAfter)
	}
	// Output:
	// -10 true 0s
	// -5 true 0s
	// 0 false 50s
	// 49 false 1s
	// 50 true 0s
}
