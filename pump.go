package throttle

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// pump starts all that may start, and sets the timer for those that may not
// yet. mine reports whether self was among them; its channel is not used then.
// Caller holds mu.
func (t *Throttle) pump(now time.Time, self *waiter) (mine bool) {
	ended := false
	defer func() {
		if !ended { // a Controller panicked: waiting calls must get its panic, or start
			t.ringAfter(now, 0)
		}
	}()
	mine, _, again := t.start(now, now, self)
	for t.giveUpLate() {
		also := false
		also, _, again = t.start(now, now, self)
		mine = mine || also
	}
	again = min(again, t.buy(now))
	ended = true
	t.ringAfter(now, again)
	return mine
}

// start starts, now, the n calls that may start as of at, and returns how long
// after at to ask again. Caller holds mu.
func (t *Throttle) start(at, now time.Time, self *waiter) (mine bool, n int, again time.Duration) {
	for {
		ticket, again := t.gate.Next(at)
		if ticket == nil {
			return mine, n, again
		}
		n++
		w := ticket.Owner.(*waiter)
		w.sent, ticket.Began = now, now
		if w == self {
			mine = true
			continue
		}
		w.ready <- struct{}{} // never blocks: one start, one receiver
	}
}

// giveUpLate ends the wait of calls that would not be answered in time, as others
// have started in their place, and reports whether there were any. Caller holds mu.
func (t *Throttle) giveUpLate() (some bool) {
	for ticket := t.gate.GivenUp(); ticket != nil; ticket = t.gate.GivenUp() {
		w := ticket.Owner.(*waiter)
		w.tooLate, some = true, true
		w.ready <- struct{}{} // never blocks: it has not started
	}
	return some
}

// tolerance is how late the timer may fire and count as on time. Timers are
// late by a millisecond and more; 20 ms cover those of all systems. A longer
// delay is a program that was suspended, and its waiting calls shall not all
// start at once.
const tolerance = 20 * time.Millisecond

// now returns the time, and is called before each event. If the timer is late,
// calls that should have started since start now, and the gate counts them as
// of when they should have: otherwise a rate above a few hundred a second could
// not be kept. Caller holds mu.
func (t *Throttle) now() time.Time {
	now := time.Now()
	if t.wake.IsZero() || !t.wake.Before(now) {
		return now
	}
	at := t.wake
	if oldest := now.Add(-tolerance); at.Before(oldest) {
		at = oldest
	}
	for at.Before(now) {
		_, n, again := t.start(at, now, nil)
		if n == 0 || again == pace.Never {
			break // what is left is for the pump that follows
		}
		at = at.Add(again)
	}
	t.wake = time.Time{}
	return now
}

// ringAfter sets the timer, or stops it if wait is Never. Caller holds mu.
func (t *Throttle) ringAfter(now time.Time, wait time.Duration) {
	if wait == pace.Never {
		if !t.wake.IsZero() {
			t.wake = time.Time{}
			t.timer.Stop()
		}
		return
	}
	at := now.Add(wait)
	if at.Equal(t.wake) {
		return
	}
	t.wake = at
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.ring)
		return
	}
	t.timer.Reset(wait)
}

// ring asks the gate again. One ring too many, as when the timer was reset
// while this one was in flight, does no harm.
func (t *Throttle) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alone(func() {
		now := t.now()
		t.wake = time.Time{}
		t.pump(now, nil)
	})
}

// alone runs f in a goroutine that belongs to no call, where no caller could
// recover from a panic of a Controller. A call that waits panics with it
// instead, as it would if the Controller had panicked in its own goroutine; then
// the next one, if it happens again. Caller holds mu.
func (t *Throttle) alone(f func()) {
	ended := false
	defer func() {
		if ended {
			return
		}
		p := recover()
		if p == nil {
			p = errGoexit
		}
		first := t.gate.First()
		if first == nil {
			panic(p) // not of a Controller: none is called while no call waits
		}
		w := first.Owner.(*waiter)
		now := time.Now()
		t.gate.Leave(now, first)
		w.fault = &fault{p, debug.Stack()}
		w.ready <- struct{}{} // never blocks: it has not started
		t.wake = time.Time{}
		t.ringAfter(now, 0)
	}()
	f()
	ended = true
}

var errGoexit = errors.New("runtime.Goexit was called")

// fault is what a call panics with when a Controller panicked in a goroutine
// that belongs to no call.
type fault struct {
	value any
	stack []byte // of that goroutine
}

// Error returns the value and where it happened.
func (f *fault) Error() string {
	return fmt.Sprintf("throttle: a Controller panicked: %v\n\n%s", f.value, f.stack)
}

// Unwrap returns the value, if it is an error.
func (f *fault) Unwrap() error {
	err, _ := f.value.(error)
	return err
}
