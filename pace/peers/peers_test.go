package peers

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

var zero = time.Unix(0, 0)

func after(seconds float64) time.Time { return zero.Add(time.Duration(seconds * 1e9)) }

// answer tells c how a request that was sent then ended.
func answer(c pace.Controller, sent, now time.Time, v pace.Verdict, try int, after time.Duration) time.Duration {
	r := pace.Request{Since: sent, Try: try, Luck: pace.Luck(try)}
	return c.Observe(now, pace.Outcome{Request: r, Sent: sent, Report: pace.Report{Verdict: v, After: after}})
}

func TestRests(t *testing.T) {
	exact := Cenkalti{Exact: true}
	for _, c := range []struct {
		what  string
		c     pace.Controller
		v     pace.Verdict
		try   int
		after time.Duration
		want  time.Duration
	}{
		{"cenkalti", exact, pace.Throttled, 0, 0, 500 * time.Millisecond},
		{"cenkalti", exact, pace.Throttled, 1, 0, 750 * time.Millisecond},
		{"cenkalti", exact, pace.Failed, 2, 0, 1125 * time.Millisecond},
		{"cenkalti", exact, pace.Throttled, 1 << 30, 0, time.Minute},
		{"cenkalti", exact, pace.Served, 3, 0, 0},
		{"retryable", Retryable{}, pace.Throttled, 0, 0, time.Second},
		{"retryable", Retryable{}, pace.Throttled, 3, 0, 8 * time.Second},
		{"retryable", Retryable{}, pace.Throttled, 5, 0, 30 * time.Second},
		{"retryable", Retryable{}, pace.Failed, 1 << 30, 0, 30 * time.Second},
		{"retryable", Retryable{}, pace.Throttled, 5, 3 * time.Second, 3 * time.Second},
		{"retryable", Retryable{}, pace.Served, 5, 3 * time.Second, 0},
		{"failsafe", NewFailsafe(), pace.Throttled, 5, 0, Pause},
		{"sre", NewSRE(), pace.Throttled, 5, 0, Pause},
		{"failsafe limiter", new(FailsafeLimiter), pace.Failed, 5, 0, Pause},
		{"failsafe limiter", new(FailsafeLimiter), pace.Served, 5, 0, 0},
		{"netflix", new(Netflix), pace.Throttled, 5, 0, Pause},
		{"netflix", new(Netflix), pace.Served, 5, 0, 0},
	} {
		c.c.Start(after(1), pace.Request{Since: after(1)})
		if got := answer(c.c, after(1), after(1.1), c.v, c.try, c.after); got != c.want {
			t.Errorf("%s, %v after try %d, Retry-After %v: rests %v, want %v", c.what, c.v, c.try, c.after, got, c.want)
		}
	}
}

// The book's formula: with K = 2 half of the requests may be refused.
func TestSRERejectsBeyondTwiceTheAccepted(t *testing.T) {
	s := NewSRE()
	for i := range 30 {
		v := pace.Throttled
		if i%3 == 0 {
			v = pace.Served
		}
		s.seen.add(after(float64(i)), count{1, 0})
		answer(s, after(float64(i)), after(float64(i)), v, 0, 0)
	}
	if got, want := s.RejectionRate(), (30-2*10)/31.0; got != want {
		t.Fatalf("10 accepted of 30: rejects %v, want %v", got, want)
	}
	rejected := 0
	for i := range 2000 {
		trial := *s
		r := pace.Request{Since: after(31), Luck: pace.Luck(i)}
		if w := trial.Wait(after(31), r); w > 0 {
			rejected++
			if w%Pause != 0 {
				t.Fatalf("waits %v, want a number of pauses", w)
			}
			trial.Start(after(31).Add(w), r)
			if got, want := trial.seen.sum.requests, 31+int(w/Pause); got != want {
				t.Fatalf("after %v of local rejections %d requests are counted, want %d", w, got, want)
			}
		}
	}
	if got := float64(rejected) / 2000; math.Abs(got-s.RejectionRate()) > 0.03 {
		t.Errorf("rejected %.3f of all at once, want %.3f", got, s.RejectionRate())
	}
	s.seen.at(after(31 + 120))
	if got := s.RejectionRate(); got != 0 {
		t.Errorf("two minutes later it rejects %v, want 0", got)
	}
}

func TestFailsafeStopsAtNineInTen(t *testing.T) {
	f := NewFailsafe()
	for i := range 1000 {
		answer(f, after(1), after(1+float64(i)/1e3), pace.Throttled, 0, 0)
	}
	if got := f.RejectionRate(); got != 0.9 {
		t.Errorf("after 1000 refusals it rejects %v, want 0.9", got)
	}
	answer(f, after(70), after(70), pace.Served, 0, 0)
	if got := f.RejectionRate(); got != 0 {
		t.Errorf("a minute later, one served, it rejects %v, want 0", got)
	}
}

func TestNetflixLimits(t *testing.T) {
	n := new(Netflix)
	for i := range 10 {
		if w := n.Wait(after(1), pace.Request{}); w != 0 {
			t.Fatalf("request %d of 10 waits %v", i, w)
		}
		n.Start(after(1+float64(i)/100), pace.Request{})
	}
	if w := n.Wait(after(1.5), pace.Request{}); w != pace.Never {
		t.Fatalf("the eleventh in flight waits %v, want Never", w)
	}
	for i, c := range []struct {
		now  float64
		v    pace.Verdict
		want int
	}{
		{1.6, pace.Served, 10},   // it was the first: 1 of 10 in use
		{1.6, pace.Failed, 10},   // says nothing
		{1.6, pace.Throttled, 9}, // a tenth less
		{1.6, pace.Served, 9},    // 4 of 9
		{1.6, pace.Served, 10},   // 5 of 9: half
		{1.6, pace.Ignored, 10},  // says nothing
		{6.06, pace.Served, 11},  // 5 s: slow is what is slower
		{6.071, pace.Served, 9},  // above 5 s
		{1.6, pace.Throttled, 8}, // by one at least
		{1.6, pace.Throttled, 7}, // 7.2, rounded down
	} {
		answer(n, after(1+float64(i)/100), after(c.now), c.v, 0, 0)
		if got := n.Limit(); got != c.want {
			t.Errorf("answer %d, %v at %v s: limit %d, want %d", i, c.v, c.now, got, c.want)
		}
	}
	if n.inFlight != 0 || len(n.started) != 0 {
		t.Errorf("%d in flight, %d noted, want none", n.inFlight, len(n.started))
	}
	full := &Netflix{Full: true}
	full.Start(after(1), pace.Request{})
	if answer(full, after(1), after(9), pace.Served, 0, 0); full.Limit() != 10 {
		t.Errorf("a slow answer of the port: limit %d, want 10", full.Limit())
	}
}

// Ten in flight at a time, in a second each: its limit goes up by one with each
// hundred, to five times what is in flight. When they take two seconds it goes
// down, until that is what it has come to expect. How they end is nothing to it.
func TestFailsafeLimiterLimits(t *testing.T) {
	f := new(FailsafeLimiter)
	now := after(1)
	batch := func(n int, takes time.Duration) {
		sent := now
		for i := range n {
			if w := f.Wait(sent, pace.Request{}); w != 0 {
				t.Fatalf("request %d of %d in flight, with a limit of %d, waits %v", i, n, f.Limit(), w)
			}
			f.Start(sent, pace.Request{})
		}
		now = now.Add(takes)
		for i := range n {
			answer(f, sent, now, pace.Served+pace.Verdict(i%3), 0, 0)
		}
	}
	for i := range 20 {
		f.Start(now, pace.Request{})
		w := f.Wait(now, pace.Request{})
		if want := map[bool]time.Duration{true: pace.Never}[i == 19]; w != want {
			t.Fatalf("with %d in flight the next waits %v, want %v", i+1, w, want)
		}
	}
	for range 20 {
		f.Observe(now, pace.Outcome{})
	}
	for _, c := range []struct {
		batches int
		takes   time.Duration
		want    int
	}{
		{4, time.Second, 20}, // 40 answers: too few
		{1, time.Second, 21},
		{20, time.Second, 25}, // at four more looks, 50 answers apart
		{300, time.Second, 50},
		{10, 2 * time.Second, 50}, // the median of five looks is still 1 s
		{5, 2 * time.Second, 49},  // recent 1.33 s, baseline 1.06 s: a queue of 11
		{30, 2 * time.Second, 43},
		{5, 2 * time.Second, 42},
		{30, 2 * time.Second, 42}, // queues of 6 to 3
		{5, 2 * time.Second, 43},
		{50, 2 * time.Second, 50},
	} {
		for range c.batches {
			batch(10, c.takes)
		}
		if got := f.Limit(); got != c.want {
			t.Errorf("after %d batches of %v more: limit %d, want %d", c.batches, c.takes, got, c.want)
		}
	}
	if f.inFlight != 0 || len(f.started) != 0 {
		t.Errorf("%d in flight, %d noted, want none", f.inFlight, len(f.started))
	}
}

// However many answers there are before a look, it keeps no more than a few.
func TestFailsafeLimiterKeepsLittle(t *testing.T) {
	f := new(FailsafeLimiter)
	for i := range 100_000 {
		sent := after(1 + float64(i)/1e6)
		f.Start(sent, pace.Request{})
		answer(f, sent, sent.Add(time.Duration(1+i%1000)), pace.Served, 0, 0)
		if len(f.times.few) > fewTimes {
			t.Fatalf("after %d answers %d are kept, want %d at most", i+1, len(f.times.few), fewTimes)
		}
		if s, ok := f.times.all.(*sample); ok && len(s.kept) > mostKept {
			t.Fatalf("after %d answers %d are sorted, want %d at most", i+1, len(s.kept), mostKept)
		}
	}
	if got := f.times.quantile(f, 0.9); math.Abs(got-900) > 5 {
		t.Errorf("the 0.9 quantile of 1 to 1000 ns is %v", got)
	}
}

// A bucket of 2 a second, that is dry from 10 s to 20 s, and of 1 after that.
func TestBucketKnowsTheFuture(t *testing.T) {
	b := &Bucket{
		Rates: []Rate{{after(0), 2}, {after(10), 0}, {after(20), 1}},
		Since: after(0), Level: 0.5, Burst: 3,
	}
	for i, c := range []struct {
		now, want float64 // seconds
		place     int
	}{
		{0, 0.25, 0},
		{0.25, 0, 0},
		{0.25, 1.5, 3},
		{0.5, 0.25, 0},
		{0.75, 0, 0},
		{0.75, 0.5, 0},
		{9, 0, 0},
		{9, 0, 0},
		{9, 0, 0},
		{9, 0.5, 0},
		{9.5, 0.5, 2},
		{9.5, 11.5, 3},
		{9.5, 0, 0},
		{9.5, 0.5, 0},
		{9.9, 0.1, 0},
		{10, 0, 0},
		{10, 11, 0},
		{10, 12, 2},
		{100, 0, 0},
	} {
		got := max(b.Wait(after(c.now), pace.Request{Place: c.place}), 0)
		if d := got.Seconds() - c.want; math.Abs(d) > 1e-6 {
			t.Errorf("question %d, place %d at %v s: wait %v, want %v s", i, c.place, c.now, got, c.want)
		}
		if got == 0 {
			b.Start(after(c.now), pace.Request{})
		}
	}
	if b.Level != 2 {
		t.Errorf("after a long rest and a start the level is %v, want 2", b.Level)
	}
	b.Observe(after(100), pace.Outcome{})
	if b.Level != 3 {
		t.Errorf("one never left: the level is %v, want 3", b.Level)
	}
	dry := &Bucket{Rates: []Rate{{after(0), 0}}, Burst: 1}
	if w := dry.Wait(after(5), pace.Request{}); w < 1000*time.Hour || w == pace.Never {
		t.Errorf("a dry bucket waits %v, want very long, not Never", w)
	}
}

// What a Gate relies on: the instant at which the first in line may go does
// not move while nothing happens, and asking changes nothing.
func TestInstantsDoNotMove(t *testing.T) {
	for _, c := range []struct {
		name string
		c    pace.Controller
	}{
		{"cenkalti", Cenkalti{}},
		{"retryable", Retryable{}},
		{"failsafe", NewFailsafe()},
		{"failsafe limiter", new(FailsafeLimiter)},
		{"sre", NewSRE()},
		{"netflix", new(Netflix)},
		{"bucket", &Bucket{Rates: []Rate{{after(0), 3}, {after(500), 0.5}, {after(900), 7}}, Burst: 4}},
	} {
		now, rests, waits := after(1), time.Duration(0), 0
		for i := range 2000 {
			r := pace.Request{Since: now, Luck: pace.Luck(i)}
			w := max(c.c.Wait(now, r), 0)
			if due := now.Add(w); w > 0 {
				waits++
				half := now.Add(w / 2)
				if got := half.Add(c.c.Wait(half, r)); !got.Equal(due) {
					t.Fatalf("%s, request %d: due at %v, and asked half way at %v", c.name, i, due, got)
				}
				if late := c.c.Wait(due, r); late > 0 {
					t.Fatalf("%s, request %d: waits %v more when it is due", c.name, i, late)
				}
				now = due
			}
			c.c.Start(now, r)
			sent, v := now, pace.Served
			if i%5 < 3 {
				v = pace.Throttled
			}
			now = now.Add(50 * time.Millisecond)
			rests = answer(c.c, sent, now, v, i%5, 0)
			now = now.Add(rests)
		}
		if paced := c.name == "failsafe" || c.name == "sre" || c.name == "bucket"; paced && waits < 100 {
			t.Errorf("%s: %d of 2000 waited: too few to tell", c.name, waits)
		}
	}
}
