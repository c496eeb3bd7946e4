package load_test

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/load"
)

// enter lets work of that priority enter, which must end up in that state.
func enter(t *testing.T, a *load.Admission, now time.Time, p load.Priority, want load.State) *load.Ticket {
	t.Helper()
	k := &load.Ticket{Priority: p}
	if got := a.Enter(now, k); got != want || k.State() != want {
		t.Fatalf("Enter of %v at %v = %v, State %v, want %v", p, now.Sub(t0), got, k.State(), want)
	}
	return k
}

// next checks whom Next returns.
func next(t *testing.T, a *load.Admission, want ...*load.Ticket) {
	t.Helper()
	for i, k := range want {
		if got := a.Next(); got != k {
			t.Fatalf("Next returns %+v, want number %d of %d: %+v", got, i, len(want), k)
		}
	}
	if got := a.Next(); got != nil {
		t.Fatalf("Next returns %+v, want none", got)
	}
}

// The higher priority goes first, within one who came first; in a full queue the
// last of the lowest gives way.
func TestAdmissionOrder(t *testing.T) {
	a := load.Admission{MaxInFlight: 1, MaxWaiting: 4, MaxWait: time.Minute}
	first := enter(t, &a, t0, load.Low, load.Granted)
	normal := enter(t, &a, t0, 0, load.Waiting) // counts as Normal
	low := enter(t, &a, t0, load.Low, load.Waiting)
	last := enter(t, &a, t0, load.Normal, load.Waiting)
	critical := enter(t, &a, t0, 9, load.Waiting) // counts as Critical
	next(t, &a)
	enter(t, &a, t0, load.Low, load.Full) // none is lower
	high := enter(t, &a, t0, load.High, load.Waiting)
	next(t, &a, low)
	more := enter(t, &a, t0, load.Critical, load.Waiting)
	next(t, &a, last)
	if low.State() != load.PushedOut || last.State() != load.PushedOut {
		t.Errorf("low is %v and the last of normal %v, want both pushed out", low.State(), last.State())
	}
	done := first
	for _, k := range []*load.Ticket{critical, more, high, normal} {
		a.Done(t0, done, true)
		next(t, &a, k)
		if done.State() != load.Out || k.State() != load.Granted {
			t.Fatalf("%v is %v after Done, and %v %v; want its turn", done.Priority, done.State(), k.Priority, k.State())
		}
		done = k
	}
	want := load.Stats{Limit: 1, InFlight: 1, PeakWaiting: 4, Passed: [4]int64{1, 1, 1, 2}, Refused: [4]int64{2, 1, 0, 0}}
	if got := a.Stats(); got != want {
		t.Errorf("Stats %+v, want %+v", got, want)
	}
}

// Work that has waited too long is not let in, even if its driver has not noticed.
func TestAdmissionTooLate(t *testing.T) {
	a := load.Admission{MaxInFlight: 1, MaxWaiting: 9, MaxWait: time.Second}
	first := enter(t, &a, t0, load.Low, load.Granted)
	second := enter(t, &a, t0.Add(600*ms), load.Low, load.Waiting)
	third := enter(t, &a, t0.Add(1200*ms), load.Low, load.Waiting)
	a.Done(t0.Add(1700*ms), first, true)
	next(t, &a, second, third)
	if n := a.Stats(); second.State() != load.TooLate || third.State() != load.Granted || n.InFlight != 1 || n.Waiting != 0 {
		t.Errorf("second %v, third %v, %+v; want the third, as the second is too late", second.State(), third.State(), n)
	}
}

// Work that waits may leave: late it counts as refused, otherwise as nothing.
func TestAdmissionLeave(t *testing.T) {
	a := load.Admission{MaxInFlight: 1, MaxWait: time.Minute}
	first := enter(t, &a, t0, load.High, load.Granted)
	late := enter(t, &a, t0, load.High, load.Waiting)
	gone := enter(t, &a, t0, load.High, load.Waiting)
	last := enter(t, &a, t0, load.High, load.Waiting)
	a.Leave(late, true)
	a.Leave(gone, false)
	a.Leave(gone, true)  // outside it does nothing
	a.Leave(first, true) // nor in flight
	next(t, &a)
	if n := a.Stats(); late.State() != load.Out || gone.State() != load.Out || n.Waiting != 1 || n.Refused != [4]int64{2: 1} {
		t.Errorf("late %v, gone %v, %+v; want both out, one waiting and one refused", late.State(), gone.State(), n)
	}
	a.Done(t0, first, true)
	a.Leave(last, true) // granted, though its driver has not asked yet
	next(t, &a, last)
	if n := a.Stats(); last.State() != load.Granted || n.InFlight != 1 {
		t.Errorf("the last is %v, %+v; want it granted", last.State(), n)
	}
	if a.Enter(t0, late) != load.Waiting { // a ticket may be used again
		t.Errorf("a used ticket is %v, want it waiting", late.State())
	}
}

// A ticket that comes again before its driver has asked what became of it is that of
// the new attempt alone.
func TestAdmissionEnterAgain(t *testing.T) {
	a := load.Admission{MaxInFlight: 1, MaxWaiting: 1, MaxWait: time.Minute}
	enter(t, &a, t0, load.High, load.Granted)
	low := enter(t, &a, t0, load.Low, load.Waiting)
	enter(t, &a, t0, load.High, load.Waiting) // pushes it out
	if low.State() != load.PushedOut || a.Enter(t0, low) != load.Full {
		t.Errorf("a ticket that was pushed out and came again is %v, want it refused as the queue is full", low.State())
	}
	next(t, &a)
}

// Work that cannot start in time is refused at once: by its deadline, or MaxWait.
func TestAdmissionDeadline(t *testing.T) {
	a := load.Admission{MaxInFlight: 1, MaxWait: time.Minute}
	k := enter(t, &a, t0, load.Low, load.Granted)
	now := t0.Add(10 * time.Second) // so long takes one
	a.Done(now, k, true)
	enter(t, &a, now, load.Low, load.Granted)
	for _, c := range []struct {
		maxWait, deadline time.Duration // from now; zero: none
		want              load.State
		sets              time.Duration // the deadline, from now
	}{
		{time.Minute, 10 * time.Second, load.TooLate, 10 * time.Second}, // it would come together with it
		{time.Minute, 11 * time.Second, load.Waiting, 11 * time.Second},
		{time.Minute, 0, load.Waiting, time.Minute},
		{time.Minute, time.Hour, load.Waiting, time.Minute},
		{9 * time.Second, 0, load.TooLate, 9 * time.Second},
		{0, 0, load.Waiting, 100 * time.Second}, // until ten are done
		{-1, time.Hour, load.TooLate, 0},
	} {
		a.MaxWait = c.maxWait
		k := &load.Ticket{Priority: load.Low}
		if c.deadline != 0 {
			k.Deadline = now.Add(c.deadline)
		}
		if got := a.Enter(now, k); got != c.want || k.Deadline.Sub(now) != c.sets {
			t.Errorf("MaxWait %v, deadline in %v: %v, deadline in %v; want %v, %v", c.maxWait, c.deadline, got, k.Deadline.Sub(now), c.want, c.sets)
		}
		a.Leave(k, false)
	}
}

// What higher priorities will take is foreseen, for as long as they come.
func TestAdmissionForecast(t *testing.T) {
	a := load.Admission{MaxInFlight: 1, MaxWait: -1}
	if wait, ok := a.Forecast(t0, load.Low); wait != 0 || !ok {
		t.Errorf("Forecast before any is done = %v, %t, want 0, true", wait, ok)
	}
	k := enter(t, &a, t0.Add(-time.Hour), load.Low, load.Granted)
	a.Done(t0.Add(-time.Hour+100*ms), k, true) // ten are done a second
	if wait, ok := a.Forecast(t0, load.Low); wait != 0 || !ok {
		t.Errorf("Forecast where there is room = %v, %t, want 0, true", wait, ok)
	}
	enter(t, &a, t0.Add(-time.Hour), load.Low, load.Granted)
	for i := range 40 { // eight a second
		enter(t, &a, t0.Add(time.Duration(i)*time.Second/8), load.High, load.TooLate)
	}
	now := t0.Add(5 * time.Second)
	for p, want := range map[load.Priority]time.Duration{load.Low: 500 * ms, load.Normal: 500 * ms, load.High: 100 * ms, load.Critical: 100 * ms, 0: 500 * ms} {
		if got, ok := a.Forecast(now, p); got.Round(ms) != want || !ok {
			t.Errorf("Forecast for %v = %v, %t, want %v", p, got, ok, want)
		}
	}
	for range 3 {
		enter(t, &a, now, load.Critical, load.TooLate)
	}
	if got, ok := a.Forecast(now, load.Normal); ok {
		t.Errorf("Forecast where higher priorities take all = %v, want none", got)
	}
	if got, ok := a.Forecast(now.Add(2*time.Second), load.Normal); got != 100*ms || !ok {
		t.Errorf("Forecast two seconds after the last came = %v, want 100ms", got)
	}
}

// A wait beyond all durations is none.
func TestAdmissionForecastOfCenturies(t *testing.T) {
	a := load.Admission{MaxInFlight: 1}
	k := enter(t, &a, t0, load.Normal, load.Granted)
	now := t0.Add(200 * 365 * 24 * time.Hour)
	a.Done(now, k, true)
	enter(t, &a, now, load.Normal, load.Granted)
	enter(t, &a, now, load.Normal, load.Waiting) // for 200 years
	enter(t, &a, now, load.Normal, load.TooLate) // 400 are more than a Duration
}

// Work of higher priorities that waits is ahead, also after no more of it comes.
func TestAdmissionForecastBehind(t *testing.T) {
	a := load.Admission{MaxInFlight: 1, MaxWait: time.Minute}
	k := enter(t, &a, t0.Add(-time.Hour), load.Low, load.Granted)
	a.Done(t0.Add(-time.Hour+100*ms), k, true) // ten are done a second
	enter(t, &a, t0, load.Low, load.Granted)
	for range 3 {
		enter(t, &a, t0, load.High, load.Waiting)
	}
	for p, want := range map[load.Priority]time.Duration{load.Low: 400 * ms, load.High: 400 * ms, load.Critical: 100 * ms} {
		if got, ok := a.Forecast(t0.Add(5*time.Second), p); got.Round(ms) != want || !ok {
			t.Errorf("Forecast for %v behind three of high priority = %v, %t, want %v", p, got, ok, want)
		}
	}
}

// The limit is that of Concurrency, or else of an Adaptive within MaxLimit; and
// MaxInFlight goes before both.
func TestAdmissionLimit(t *testing.T) {
	for _, c := range []struct {
		a    load.Admission
		want int
	}{
		{load.Admission{}, 10},
		{load.Admission{MaxLimit: 3}, 3},
		{load.Admission{Concurrency: new(load.Gradient2), MaxLimit: 3}, 20},
		{load.Admission{Concurrency: new(load.Gradient2), MaxInFlight: 2}, 2},
	} {
		if got := c.a.Stats().Limit; got != c.want {
			t.Errorf("Limit = %d, want %d", got, c.want)
		}
		for range c.want {
			enter(t, &c.a, t0, load.Low, load.Granted)
		}
	}
}

// What is not learnt from, or ends before it began, changes neither the average
// nor the limit.
func TestAdmissionLearns(t *testing.T) {
	var a load.Admission
	for _, c := range []struct {
		took  time.Duration
		learn bool
		want  time.Duration
	}{
		{time.Hour, false, 0},
		{-time.Second, true, 0},
		{time.Second, true, time.Second},
		{time.Hour, false, time.Second},
		{3 * time.Second, true, 1100 * ms}, // one weighs a twentieth
	} {
		k := enter(t, &a, t0, 0, load.Granted)
		a.Done(t0.Add(c.took), k, c.learn)
		if got := a.Stats().Took.Round(ms); got != c.want {
			t.Errorf("after one of %v, learnt from: %t: one takes %v, want %v", c.took, c.learn, got, c.want)
		}
	}
	if n := a.Stats(); n.Limit != 5 { // the first work begins a probe of 10
		t.Errorf("the limit is %d, want 5", n.Limit)
	}
}

func TestAdmissionMisuse(t *testing.T) {
	panics := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic", what)
			}
		}()
		f()
	}
	a := load.Admission{MaxInFlight: 1, MaxWait: time.Minute}
	k := enter(t, &a, t0, 0, load.Granted)
	waits := enter(t, &a, t0, 0, load.Waiting)
	panics("Enter of what is in flight", func() { a.Enter(t0, k) })
	panics("Enter of what waits", func() { a.Enter(t0, waits) })
	panics("Done of what waits", func() { a.Done(t0, waits, true) })
	a.Done(t0, k, true)
	panics("Done for the second time", func() { a.Done(t0, k, true) })
	if load.Granted.String() != "granted" || load.PushedOut.String() != "pushed out" || load.State(9).String() != "unknown" {
		t.Error("the names of the states are wrong")
	}
}

// What waits has the places of a limit that is raised, before what comes then.
func TestAdmissionRaised(t *testing.T) {
	a := load.Admission{MaxInFlight: 1, MaxWait: time.Minute}
	first := enter(t, &a, t0, load.Normal, load.Granted)
	waits := enter(t, &a, t0, load.Critical, load.Waiting)
	a.MaxInFlight = 2
	late := enter(t, &a, t0, load.Low, load.Waiting)
	a.Done(t0.Add(ms), first, true)
	if waits.State() != load.Granted || late.State() != load.Granted {
		t.Errorf("after the next Done they are %v and %v, want both granted", waits.State(), late.State())
	}
}
