package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/worker"
)

// A list of jobs, with progress, and the error of each.
func ExampleWorker_Each() {
	w := worker.Worker[string]{
		Throttle: &throttle.Throttle{Control: &pace.Fixed{Rate: 1000}},
		Handle: func(_ context.Context, name string) error {
			if name == "" {
				return errors.New("no name")
			}
			return nil
		},
		MaxInFlight: 1, // so that the output is always the same
	}
	jobs, done := []string{"a", "", "b"}, 0
	for name, err := range w.Each(context.Background(), slices.Values(jobs)) {
		done++
		fmt.Printf("%d of %d: %q, %v\n", done, len(jobs), name, err)
	}
	// Output:
	// 1 of 3: "a", <nil>
	// 2 of 3: "", no name
	// 3 of 3: "b", <nil>
}

// message is a record of a log, as a client of a broker returns it.
type message struct {
	Offset int64
	Value  string
}

// A partition of a log: the frontier is what to commit.
func ExampleAssignment() {
	ctx := context.Background()
	w := worker.Worker[message]{
		Handle: func(context.Context, message) error { return nil }, // the write
		Offset: func(m message) int64 { return m.Offset },
		Room:   func(*worker.Assignment[message]) { /* resume the partition, and Add the rest */ },
	}
	a := w.Assign(ctx, "orders[0]", 5) // when the partition is assigned

	fetched := []message{{5, "a"}, {6, "b"}, {9, "c"}} // 7 and 8 are compacted
	if n := a.Add(fetched...); n < len(fetched) {
		fmt.Println("pause the partition, and keep", fetched[n:])
	}
	_ = a.Wait(ctx) // a consumer does not wait: it commits each second

	next, ok := a.Frontier()
	fmt.Println("commit", next, ok)

	next, ok = a.Revoke(ctx) // before the partition goes to another consumer
	fmt.Println("commit", next, ok)

	next, ok = a.Frontier()
	fmt.Println("too late:", next, ok)
	// Output:
	// commit 10 true
	// commit 10 true
	// too late: 10 false
}

// Errors say how a try ended; what is given up goes to the dead letter queue.
func ExampleWorker_dead() {
	ctx := context.Background()
	w := worker.Worker[message]{
		Tries: 3,
		Handle: func(_ context.Context, m message) error {
			switch m.Value {
			case "broken":
				return errors.New("not a number") // permanent: given up at once
			case "unlucky":
				return throttle.Failed(errors.New("connection reset")) // retried
			}
			return nil
		},
		Dead: func(_ context.Context, m message, err error) error {
			fmt.Printf("%s: %v\n", m.Value, err)
			return nil
		},
		Order: func(message) string { return "one after another" },
	}
	a := w.Assign(ctx, "orders[0]", 0)
	a.Add(message{0, "fine"}, message{1, "broken"}, message{2, "unlucky"})
	_ = a.Wait(ctx)
	next, _ := a.Frontier()
	fmt.Println("commit", next)
	// Output:
	// broken: not a number
	// unlucky: throttle: no tries left, after 3 tries, may have been executed: connection reset
	// commit 3
}
