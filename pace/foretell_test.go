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
