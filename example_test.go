package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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

// An LLM is limited in requests and in tokens a minute: the tokens are a scope, and each
// call states how many it will take.
func ExampleNeed() {
	api := throttle.Throttle{
		Control: &pace.Fixed{Rate: 10, Burst: 10}, // requests
		NewScope: func(string) pace.Controller { // tokens: 60,000 a minute, 5000 at once
			return &pace.Fixed{Rate: 1000, Burst: 5000}
		},
	}
	ask := func(estimate, actual int64) error {
		ctx := throttle.WithOptions(context.Background(), throttle.CallOptions{
			Needs:   []throttle.Need{{Scope: "tokens", Cost: estimate}},
			MaxWait: time.Second,
		})
		return api.DoResult(ctx, func(context.Context) throttle.Result {
			return throttle.Result{ // as the answer states what the call took
				Report: pace.Report{Verdict: pace.Served},
				Scopes: []throttle.ScopeResult{{
					Need:   throttle.Need{Scope: "tokens"},
					Report: pace.Report{Verdict: pace.Served, Cost: actual},
				}},
			}
		})
	}

	fmt.Println(ask(3000, 1000)) // 2000 are refunded
	fmt.Println(ask(4000, 9000))
	var e *throttle.Error
	if errors.As(ask(1000, 1000), &e) {
		fmt.Println("would wait", e.Wait.Round(time.Second), "for", e.Scope)
	}
	// Output:
	// <nil>
	// <nil>
	// would wait 5s for tokens
}

// Each account has a limit of its own, and so a Throttle.
func ExampleGroup() {
	accounts := throttle.Group{New: func(account string) *throttle.Throttle {
		return &throttle.Throttle{OnEvent: throttle.Log(slog.Default().With("account", account))}
	}}
	call := func(account string) error {
		m := accounts.Enter(account)
		defer m.Leave()
		return m.Throttle().Do(context.Background(), func(context.Context) error { return nil })
	}

	fmt.Println(call("alice"), call("bob"), call("alice"), accounts.Len())
	// Output: <nil> <nil> <nil> 2
}

// A semaphore: one query at a time, without a rate.
func ExampleThrottle_semaphore() {
	db := throttle.Throttle{Control: new(pace.Fixed), MaxInFlight: 1}
	ctx, running, end := context.Background(), make(chan struct{}), make(chan struct{})

	var queries sync.WaitGroup
	queries.Go(func() {
		_ = db.Do(ctx, func(context.Context) error { close(running); <-end; return nil })
	})
	<-running
	query := func(context.Context) error { return nil }
	fmt.Println(errors.Is(db.Try(ctx, query), throttle.ErrWouldWait))
	close(end)
	fmt.Println(db.Do(ctx, query)) // waits for its turn
	queries.Wait()
	// Output:
	// true
	// <nil>
}
