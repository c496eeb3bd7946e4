package survey

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

func TestDraw(t *testing.T) {
	all := AllGroups()
	seen := map[Group]int{}
	for number := range 2000 {
		c := Draw(1, number)
		s := c.Scenario
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if l := s.Server.Limit; math.Abs(c.Rate*l.Period.Seconds()-float64(l.Count)) > 1e-6 {
			t.Errorf("cell %d: rate %v and limit %v", number, c.Rate, l)
		}
		if c.Rate < 9.5/3600 || c.Rate > 5001 || s.Network.Latency < time.Millisecond || s.Network.Latency > 10*time.Second {
			t.Errorf("cell %d: rate %v, latency %v", number, c.Rate, s.Network.Latency)
		}
		processes := 0
		for _, g := range s.Clients {
			processes += g.Processes
		}
		if processes != c.Processes {
			t.Errorf("cell %d: %d processes, want %d", number, processes, c.Processes)
		}
		if permits := c.Rate * s.Duration.Seconds(); c.Mode != Job && permits < 99*float64(processes) {
			t.Errorf("cell %d: %v permits of %d processes", number, permits, processes)
		}
		for _, g := range c.Groups(number%2 == 0) {
			if !slices.Contains(all, g) {
				t.Errorf("group %v is not among all", g)
			}
			seen[g]++
		}
	}
	for _, g := range all {
		if seen[g] < 20 {
			t.Errorf("%v: %d of 2000 cells", g, seen[g])
		}
	}
}

func TestDrawIsAFunction(t *testing.T) {
	for number := range 50 {
		if a, b := Draw(3, number), Draw(3, number); !reflect.DeepEqual(a, b) {
			t.Errorf("cell %d is %+v, and then %+v", number, a, b)
		}
	}
	if reflect.DeepEqual(Draw(3, 0), Draw(4, 0)) {
		t.Error("another seed draws the same")
	}
}

// TestTell: one true hint more, and nothing else.
func TestTell(t *testing.T) {
	hints := func(c Cell) (n int) {
		h := c.Scenario.Server.Hints
		for _, is := range []bool{h.Remaining, h.RetryAfter, h.Reset, h.Policy} {
			if is {
				n++
			}
		}
		return n
	}
	for number := range 200 {
		c := Draw(1, number)
		told, hint, ok := c.Tell()
		if ok && !slices.Contains(Hints[:], hint) {
			t.Errorf("cell %d: %q is no hint", number, hint)
		}
		if ok != (hints(c) < 4) || ok && hints(told) != hints(c)+1 {
			t.Errorf("cell %d: %d hints, then %d, %v", number, hints(c), hints(told), ok)
		}
		told.Scenario.Server.Hints, told.Scenario.Name = c.Scenario.Server.Hints, c.Scenario.Name
		if !reflect.DeepEqual(told, c) {
			t.Errorf("cell %d: more than a hint is different", number)
		}
	}
}

// TestBoundHolds: the bound misses nothing in any cell, but for Jain's index
// where calls are few.
func TestBoundHolds(t *testing.T) {
	number := -1
	for range 50 {
		c := cheap(&number)
		r := sim.Bound(c.Scenario, 1)
		for !r.Step(1_000_000) {
		}
		f := Measure([]sim.Result{r.Result()})
		v := c.Judge(f, f, true)
		v[2] = 0
		if !v.Held() || f.Throttled > 0 || r.Result().Cut {
			t.Errorf("cell %d (%v): the bound misses %v", number, c.Scenario.Server.Limit, v)
		}
	}
}

func TestWindow(t *testing.T) {
	for _, test := range []struct {
		kind    limit.Kind
		seconds float64
		want    time.Duration
	}{
		{limit.FixedWindow, 0.01, time.Second},
		{limit.FixedWindow, 4, 10 * time.Second},
		{limit.CalendarWindow, 4, time.Minute},
		{limit.SlidingLog, 1e9, time.Hour},
	} {
		if got := window(test.kind, test.seconds); got != test.want {
			t.Errorf("window(%v, %v) = %v, want %v", test.kind, test.seconds, got, test.want)
		}
	}
}
