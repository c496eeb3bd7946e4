package throttle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// A second life keeps to the rate that the first one has learnt.
func TestLearntOutlivesAThrottle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		call := func(th *Throttle, err error) {
			_ = th.Do(t.Context(), func(context.Context) error {
				time.Sleep(100 * time.Millisecond)
				e := err
				err = nil
				return e
			})
		}
		var first, second, other Throttle
		for range 50 {
			call(&first, nil)
		}
		call(&first, Throttled(errors.New("too many"), 0))
		l := first.Learnt()
		if l.Rate < 1 || l.Rate > 10 || !l.At.Equal(time.Now()) {
			t.Fatalf("learnt %+v, want a rate somewhat below 10 a second", l)
		}
		second.Restore(l)
		call(&second, nil)
		if f := second.Forecast(11) - second.Forecast(1); f.Seconds() < 8/l.Rate || f.Seconds() > 12/l.Rate {
			t.Errorf("ten calls are foreseen to take %v at a rate of %.2f", f, l.Rate)
		}
		if other.Learnt() != (pace.Learnt{}) {
			t.Error("one that was never used has learnt something")
		}
		fixed := Throttle{Control: &pace.Fixed{Rate: 1}}
		fixed.Restore(l)
		if fixed.Learnt() != (pace.Learnt{}) {
			t.Error("a fixed rate has learnt something")
		}
	})
}
