package limit_test

import (
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A state is all that is remembered of a caller; the clock is an argument.
func ExampleTake() {
	ask := limit.Ask{
		Limit: limit.Limit{Count: 60, Period: time.Minute, Burst: 2},
		N:     1,
	}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	var s limit.State
	for range 4 {
		var d limit.Decision
		s, d = limit.Take(s, now, ask)
		if d.OK {
			fmt.Println(now.Format("05.0"), "passes,", d.Remaining, "left")
			continue
		}
		fmt.Println(now.Format("05.0"), "is refused, come again after", d.RetryAfter)
		now = now.Add(d.RetryAfter)
	}
	// Output:
	// 00.0 passes, 1 left
	// 00.0 passes, 0 left
	// 00.0 is refused, come again after 1s
	// 01.0 passes, 0 left
}

// Ten a second and no more than fifteen a minute: both, or nothing is charged.
func ExampleTakeAll() {
	asks := []limit.Ask{
		{Limit: limit.Limit{Count: 10, Period: time.Second}, N: 10},
		{Limit: limit.Limit{Kind: limit.FixedWindow, Count: 15, Period: time.Minute}, N: 10},
	}
	states, answers := make([]limit.State, 2), make([]limit.Decision, 2)
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for range 2 {
		ok := limit.TakeAll(states, now, asks, answers)
		fmt.Println(ok, answers[0].Remaining, answers[1].Remaining, answers[1].RetryAfter)
		now = now.Add(time.Second)
	}
	// Output:
	// true 0 5 0s
	// false 10 5 59s
}

// The true cost is known afterwards: what was charged too little is owed.
func ExampleAsk_debt() {
	l := limit.Limit{Count: 100, Period: time.Second}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	s, _ := limit.Take(limit.State{}, now, limit.Ask{Limit: l, N: 90})                  // the estimate
	s, _ = limit.Take(s, now, limit.Ask{Limit: l, N: 60, Debt: true})                   // it cost 150
	_, d := limit.Take(s, now, limit.Ask{Limit: l, N: 1})                               // the next
	_, part := limit.Take(s, now.Add(time.Second), limit.Ask{Limit: l, N: 80, Min: 20}) // as much as there is
	fmt.Println(d.OK, d.RetryAfter, part.N)
	// Output: false 510ms 50
}

func ExampleParseRate() {
	count, period, err := limit.ParseRate("100/10s")
	fmt.Println(count, period, err)
	_, _, err = limit.ParseRate("100 a minute")
	fmt.Println(err)
	// Output:
	// 100 10s <nil>
	// limit: rate "100 a minute": has no '/'; write COUNT/[N]UNIT with UNIT one of ms s m min h hour d day, as in 4/s or 100/10s
}
