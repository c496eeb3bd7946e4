package pace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Where all tickets cost the same and no other enters, the forecast of the last one is when it
// starts, whatever lanes and keys wait and have had.
func TestForetellLast(t *testing.T) {
	for _, c := range []struct{ lanes, keys, cost int }{{3, 1, 1}, {1, 4, 1}, {3, 4, 1000}} {
		for seed := range uint64(300) {
			random := rand.New(rand.NewPCG(seed, 1))
			l := newLaned(t, make([]float64, c.lanes)...)
			l.gate.Control = &pace.Fixed{Rate: float64(c.cost)}
			enter := func() *pace.Ticket {
				x := &pace.Ticket{Lane: random.IntN(c.lanes), Key: fmt.Sprint(random.IntN(c.keys)), Cost: int64(c.cost)}
				l.gate.Enter(l.now, x)
				return x
			}
			for range random.IntN(60) {
				if enter(); random.IntN(2) == 0 {
					l.next(1)
				}
			}
			last, entered := enter(), l.now
			want := last.Forecast
			for l.next(1)[0] != last {
			}
			if got := l.now.Sub(entered); (got - want).Abs() > time.Microsecond {
				t.Errorf("%+v, seed %d: waited %v, foretold %v", c, seed, got, want)
			}
		}
	}
}

// Of tickets that rest before a retry only those hold up a new one that are back before its turn: a
// call is not refused because a hundred others rest for an hour.
func TestForetellBesideRests(t *testing.T) {
	for _, c := range []struct {
		rests []time.Duration
		line  int
		want  time.Duration
	}{
		{nil, 3, 4 * time.Second},
		{[]time.Duration{time.Hour, time.Hour, time.Hour}, 0, time.Second},
		{[]time.Duration{time.Hour, 2 * time.Second}, 3, 5 * time.Second},
		{[]time.Duration{5500 * time.Millisecond, 2 * time.Second, 4500 * time.Millisecond}, 3, 7 * time.Second},
	} {
		l := newLaned(t)
		l.gate.Tries = 5
		l.gate.Control = pace.All(nil)
		for _, rest := range c.rests {
			l.enter(0, 1, 0)
			x, _ := l.gate.Next(l.now)
			l.gate.Done(l.now, x, pace.Report{Verdict: pace.Throttled, After: rest})
		}
		l.gate.Control = &pace.Fixed{Rate: 1}
		l.enter(0, 1, 0)
		l.next(1)
		l.enter(0, c.line, 0)
		next, got := l.gate.Status(l.now).Next, l.enter(0, 1, 0)[0].Forecast
		if got != c.want || next != c.want {
			t.Errorf("beside rests of %v and %d in line: foretold %v, and by Status %v, want %v", c.rests, c.line, got, next, c.want)
		}
	}
}
