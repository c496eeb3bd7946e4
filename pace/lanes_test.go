package pace_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// laned is a gate with lanes before a fixed rate of one a second, and its clock.
type laned struct {
	*testing.T
	gate pace.Gate
	now  time.Time
}

func newLaned(t *testing.T, weights ...float64) *laned {
	return &laned{t, pace.Gate{Lanes: weights, Control: &pace.Fixed{Rate: 1}}, time.Unix(1000, 0)}
}

// enter puts n tickets in a lane.
func (l *laned) enter(lane, n int, cost int64) (all []*pace.Ticket) {
	l.Helper()
	for range n {
		t := &pace.Ticket{Lane: lane, Cost: cost}
		if _, ok := l.gate.Enter(l.now, t); !ok {
			l.Fatalf("Enter in lane %d refused", lane)
		}
		all = append(all, t)
	}
	return all
}

// next lets n go, ends their calls, and returns them.
func (l *laned) next(n int) (all []*pace.Ticket) {
	for len(all) < n {
		t, again := l.gate.Next(l.now)
		if t == nil {
			if again == pace.Never {
				return all
			}
			l.now = l.now.Add(again)
			continue
		}
		l.gate.Done(l.now, t, pace.Report{Verdict: pace.Served})
		all = append(all, t)
	}
	return all
}

func perLane(all []*pace.Ticket) string {
	n := map[int]int{}
	for _, t := range all {
		n[t.Lane]++
	}
	return fmt.Sprint(n)
}

func TestLanesShareByWeight(t *testing.T) {
	l := newLaned(t, 1, 3)
	l.enter(0, 100, 0)
	l.enter(1, 100, 0)
	if got, want := perLane(l.next(40)), "map[0:10 1:30]"; got != want {
		t.Errorf("of 40 starts, weights 1 and 3: %s, want %s", got, want)
	}
	l.next(200 - 40)
	if got := l.gate.Waiting(); got != 0 {
		t.Errorf("after all: %d wait, want 0", got)
	}
}

func TestLanesShareCosts(t *testing.T) {
	l := newLaned(t, 1, 1)
	l.enter(0, 100, 4)
	l.enter(1, 100, 1)
	if got, want := perLane(l.next(50)), "map[0:10 1:40]"; got != want {
		t.Errorf("of 50 starts, costs 4 and 1: %s, want %s", got, want)
	}
}

func TestALaneIsFirstComeFirstServed(t *testing.T) {
	l := newLaned(t, 1, 2)
	var want [2][]*pace.Ticket
	for i := range 30 {
		want[i%2] = append(want[i%2], l.enter(i%2, 1, 0)...)
	}
	for i, got := range l.next(30) {
		if first := want[got.Lane][0]; got != first {
			t.Fatalf("start %d: not the first of lane %d", i, got.Lane)
		}
		want[got.Lane] = want[got.Lane][1:]
	}
}

func TestAnIdleLaneSavesNothing(t *testing.T) {
	l := newLaned(t, 1, 1)
	l.enter(0, 200, 0)
	l.next(100) // lane 1 is idle for long
	l.enter(1, 50, 0)
	if got, want := perLane(l.next(20)), "map[0:10 1:10]"; got != want {
		t.Errorf("after a rest of lane 1: %s, want %s", got, want)
	}
	// And what a lane has had alone is not held against it.
	l = newLaned(t, 1, 1)
	l.enter(0, 100, 0)
	l.next(100)
	l.enter(1, 50, 0)
	l.enter(0, 50, 0)
	if got, want := perLane(l.next(20)), "map[0:10 1:10]"; got != want {
		t.Errorf("after a rest of all: %s, want %s", got, want)
	}
}

func TestLeavingCostsALaneNothing(t *testing.T) {
	l := newLaned(t, 1, 1)
	l.enter(0, 100, 0)
	l.next(1) // lane 0 is busy
	for _, gone := range l.enter(1, 10_000, 1000) {
		l.gate.Leave(l.now, gone)
	}
	l.enter(1, 50, 0)
	if got, want := perLane(l.next(20)), "map[0:10 1:10]"; got != want {
		t.Errorf("after 10,000 left lane 1: %s, want %s", got, want)
	}
}

func TestLanesThatDoNotExist(t *testing.T) {
	l := newLaned(t, 1, math.NaN(), -3)
	l.enter(-1, 10, 0)
	l.enter(7, 10, 0)
	if got := len(l.next(20)); got != 20 {
		t.Errorf("tickets of lanes -1 and 7: %d of 20 started", got)
	}
	l.enter(1, 10, 0)
	l.enter(2, 10, 0)
	if got, want := perLane(l.next(10)), "map[1:5 2:5]"; got != want {
		t.Errorf("weights NaN and -3: %s, want %s, as for weights of 1", got, want)
	}
}

// TestLanesForetell holds the forecast of each ticket to when it started.
func TestLanesForetell(t *testing.T) {
	l := newLaned(t, 1, 3, 0.5)
	l.enter(0, 40, 0)
	l.enter(1, 60, 0)
	l.enter(2, 20, 0)
	l.next(1) // so that the rate is what binds
	for lane := range 3 {
		mine := l.enter(lane, 1, 0)[0]
		began, want := l.now, mine.Forecast.Seconds()
		for l.next(1)[0] != mine {
		}
		got := l.now.Sub(began).Seconds()
		if math.Abs(got-want) > max(2, 0.1*want) {
			t.Errorf("lane %d: waited %.0f s, foretold %.0f s", lane, got, want)
		}
		l.enter(0, 5, 0)
		l.enter(1, 30, 0)
		l.enter(2, 3, 0)
	}
}

// Of two lanes whose turn comes together, the one in which the older ticket waits is first.
func TestLanesForetellTies(t *testing.T) {
	l := newLaned(t, 1, 1, 3)
	l.enter(0, 1, 0)
	l.next(1)
	for i, lane := range []int{1, 0, 2} {
		if got, want := l.enter(lane, 1, 0)[0].Forecast, time.Duration(i+1)*time.Second; got != want {
			t.Errorf("ticket %d, in lane %d, is foretold to wait %v, want %v", i, lane, got, want)
		}
	}
	if all := l.next(3); all[0].Lane != 1 || all[1].Lane != 0 || all[2].Lane != 2 {
		t.Errorf("they started in the lanes %d, %d, %d, want 1, 0, 2", all[0].Lane, all[1].Lane, all[2].Lane)
	}
}

// A cost beyond all measure, which a key may have stated by mistake, does not end the turns of keys.
func TestKeysTakeTurnsAfterAnAbsurdCost(t *testing.T) {
	gate, now := pace.Gate{MaxInFlight: 1}, time.Unix(1000, 0)
	enter := func(key string, n int, cost int64) {
		for range n {
			gate.Enter(now, &pace.Ticket{Key: key, Cost: cost})
		}
	}
	next := func(n int) (keys string) {
		for range n {
			ticket, _ := gate.Next(now)
			gate.Done(now, ticket, pace.Report{Verdict: pace.Served})
			keys += ticket.Key
		}
		return keys
	}
	enter("a", 1, math.MaxInt64)
	enter("b", 1, math.MaxInt64)
	if got := gate.Cost(); got <= 0 {
		t.Errorf("Cost() = %d of two tickets that cost the most, want above zero", got)
	}
	next(2)
	enter("a", 1, 1)
	next(1)
	enter("a", 4, 1)
	enter("b", 4, 1)
	if got, want := next(8), "babababa"; got != want {
		t.Errorf("the keys started in the order %s, want %s", got, want)
	}
}
