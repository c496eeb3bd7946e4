package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// Many goroutines may share api; each call waits for its turn.
func Example() {
	var api throttle.Throttle

	err := api.Do(context.Background(), func(context.Context) error {
		return nil // or what the service said
	})
	fmt.Println(err)
	// Output: <nil>
}

// A throttled call is retried: the caller does not see it.
func ExampleThrottled() {
	api := throttle.Throttle{Control: &pace.Fixed{Rate: 1000}}

	tries := 0
	err := api.Do(context.Background(), func(context.Context) error {
		tries++
		if tries == 1 {
			return throttle.Throttled(errors.New("429 Too Many Requests"), 5*time.Millisecond)
		}
		return nil
	})
	fmt.Println(err, "after", tries, "tries")
	// Output: <nil> after 2 tries
}

func ExampleCall() {
	api := throttle.Throttle{Control: &pace.Fixed{Rate: 4}} // 4 a second, as published

	state, err := throttle.Call(context.Background(), &api, func(context.Context) (string, error) {
		return "RUNNING", nil
	})
	fmt.Println(state, err)
	// Output: RUNNING <nil>
}

// A call whose turn would come too late fails at once.
func ExampleError() {
	api := throttle.Throttle{Control: &pace.Fixed{Rate: 0.1}}
	call := func(context.Context) error { return nil }
	_ = api.Do(context.Background(), call)

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := api.Do(ctx, call)

	var e *throttle.Error
	if errors.As(err, &e) {
		fmt.Println(e.Reason)
		fmt.Println("would wait", e.Wait.Round(time.Second), "and has surely not run:", !e.MayHaveRun)
	}
	// Output:
	// context deadline exceeded
	// would wait 10s and has surely not run: true
}

func ExampleThrottle_Try() {
	api := throttle.Throttle{Control: &pace.Fixed{Rate: 0.1}}
	call := func(context.Context) error { return nil }

	fmt.Println(api.Try(context.Background(), call))
	err := api.Try(context.Background(), call)
	fmt.Println(errors.Is(err, throttle.ErrWouldWait))
	// Output:
	// <nil>
	// true
}

// A success that says how much is left, and what it has cost.
// A queue accepts each job at once; its consumer says later that it is
// overloaded, and what comes next waits.
func ExampleThrottle_Report() {
	var api throttle.Throttle

	sent := time.Now()
	enqueue := func(context.Context) error { return nil }
	fmt.Println(api.Do(context.Background(), enqueue))

	api.Report(sent, throttle.Result{Report: pace.Report{Verdict: pace.Throttled, After: time.Minute}})
	err := api.Try(context.Background(), enqueue)
	fmt.Println(errors.Is(err, throttle.ErrWouldWait))
	// Output:
	// <nil>
	// true
}

// A program that watches the service gives it more or less to do at once.
func ExampleThrottle_SetMaxInFlight() {
	api := throttle.Throttle{Control: new(pace.Fixed), MaxInFlight: 1}
	err := api.Do(context.Background(), func(ctx context.Context) error {
		another := func(context.Context) error { return nil }
		fmt.Println(errors.Is(api.Try(ctx, another), throttle.ErrWouldWait))
		api.SetMaxInFlight(2)
		return api.Try(ctx, another)
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleThrottle_DoResult() {
	api := throttle.Throttle{Control: &pace.Fixed{Rate: 50}} // 50 tokens a second
	call := func(context.Context) throttle.Result {
		return throttle.Result{Report: pace.Report{Verdict: pace.Served, Cost: 100}}
	}

	fmt.Println(api.DoResult(context.Background(), call))
	fmt.Println("the next call in", api.Forecast(1).Round(time.Second))
	// Output:
	// <nil>
	// the next call in 2s
}
