package throttletest

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// untilForgotten is how long keys are left alone that must not be forgotten:
// long enough to catch a store that keeps them for too few whole seconds, or for
// one Period only.
const untilForgotten = 1100 * time.Millisecond

// An expiry is a number of keys that were taken from when the suite began.
type expiry struct {
	model
	asks  []limit.Ask
	begun time.Time // by the clock of the store
}

func (s suite) beginExpiry(t *testing.T) *expiry {
	t.Helper()
	e := &expiry{model: newModel(s)}
	add := func(n int64, l limit.Limit) {
		a := limit.Ask{Key: s.key(fmt.Sprint("expiry ", n, " of ", l)), Limit: l, N: n, Debt: true}
		e.asks = append(e.asks, a)
	}
	for _, kind := range allKinds[:6] {
		add(1, limit.Limit{Kind: kind, Count: 1, Period: 1900 * time.Millisecond})
		add(2, limit.Limit{Kind: kind, Count: 1, Period: time.Second})
	}
	for n := range 20 { // one of them is between whole seconds, however long the suite takes
		add(1, limit.Limit{Count: 1, Period: time.Duration(n+1)*time.Second + 900*time.Millisecond})
	}
	add(1000, limit.Limit{Count: 10, Period: time.Second, Burst: 1000})
	add(7, limit.Limit{Count: 1, Period: time.Second, Burst: 4})
	add(3, limit.Limit{Kind: limit.SlidingSlots, Count: 3, Period: 1500 * time.Millisecond, Slots: 2})
	for _, a := range e.asks {
		if !e.agree(t, a) {
			t.FailNow()
		}
	}
	e.begun = s.take(t, limit.Ask{Key: s.key("clock"), Limit: limit.Limit{Count: 1, Period: time.Second}}).At
	return e
}

// check waits if need be, until some time after a whole second, and asks again.
func (e *expiry) check(t *testing.T) {
	passed := e.awaits(t, e.begun.Add(untilForgotten), 10*time.Millisecond).Sub(e.begun)
	if part := passed % time.Second; part > 800*time.Millisecond {
		e.awaits(t, e.begun.Add(passed-part+untilForgotten), 10*time.Millisecond)
	}
	for _, a := range e.asks {
		a.N, a.Debt = 1, false
		if !e.agree(t, a) {
			t.Errorf("%v after %s", untilForgotten, told([]limit.Ask{a}))
		}
	}
}

// awaits lets the clock of the store pass a time, and tells what it is then.
// Watching another key tells the time, and leaves those of the test be.
func (s suite) awaits(t *testing.T, end time.Time, pause time.Duration) time.Time {
	t.Helper()
	clock := limit.Ask{Key: s.key("clock"), Limit: limit.Limit{Count: 1, Period: time.Second}}
	last, since, looks := time.Time{}, time.Now(), 0
	for {
		now := s.take(t, clock).At
		switch looks++; {
		case now.After(end):
			return now
		case !now.Equal(last):
			last, since, looks = now, time.Now(), 0
		case looks >= 50 && time.Since(since) > time.Second:
			t.Fatalf("the clock of the store has been at %v for %v", now, time.Since(since))
		}
		if pause > 0 {
			<-time.After(pause)
		}
	}
}

// idle lets keys expire and asks whether they are as new.
func (s suite) idle(t *testing.T) {
	for _, kind := range allKinds[:6] {
		l := limit.Limit{Kind: kind, Count: 5, Period: 2 * time.Millisecond}
		ask := limit.Ask{Key: s.key("idle " + kind.String()), Limit: l, N: 5}
		first := s.take(t, ask)
		s.awaits(t, first.At.Add(first.ResetAfter+time.Microsecond), 0)
		if d := s.take(t, ask); !d.OK || d.N != 5 {
			t.Errorf("%v, after it was idle: %+v, want 5 granted", kind, d)
		}
	}
}

// edges asks again and again, through the ends of several windows.
func (s suite) edges(t *testing.T) {
	for _, kind := range allKinds[:6] {
		m := newModel(s)
		l := limit.Limit{Kind: kind, Count: 12, Period: 6 * time.Millisecond}
		for range 25 {
			<-time.After(time.Millisecond)
			if !m.agree(t, limit.Ask{Key: s.key("edges " + kind.String()), Limit: l, N: 3, Min: 1}) {
				break
			}
		}
	}
}
