// Jobs admits jobs from a channel by the admission control that guards an API:
// each customer has its own rate, few jobs of one run at a time, and when there
// is no room the jobs of low priority wait.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/load"
)

// job is work for a customer.
type job struct {
	customer string
	priority load.Priority
	run      func(context.Context)
}

// work runs jobs as they are admitted, until the channel is closed or ctx ends.
// A refused job comes again when it was told to, at most waiting of them at a
// time: beyond that work reads no further jobs, which is backpressure.
func work(ctx context.Context, control *admit.Control, jobs <-chan job, waiting int) {
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, waiting)
	for {
		select {
		case <-ctx.Done():
			return
		case room <- struct{}{}:
		}
		j, more := next(ctx, jobs)
		if !more {
			return
		}
		all.Go(func() {
			defer func() { <-room }()
			for !try(ctx, control, j) {
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
}

// next returns the next job.
func next(ctx context.Context, jobs <-chan job) (j job, more bool) {
	select {
	case <-ctx.Done():
		return job{}, false
	case j, more = <-jobs:
		return j, more
	}
}

// try runs j if it is admitted, and waits otherwise until it may be.
func try(ctx context.Context, control *admit.Control, j job) (done bool) {
	a, err := control.Begin(ctx, admit.Request{Key: j.customer, Priority: j.priority})
	defer a.Done()
	switch {
	case err != nil: // the Store could not decide
		pause(ctx, time.Second)
	case !a.OK:
		pause(ctx, a.RetryAfter)
	default:
		j.run(ctx)
	}
	return err == nil && a.OK
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func main() {
	control := &admit.Control{
		Limit:       limit.Limit{Count: 50, Period: time.Second, Burst: 5},
		MaxInFlight: 2,
	}
	jobs := make(chan job)
	go func() {
		defer close(jobs)
		for i := range 20 {
			name := []string{"first", "second"}[i%2]
			jobs <- job{customer: name, run: func(context.Context) { fmt.Fprintln(os.Stdout, name, i) }}
		}
	}()
	work(context.Background(), control, jobs, 10)
}
