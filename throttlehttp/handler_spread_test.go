package throttlehttp

import (
	"container/heap"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
)

// returns are the callers that come back, the earliest first.
type returns []time.Time

func (c returns) Len() int           { return len(c) }
func (c returns) Less(i, j int) bool { return c[i].Before(c[j]) }
func (c returns) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *returns) Push(x any)        { *c = append(*c, x.(time.Time)) }
func (c *returns) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// another makes each request one of a caller of its own.
func another() func(*http.Request) {
	n := 0
	return func(r *http.Request) { n++; r.RemoteAddr = fmt.Sprintf("192.0.2.1:%d", n) }
}

// toldWait is what an answer says about the wait, to one that reads milliseconds
// or not.
func toldWait(t *testing.T, r *http.Response, ms bool) time.Duration {
	t.Helper()
	unit, text := time.Millisecond, r.Header.Get("Retry-After-Ms")
	if text == "" || !ms {
		unit, text = time.Second, r.Header.Get("Retry-After")
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s says to wait %q, want a number above zero", told(r), text)
	}
	return time.Duration(n) * unit
}

var spreadTests = []struct {
	name  string
	limit limit.Limit
	ms    bool
	first int           // so many come within a second
	last  time.Duration // the last caller comes after so long
	bound time.Duration
}{
	{"10/s", limit.Limit{Count: 10, Period: time.Second}, false, 10, 10 * time.Second, 0},
	{"10/s, small burst", limit.Limit{Count: 10, Period: time.Second, Burst: 2}, false, 2, 50 * time.Second, 0},
	{"10/s, milliseconds", limit.Limit{Count: 10, Period: time.Second, Burst: 1}, true, 10, 10 * time.Second, 0},
	{"3/s", limit.Limit{Count: 3, Period: time.Second}, false, 3, 34 * time.Second, 0},
	{"7/s, milliseconds", limit.Limit{Count: 7, Period: time.Second, Burst: 2}, true, 7, 14286 * time.Millisecond, 0},
	{"1000/s", limit.Limit{Count: 1000, Period: time.Second, Burst: 1}, true, 100, 100 * time.Millisecond, 0},
	{"60/min", limit.Limit{Count: 60, Period: time.Minute}, false, 1, 100 * time.Second, 2 * time.Minute},
	{"10/s by window", limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: time.Second}, false, 10, 10 * time.Second, 0},
	{"60/min by window", limit.Limit{Kind: limit.FixedWindow, Count: 60, Period: time.Minute}, false, 0, 159 * time.Second, 2 * time.Minute},
}

// A hundred callers are refused in one instant. All come back when they were
// told to: all are served then, one after the other, and no caller that comes is
// refused again.
func TestRefusedComeBackOneByOne(t *testing.T) {
	for _, tt := range spreadTests {
		store := &book{now: t0}
		h := &Handler{Control: &admit.Control{Store: store, Limit: tt.limit, Milliseconds: tt.ms, Spread: tt.bound}, Next: hello}
		for range tt.limit.Max() {
			if r := ask(h, "GET"); r.StatusCode != 200 {
				t.Fatalf("%s: %s, want the burst to pass", tt.name, told(r))
			}
		}
		var out returns
		next := another()
		for range 100 {
			r := ask(h, "GET", next)
			if r.StatusCode != 429 {
				t.Fatalf("%s: %s, want all to be refused", tt.name, told(r))
			}
			heap.Push(&out, t0.Add(toldWait(t, r, tt.ms)))
		}
		first, last := 0, time.Duration(0)
		for out.Len() > 0 {
			store.now = heap.Pop(&out).(time.Time)
			if last = store.now.Sub(t0); last <= time.Second {
				first++
			}
			if r := ask(h, "GET"); r.StatusCode != 200 {
				t.Errorf("%s: the caller told to come after %v: %s, want to be served", tt.name, last, told(r))
			}
		}
		if last != tt.last || first != tt.first {
			t.Errorf("%s: %d come within a second, the last after %v; want %d and %v", tt.name, first, last, tt.first, tt.last)
		}
	}
}

// Limits that slide do not refill evenly, and how they do depends on when what passed
// before did. So a few are refused again; none where all had passed at once.
func TestRefusedComeBackToLimitsThatSlide(t *testing.T) {
	for kind, most := range map[limit.Kind]int{limit.SlidingSlots: 1, limit.SlidingWindow: 7} {
		all, again := 0, 0
		for _, l := range []limit.Limit{
			{Count: 10, Period: time.Second},
			{Count: 60, Period: time.Minute},
			{Count: 600, Period: time.Minute, Slots: 6},
			{Count: 7, Period: 2 * time.Second, Slots: 3},
		} {
			l.Kind = kind
			for phase := range 20 {
				taking := time.Duration(phase/4) * l.Period / 5
				refused, last := comeBack(t, l, phase%2 == 0, t0.Add(time.Duration(phase)*l.Period*7/40), taking)
				if refused > 0 && taking == 0 {
					t.Errorf("%v, phase %d: %d of 100 callers are refused again, want none", l, phase, refused)
				}
				if most := time.Duration(100/l.Count+2) * (l.Period*3/2 + time.Second); last > most {
					t.Errorf("%v, phase %d: the last comes after %v, want %v at most", l, phase, last, most)
				}
				all, again = all+100, again+refused
			}
		}
		t.Logf("%v: %d of %d are refused again", kind, again, all)
		if again > all*most/100 {
			t.Errorf("%v: %d of %d callers are refused again, want %d %% at most", kind, again, all, most)
		}
	}
}

// comeBack returns how many of a hundred callers that are refused at the time now, and
// come when they were told, are refused again, and when the last comes. Before, all
// passed that could, evenly over the time taking.
func comeBack(t *testing.T, l limit.Limit, ms bool, now time.Time, taking time.Duration) (refused int, last time.Duration) {
	store := &sliding{now: now.Add(-taking)}
	h := &Handler{Control: &admit.Control{Store: store, Limit: l, Milliseconds: ms, Spread: 10 * time.Minute}, Next: hello}
	for i := range l.Count {
		store.now = now.Add(-taking + taking*time.Duration(i)/time.Duration(l.Count))
		ask(h, "GET")
	}
	store.now = now
	var out returns
	next := another()
	for range 100 {
		r := ask(h, "GET", next)
		for ; r.StatusCode == 200; r = ask(h, "GET", next) { // what had left by now
		}
		heap.Push(&out, now.Add(toldWait(t, r, ms)))
	}
	for out.Len() > 0 {
		store.now = heap.Pop(&out).(time.Time)
		last = store.now.Sub(now)
		if r := ask(h, "GET", next); r.StatusCode != 200 {
			refused++
		}
	}
	return refused, last
}

// sliding is a Store of one key under one limit that slides.
type sliding struct {
	now   time.Time
	state limit.State
	slots limit.Slots
	log   limit.Log
}

func (s *sliding) Take(_ context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	switch a[0].Limit.Kind {
	case limit.SlidingSlots:
		d[0] = s.slots.Take(s.now, a[0])
	case limit.SlidingLog:
		d[0] = s.log.Take(s.now, a[0])
	default:
		s.state, d[0] = limit.Take(s.state, s.now, a[0])
	}
	return d[0].OK, nil
}

// A caller that returns early, or late, is no reason to promise what is not there: in any
// case what is promised is not more than what passes.
func TestPromisesOverTime(t *testing.T) {
	store := &book{now: t0}
	h := &Handler{Control: &admit.Control{Store: store, Limit: limit.Limit{Count: 10, Period: time.Second}, Milliseconds: true}, Next: hello}
	var out returns
	next := another()
	refusedTwice, served := 0, 0
	for i := range 300 { // 15 a second for 20 s
		heap.Push(&out, t0.Add(time.Duration(i)*time.Second/15))
	}
	seen := map[time.Time]bool{} // told to come then
	for out.Len() > 0 {
		store.now = heap.Pop(&out).(time.Time)
		r := ask(h, "GET", next)
		if r.StatusCode == 200 {
			served++
			continue
		}
		if seen[store.now] {
			refusedTwice++
		}
		back := store.now.Add(toldWait(t, r, true))
		seen[back] = true
		heap.Push(&out, back)
	}
	// Newcomers take what was promised to others: nothing is reserved.
	if took := store.now.Sub(t0); served != 300 || took > 40*time.Second {
		t.Errorf("%d served in %v, %d refused twice; want 300 in 40s", served, took, refusedTwice)
	}
}

func TestSpreadBound(t *testing.T) {
	one := limit.Limit{Count: 1, Period: time.Second}
	for _, c := range []struct {
		spread time.Duration
		want   string
	}{
		{-1, "1 1 1 1 1 1 1"},
		{3 * time.Second, "1 2 3 4 1 2 3"},
		{0, "1 2 3 4 5 6 7"},
	} {
		h := &Handler{Control: &admit.Control{Store: &book{now: t0}, Limit: one, Spread: c.spread}}
		ask(h, "GET")
		got, next := "", another()
		for range 7 {
			got += ask(h, "GET", next).Header.Get("Retry-After") + " "
		}
		if got != c.want+" " {
			t.Errorf("Spread %v: Retry-After %s, want %s", c.spread, got, c.want)
		}
	}
}
