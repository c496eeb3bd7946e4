package main

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestTheJob writes for half as long as the program does, so the first burst
// weighs twice as much and each step has half the time to be found. Simulated
// (throttle sim, 100 seeds of the same capacities and workers), 2.1 to 2.6 % are
// throttled then and 99.5 to 100 % of the capacity used; the bounds leave room for
// a machine that is busy with other things.
func TestTheJob(t *testing.T) {
	realAPI(t)
	results, err := compare(t.Context(), 16*time.Second, modes[:1])
	if err != nil {
		t.Fatal(err)
	}
	r := results[0]
	t.Logf("%+v", r)
	if r.throttled > 0.03 || r.used < 0.85 || r.lost != 0 {
		t.Errorf("throttled %.2f %%, capacity used %.1f %%, %d given up; want at most 3, at least 85, none", 100*r.throttled, 100*r.used, r.lost)
	}
}

func TestCapacity(t *testing.T) {
	b := before(nil, 4*time.Second, []capacity{{0, 10}, {2 * time.Second, 40}}, 5)
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		at   time.Duration
		want int64 // of 100 units asked for, one by one
	}{
		{0, 5},
		{100 * time.Millisecond, 1},
		{time.Second, 5}, // 9 came back, 5 are saved up
		{2 * time.Second, 5},
		{2050 * time.Millisecond, 2},
		{5 * time.Second, 5}, // not counted
	} {
		var got int64
		for range 100 {
			if b.write(start.Add(c.at), "a", 1) {
				got++
			}
		}
		if got != c.want {
			t.Errorf("at %v: %d units written, want %d", c.at, got, c.want)
		}
	}
	all, used := b.tally()
	// 5 saved up, 2 s of 10 and 2 s of 40.
	if len(all) != 1 || all[0] != (counts{18, 482}) || used != 18.0/105 {
		t.Errorf("tally = %v, %v; want 18 served, 482 throttled, %v", all, used, 18.0/105)
	}
	if l := b.limitAt(3 * time.Second); l != (limit.Limit{Count: 40, Period: time.Second, Burst: 5}) {
		t.Errorf("the limit after 3 s is %v, want 40/s with a burst of 5", l)
	}
}
