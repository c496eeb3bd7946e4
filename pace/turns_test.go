package pace

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// stating drives an Adaptive with a request every so often, each served in 10 ms, with a policy and
// what remains of it.
type stating struct {
	a   Adaptive
	now time.Time
}

func (s *stating) answer(after time.Duration, limit, remaining int64, window time.Duration) {
	s.now = s.now.Add(after)
	r := Request{Since: s.now, Cost: 1}
	s.a.Start(s.now, r)
	sent := s.now
	s.now = s.now.Add(10 * time.Millisecond)
	s.a.Observe(s.now, Outcome{Request: r, Sent: sent, Report: Report{Verdict: Served, Hints: Hints{
		Limit: Some(limit), Remaining: Some(remaining), Window: Some(window),
	}}})
}

// limits returns the numbers of the limits that are told apart.
func (s *stating) limits() (all []int64) {
	for x := &s.a; x != nil; x = x.turns.other {
		all = append(all, x.turns.own.limit)
	}
	return all
}

// Policies of two windows are two limits. A policy of the same window is that of a limit that
// changed, and at most three are told apart.
func TestLimitsStatedInTurn(t *testing.T) {
	const second, minute = time.Second, time.Minute
	for _, c := range []struct {
		name   string
		states func(s *stating)
		want   int
	}{
		{"one", func(s *stating) {
			for i := range int64(9) {
				s.answer(second, 10, 9-i, second)
			}
		}, 1},
		{"in turn", func(s *stating) {
			s.answer(second/10, 10, 9, second)
			s.answer(second/10, 500, 430, minute)
			s.answer(second/10, 10, 7, second)
		}, 2},
		{"in turn, the larger first", func(s *stating) {
			s.answer(second/10, 500, 430, minute)
			s.answer(second/10, 10, 7, second)
			s.answer(second/10, 500, 428, minute)
		}, 2},
		{"one of two is raised", func(s *stating) {
			s.answer(second/10, 10, 9, second)
			s.answer(second/10, 500, 430, minute)
			s.answer(second/10, 20, 15, second)
		}, 2},
		{"a step up", func(s *stating) {
			s.answer(second, 100, 90, minute)
			for i := range int64(100) {
				s.answer(second, 200, 190-i, minute)
			}
		}, 1},
		{"a step up and back", func(s *stating) {
			s.answer(second, 100, 90, minute)
			s.answer(second, 200, 190, minute)
			s.answer(second, 100, 90, minute)
		}, 1},
		{"the window is left out at times", func(s *stating) {
			s.answer(second, 100, 90, minute)
			s.answer(second, 100, 89, 0)
			s.answer(second, 100, 88, minute)
		}, 1},
		{"a limit that never rests", func(s *stating) {
			for i := range int64(300) {
				s.answer(second, 100+i%7, 90, time.Duration(i%5)*minute)
			}
		}, mostLimits},
	} {
		s := stating{now: time.Unix(1e9, 0)}
		c.states(&s)
		if got := s.limits(); len(got) != c.want {
			t.Errorf("%s: limits of %v are told apart, want %d", c.name, got, c.want)
		}
	}
}

// A limit that is not stated for two windows while much remains of the one that is has gone: it
// no longer holds anything up. Until then, and while nothing is asked or little remains, it does.
func TestLimitThatIsNoLongerStated(t *testing.T) {
	for _, c := range []struct {
		name      string
		remaining int64
		every     time.Duration
		answers   int
		holds     bool
	}{
		{"soon after", 450, 100 * time.Millisecond, 100, true},
		{"much later", 450, 100 * time.Millisecond, 700, false},
		{"little remains of the other", 200, 100 * time.Millisecond, 700, true},
		{"nothing was asked for", 450, time.Hour, 3, true},
	} {
		s := stating{now: time.Unix(1e9, 0)}
		s.answer(time.Second, 10, 9, time.Second)
		s.answer(time.Second, 500, 450, time.Minute)
		s.answer(time.Second, 10, 9, time.Second)
		for range c.answers {
			s.answer(c.every, 500, c.remaining, time.Minute)
		}
		if main := s.a.main(s.now); (main.turns.own.limit == 10) != c.holds {
			t.Errorf("%s: %v holds requests, want 10 a second: %v", c.name, main.turns.own, c.holds)
		}
	}
}

// Of a limit whose window is not known, another number may be that of a second limit, or the limit has
// changed. It has once the number before has not been stated for 20 answers and ten seconds.
func TestLimitThatIsReplaced(t *testing.T) {
	s := stating{now: time.Unix(1e9, 0)}
	s.answer(time.Second, 10, 9, 0)
	for i := range 30 {
		s.answer(time.Second, 50, 40, 0)
		if got, want := s.a.main(s.now).turns.own.limit, int64(50); i == 29 && got != want || i == 15 && got == want {
			t.Errorf("after %d answers that state 50 the limit is taken to be %d", i+1, got)
		}
	}
}

// The instant at which a request may start does not move while nothing happens.
func TestWaitForTwoLimitsIsASubtraction(t *testing.T) {
	s := stating{now: time.Unix(1e9, 0)}
	for i := range int64(40) {
		s.answer(10*time.Millisecond, 10, i%3, time.Second)
		s.answer(10*time.Millisecond, 500, i%5, time.Minute)
	}
	r := Request{Since: s.now, Cost: 1}
	at := s.now.Add(s.a.Wait(s.now, r))
	for _, after := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
		if got := s.now.Add(after).Add(s.a.Wait(s.now.Add(after), r)); !got.Equal(at) {
			t.Errorf("asked %v later it may start %v later", after, got.Sub(at))
		}
	}
}

// A caller of two limits is not held up by one of which much remains: it is served as fast as the
// other allows, and does not wait for a turn of both.
func TestSpareOfTheOtherLimit(t *testing.T) {
	var states [2]limit.State
	limits := [2]limit.Limit{
		{Kind: limit.FixedWindow, Count: 100, Period: time.Minute},
		{Kind: limit.FixedWindow, Count: 1000, Period: time.Hour},
	}
	s := stating{now: time.Unix(1e9, 0).Truncate(time.Hour)}
	began, served := s.now, 0
	for served < 300 {
		r := Request{Since: began, Cost: 1}
		s.now = s.now.Add(max(s.a.Wait(s.now, r), time.Millisecond))
		s.a.Start(s.now, r)
		var d [2]limit.Decision
		v := Throttled
		if limit.TakeAll(states[:], s.now, []limit.Ask{{Limit: limits[0], N: 1}, {Limit: limits[1], N: 1}}, d[:]) {
			v = Served
			served++
		}
		b := limit.Binding(d[:])
		s.a.Observe(s.now, Outcome{Request: r, Sent: s.now, Report: Report{Verdict: v, Hints: Hints{
			Limit: Some(limits[b].Count), Window: Some(limits[b].Period), Remaining: Some(d[b].Remaining), Reset: Some(d[b].ResetAfter),
		}}})
	}
	if took := s.now.Sub(began); took > 4*time.Minute {
		t.Errorf("300 requests took %v, want 4m at most, as 100 are free each minute", took)
	}
}
