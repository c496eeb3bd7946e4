package load_test

import (
	"fmt"
	"time"

	"github.com/throttle-go/throttle/load"
)

// The driver of a Law counts what is in flight, and tells it of each request that ends.
func ExampleLaw() {
	var law load.Law = new(load.AIMD) // or Adaptive, the recommended one
	fmt.Println(law.Limit())
	for _, end := range []load.End{load.Served, load.Refused} {
		law.Observe(load.Sample{Now: time.Now(), Took: 20 * time.Millisecond, InFlight: 10, End: end})
		fmt.Println(end, law.Limit())
	}
	// Output:
	// 10
	// served 11
	// refused 9
}

// Work waits while one piece is in flight; the highest priority starts next.
func ExampleAdmission() {
	a := load.Admission{MaxInFlight: 1}
	now := time.Now()
	first, crawl, pay := load.Ticket{}, load.Ticket{Priority: load.Low}, load.Ticket{Priority: load.High}
	fmt.Println(a.Enter(now, &first), a.Enter(now, &crawl), a.Enter(now, &pay))

	a.Done(now.Add(10*time.Millisecond), &first, true)
	for t := a.Next(); t != nil; t = a.Next() {
		fmt.Println(t.Priority, t.State())
	}
	fmt.Println(crawl.State())
	// Output:
	// granted waiting waiting
	// high granted
	// waiting
}
