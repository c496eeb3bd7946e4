package limit_test

import (
	"fmt"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A quota of the month, by the calendar of those who pay for it.
func ExampleParse() {
	berlin := time.FixedZone("Europe/Berlin", 3600) // or time.LoadLocation, where files may be read
	l, err := limit.Parse("5000/month calendar-window Europe/Berlin", func(string) (*time.Location, error) { return berlin, nil })
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)
	_, d := limit.Take(limit.State{}, now, limit.Ask{Limit: l, N: 5000})
	fmt.Println(l, d.Remaining, d.ResetAfter)
	_, err = limit.Parse("5000/h sliding", nil)
	fmt.Println(err)
	// Output:
	// 5000/month calendar-window Europe/Berlin 0 1h0m0s
	// limit: "5000/h sliding": "sliding" is neither burst nor a kind; write COUNT/[N]UNIT, then burst N or a kind, as in 100/s burst 200, 5000/h sliding-window or 5000/month calendar-window Europe/Berlin, or unlimited
}

// At most three in any minute, told to ten seconds, in 56 bytes a key.
func ExampleSlots() {
	ask := limit.Ask{Limit: limit.Limit{Kind: limit.SlidingSlots, Slots: 6, Count: 3, Period: time.Minute}, N: 1}
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	var slots limit.Slots
	for _, second := range []time.Duration{5, 25, 45, 64, 69, 70} {
		d := slots.Take(noon.Add(second*time.Second), ask)
		fmt.Println(int64(second), d.OK, d.RetryAfter)
	}
	// Output:
	// 5 true 0s
	// 25 true 0s
	// 45 true 0s
	// 64 false 6s
	// 69 false 1s
	// 70 true 0s
}

// Ten a second, a hundred an hour: who is refused is told which it was.
func ExampleBinding() {
	asks := []limit.Ask{
		{Key: "a second", Limit: limit.Limit{Count: 10, Period: time.Second}, N: 10},
		{Key: "an hour", Limit: limit.Limit{Kind: limit.SlidingWindow, Count: 15, Period: time.Hour}, N: 10},
	}
	states, answers := make([]limit.State, 2), make([]limit.Decision, 2)
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for range 2 {
		ok := limit.TakeAll(states, now, asks, answers)
		i := limit.Binding(answers)
		fmt.Println(ok, asks[i].Key, answers[i].RetryAfter)
	}
	// Output:
	// true a second 0s
	// false an hour 1h27m0s
}

// A lowered limit: what was used stays used.
func ExampleChange() {
	before := limit.Limit{Kind: limit.FirstHitWindow, Count: 100, Period: time.Hour}
	after := limit.Limit{Count: 50, Period: time.Minute}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	s, _ := limit.Take(limit.State{}, now, limit.Ask{Limit: before, N: 30})
	s = limit.Change(s, now, before, after)
	_, d := limit.Take(s, now, limit.Ask{Limit: after})
	fmt.Println(limit.Used(s, now, after), "used,", d.Remaining, "left")
	// Output: 30 used, 20 left
}
