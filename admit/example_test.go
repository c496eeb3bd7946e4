package admit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// A burst leaves at a constant rate; what would wait too long is refused at once.
func ExampleQueue() {
	queue := admit.Queue{MaxWait: time.Minute}
	ctx := context.Background()

	hundredASecond := limit.Limit{Count: 100, Period: time.Second, Burst: 1}
	began := time.Now()
	for range 4 {
		if _, err := queue.Wait(ctx, "mail", hundredASecond, 1); err != nil {
			panic(err)
		}
	}
	fmt.Println("4 took 30 ms or more:", time.Since(began) >= 30*time.Millisecond)

	hourly := limit.Limit{Count: 1, Period: time.Hour}
	for range 2 {
		_, err := queue.Wait(ctx, "report", hourly, 1)
		var e *store.Error
		if errors.As(err, &e) {
			fmt.Println("refused at once: it would take", e.Wait.Round(time.Minute))
		}
	}
	// Output:
	// 4 took 30 ms or more: true
	// refused at once: it would take 1h0m0s
}

// A customer may have three objects.
func ExampleQuota() {
	objects := []string{"a", "b"} // or a database
	quota := admit.Quota{Count: func(context.Context, string) (int64, error) {
		return int64(len(objects)), nil
	}}
	insert := func(name string) error {
		objects = append(objects, name)
		return nil
	}
	create := func(name string) error {
		c, err := quota.Create(context.Background(), "customer 42", 1, 3)
		defer c.Cancel() // unless Done
		if err != nil {
			return err // could not decide
		}
		if !c.OK {
			return fmt.Errorf("no room for %s: there are %d already", name, c.Held)
		}
		if err := insert(name); err != nil {
			return err
		}
		c.Done()
		return nil
	}
	fmt.Println(create("c"))
	fmt.Println(create("d"))
	objects = objects[1:]
	quota.Deleted("customer 42", 1)
	fmt.Println(create("e"))
	// Output:
	// <nil>
	// no room for d: there are 3 already
	// <nil>
}

// A Control admits jobs as it admits requests: by a limit and a bound on those in flight for
// each customer.
func ExampleControl() {
	jobs := admit.Control{
		Limit:       limit.Limit{Count: 100, Period: time.Hour},
		MaxInFlight: 1,
	}
	begin := func(customer string) *admit.Admission {
		a, err := jobs.Begin(context.Background(), admit.Request{Key: customer})
		fmt.Println(customer, a.OK, a.Reason(), err)
		return a
	}
	first := begin("alice")
	begin("alice").Done() // refused, and not charged
	begin("bob").Done()
	first.Done()
	begin("alice").Done()
	// Output:
	// alice true within <nil>
	// alice false busy <nil>
	// bob true within <nil>
	// alice true within <nil>
}
