package pace

import (
	"testing"
	"time"
)

// What has no answer holds up the others for a moment only: beyond as many as
// have been served, the second starts after 0.35 s, the eighth after 1.05 s, and
// from there a doubling each 2 s, however long answers are in coming.
func TestAdaptiveFirstFlightIsBounded(t *testing.T) {
	for _, slowest := range []time.Duration{0, 200 * time.Millisecond, 8 * time.Second} {
		var a Adaptive
		now, free := at(0), 0
		if slowest > 0 {
			a.Start(now, Request{})
			sent := now
			now, free = now.Add(slowest), 1
			a.Observe(now, Outcome{Report: Report{Verdict: Served}, Sent: sent})
		}
		for range free {
			a.Start(now, Request{})
		}
		began := now
		if w := a.Wait(now, Request{Since: now}); w > 0 {
			t.Errorf("after an answer in %v the first waits %v", slowest, w)
		}
		a.Start(now, Request{})
		for i, want := range map[int]time.Duration{0: 350, 1: 555, 2: 700, 6: 1050, 7: 1390, 8: 1694, 36: 5546} {
			b := a
			for range i {
				b.Start(now, Request{})
			}
			if w := b.Wait(now, Request{Since: now}).Round(time.Millisecond); w != want*time.Millisecond {
				t.Errorf("after an answer in %v and %d starts the next waits %v; want %v", slowest, i+1, w, want*time.Millisecond)
			}
			if w := b.Wait(began.Add(want*time.Millisecond+time.Millisecond), Request{Since: now}); w > 0 {
				t.Errorf("after %v the next waits %v more", want*time.Millisecond, w)
			}
		}
	}
}

// Hundreds of workers do not start all at once when the first few were served: in
// flight are never more than were served, and those that time lets go ahead.
func TestAdaptiveFirstFlightGrowsWithService(t *testing.T) {
	const took = 500 * time.Millisecond
	a, now, flying, served := new(Adaptive), at(0), []time.Time{}, 0
	for now.Before(at(4 * time.Second)) {
		for len(flying) > 0 && !now.Before(flying[0].Add(took)) {
			a.Observe(now, Outcome{Report: Report{Verdict: Served}, Sent: flying[0]})
			flying, served = flying[1:], served+1
		}
		for len(flying) < 1000 && a.Wait(now, Request{Since: at(0)}) <= 0 {
			a.Start(now, Request{Since: at(0)})
			flying = append(flying, now)
		}
		if most := served + 8 + int(8*now.Sub(at(0)).Seconds()); len(flying) > most {
			t.Fatalf("after %v %d are in flight, when %d were served; want at most %d", now.Sub(at(0)), len(flying), served, most)
		}
		now = now.Add(10 * time.Millisecond)
	}
	if served < 500 {
		t.Errorf("%d were served in 4 s; want half a thousand at least, as nothing was refused", served)
	}
}

// Before anything is refused, a client has no more in flight than its part of what remains,
// all of it if it is alone; the next waits for an answer, for a moment only. A client that is
// alone may use up what remains, as far as it has been served so many.
func TestPartOfWhatRemains(t *testing.T) {
	for _, test := range []struct {
		peers  int
		flying int // at most, with 20 remaining
	}{{10, 2}, {4, 5}, {1, 11}} {
		a, now := new(Adaptive), at(0)
		answer := func(remaining int) {
			a.Start(now, Request{Since: now})
			sent := now
			now = now.Add(100 * time.Millisecond)
			o := Outcome{Report: Report{Verdict: Served}, Sent: sent}
			o.Hints.Remaining = Some(int64(remaining))
			a.Observe(now, o)
		}
		for i := 9; i >= 0; i-- {
			answer(20 + i*test.peers)
		}
		flying := 0
		for ; flying < 100 && a.Wait(now, Request{Since: now}) <= 0; flying++ {
			a.Start(now, Request{Since: now})
		}
		if flying != test.flying {
			t.Errorf("one of %d: %d in flight with 20 remaining, want %d", test.peers, flying, test.flying)
		}
		if wait := a.Wait(now, Request{Since: now}); wait > 400*time.Millisecond {
			t.Errorf("one of %d: with %d in flight the next waits %v", test.peers, flying, wait)
		}
	}
}

// After the first answer as many may be in flight as what it says allows.
func TestFirstFlightByHints(t *testing.T) {
	for _, test := range []struct {
		name  string
		hints Hints
		took  time.Duration
		blind bool
		want  int // starts at once
	}{
		{"told nothing", Hints{}, 50 * time.Millisecond, false, 2},
		{"40 remain", Hints{Remaining: Some(int64(40))}, 50 * time.Millisecond, false, 6},
		{"much remains", Hints{Remaining: Some(int64(1e6))}, 50 * time.Millisecond, false, 17},
		{"much remains, to one that does not look", Hints{Remaining: Some(int64(1e6))}, 50 * time.Millisecond, true, 2},
		{"a policy of 640 an hour", Hints{Limit: Some(int64(640)), Window: Some(time.Hour)}, 50 * time.Millisecond, false, 11},
		{"20 remain of a large policy", Hints{Remaining: Some(int64(20)), Limit: Some(int64(640)), Window: Some(time.Hour)}, 50 * time.Millisecond, false, 3},
		{"40 remain of a small policy", Hints{Remaining: Some(int64(40)), Limit: Some(int64(48)), Window: Some(time.Hour)}, 50 * time.Millisecond, false, 2},
		{"much remains, a slow answer", Hints{Remaining: Some(int64(1e6))}, 2 * time.Second, false, 2},
	} {
		a := &Adaptive{Blind: test.blind}
		a.Start(at(0), Request{})
		a.Observe(at(test.took), Outcome{Report: Report{Verdict: Served, Hints: test.hints}, Sent: at(0)})
		now, starts := at(test.took), 0
		for ; starts < 100 && a.Wait(now, Request{Since: now}) <= 0; starts++ {
			a.Start(now, Request{Since: now})
		}
		if starts != test.want {
			t.Errorf("%s: %d start at once, want %d", test.name, starts, test.want)
		}
	}
}

// TestFirstFlightByPolicy: where a policy is stated a client has no more in flight than a
// quarter of what was served, or than the policy has in a round trip, but an answer that is
// long in coming holds the others back for 5 s, or four round trips, and no longer.
func TestFirstFlightByPolicy(t *testing.T) {
	for _, c := range []struct {
		name         string
		served, lead float64
		policy, rtt  float64
		flying       int
		waits        float64 // seconds
	}{
		{"none is stated", 8, 0, 0, 0.1, 7, 0},
		{"a quarter of the served", 8, 0, 1, 0.1, 2, 0},
		{"more than that", 8, 0, 1, 0.1, 3, 5},
		{"what the hints allow", 8, 5, 1, 0.1, 5, 0},
		{"as many as the policy has", 0, 0, 100, 0.1, 1, doubling},
		{"more than it has", 0, 0, 100, 0.1, 11, 5},
		{"slow answers", 0, 0, 0.1, 10, 2, 40},
	} {
		f := first{served: c.served}
		if w := f.next(c.flying, c.lead, c.policy, c.rtt); w < c.waits || w > c.waits+0.001 {
			t.Errorf("%s: the next waits %v s, want %v", c.name, w, c.waits)
		}
	}
}

// TestLead: how many the hints let be in flight.
func TestLead(t *testing.T) {
	alone := divided{peers: 1, shown: 900, twice: true}
	once := divided{peers: 1, shown: 900}
	for _, c := range []struct {
		name  string
		level level
		rtt   float64
		want  float64
	}{
		{"a policy alone", level{quota: 640}, 0.1, 10},
		{"a policy alone, slow answers", level{quota: 640}, 2, 0},
		{"much remains", level{divided: alone, seenAt: 1, buckets: buckets{most: 1000}}, 0.1, 16},
		{"slow answers show nobody else", level{divided: alone, seenAt: 1, buckets: buckets{most: 1000}}, 2, 400},
		{"one round of slow answers", level{divided: once, seenAt: 1, buckets: buckets{most: 1000}}, 2, 0},
		{"slow answers show others", level{divided: divided{peers: 3, shown: 900, twice: true}, seenAt: 1, buckets: buckets{most: 1000}}, 2, 0},
		{"half of it is used", level{divided: divided{peers: 1, shown: 400, twice: true}, seenAt: 1, buckets: buckets{most: 1000}}, 2, 0},
	} {
		if got := c.level.lead(c.rtt); got != c.want {
			t.Errorf("%s: %v may be in flight, want %v", c.name, got, c.want)
		}
	}
}

// TestForecastThatAnAnswerEnds: how long one waits for an answer is unknown. Forecast as the
// longest that it may take, callers with less time than that would be turned away.
func TestForecastThatAnAnswerEnds(t *testing.T) {
	policy := Hints{Limit: Some(int64(500)), Window: Some(time.Minute)}
	for _, c := range []struct {
		name  string
		first Report
		more  int           // starts after its answer
		at    time.Duration // of the forecast, after the start of the last
		place int
		next  time.Duration // at the latest
		want  time.Duration
	}{
		{"none is in flight", Report{Verdict: Served}, 0, 0, 1, 0, 0},
		{"the first flight", Report{Verdict: Served}, 2, 0, 1, 350 * time.Millisecond, Never},
		{"the first flight under a policy", Report{Verdict: Served, Hints: policy}, 30, 0, 1, 5 * time.Second, Never},
		{"until the server said", Report{Verdict: Throttled, After: 10 * time.Second}, 0, 0, 1, 12 * time.Second, 12 * time.Second},
		{"its turn after one that is sent to see", Report{Verdict: Throttled, After: 10 * time.Second}, 1, 0, 1, 5 * time.Second, time.Second},
		{"one that is sent to see", Report{Verdict: Throttled, After: 10 * time.Second}, 1, 3 * time.Second, 1, 2 * time.Second, Never},
		{"the fifth after it", Report{Verdict: Throttled, After: 10 * time.Second}, 1, 3 * time.Second, 5, 2 * time.Second, 4 * time.Second},
	} {
		a, now := new(Adaptive), at(0)
		a.Start(now, Request{})
		now = now.Add(100 * time.Millisecond)
		a.Observe(now, Outcome{Report: c.first, Sent: at(0)})
		for i := range c.more {
			if i == 0 {
				now = now.Add(max(a.Wait(now, Request{}), 0))
			}
			a.Start(now, Request{Since: now})
		}
		now = now.Add(c.at)
		if w := a.Wait(now, Request{}); max(w, 0) > c.next || w < c.next-2*time.Second {
			t.Errorf("%s: the next waits %v, want at most %v", c.name, w, c.next)
		}
		if w := a.Wait(now, Request{Place: c.place}); max(w, 0) < c.want/3*2 || w > c.want/2*3 && c.want != Never {
			t.Errorf("%s: the forecast is %v, want about %v", c.name, w, c.want)
		}
	}
}
