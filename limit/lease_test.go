package limit_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/throttle-go/throttle/limit"
)

const ms = time.Millisecond

// Every step of a lease, at explicit times: it grows with what is asked for, is
// used up before more is asked, ends with its life, and refuses by itself.
func TestLeaseSteps(t *testing.T) {
	perSecond := limit.Limit{Count: 1000, Period: time.Second}
	var s limit.State
	var l limit.Lease
	start := time.Unix(1_800_000_000, 0)
	for i, step := range []struct {
		at    time.Duration
		n     int64
		asked int64 // of the store, 0: answered by what is held
		ok    bool
		left  int64 // Remaining
		retry time.Duration
	}{
		{at: 0, n: 1, asked: 1, ok: true, left: 999},
		{at: 1 * ms, n: 1, asked: 1, ok: true, left: 999},
		{at: 2 * ms, n: 1, asked: 2, ok: true, left: 999}, // e^-0.04 + e^-0.02 + 1
		{at: 3 * ms, n: 1, ok: true, left: 998},
		{at: 4 * ms, n: 10, asked: 13, ok: true, left: 990},
		{at: 4 * ms, n: 2, ok: true, left: 988},
		{at: 4 * ms, n: 30, asked: 45, ok: true, left: 958}, // 1 is held, then 16
		{at: 5 * ms, n: 1, ok: true, left: 957},
		{at: 103 * ms, n: 15, ok: true, left: 942},
		{at: 104 * ms, n: 1, asked: 13, ok: true, left: 999},  // 2 are lost
		{at: 204 * ms, n: 1, asked: 2, ok: true, left: 999},   // 12 are lost
		{at: 3 * time.Second, n: 1000, asked: 1000, ok: true}, // more than can be held
		{at: 3 * time.Second, n: 1, asked: 1, retry: 26 * ms}, // 1 ms, and half of 50 ms
		{at: 3*time.Second + 10*ms, n: 1, retry: 16 * ms},
		{at: 3*time.Second + 10*ms, n: 5, retry: 16 * ms}, // 5 ms would do
		{at: 3*time.Second + 26*ms, n: 25, asked: 25, ok: true, left: 1},
		{at: 3*time.Second + 26*ms, n: 1, asked: 25, ok: true}, // all there is
		{at: 3*time.Second + 27*ms, n: 6, retry: 24 * ms},
		{at: 3*time.Second + 27*ms, n: 40, retry: 39 * ms},
		{at: 3*time.Second + 51*ms, n: 1, asked: 50, ok: true, left: 24},
		{at: 3*time.Second + 51*ms, n: 25, retry: 25 * ms}, // 24 are held
		{at: 3*time.Second + 51*ms, n: 24, ok: true},
	} {
		a, asked := limit.Ask{Limit: perSecond, N: step.n}, int64(0)
		now := start.Add(step.at)
		l.Want(a, 100*ms)
		d, known := l.Take(now, a)
		if !known {
			put := l.Ask(now, a, 100*ms)
			asked = put.N
			var told limit.Decision
			s, told = limit.Take(s, now, put)
			d = l.Answer(now, now, a, put, told, 100*ms, 0)
		}
		if asked != step.asked || d.OK != step.ok || d.RetryAfter != step.retry || d.OK && d.Remaining != step.left {
			t.Errorf("step %d, %d at %v: asked for %d, %+v; want asked for %d, %v, %d remaining, retry after %v",
				i, step.n, step.at, asked, d, step.asked, step.ok, step.left, step.retry)
		}
	}
}

// What a Lease cannot answer is none of its questions.
func TestLeases(t *testing.T) {
	l := limit.Limit{Count: 10, Period: time.Second}
	for _, test := range []struct {
		a    limit.Ask
		want bool
	}{
		{limit.Ask{Limit: l, N: 1}, true},
		{limit.Ask{Limit: l, N: 10}, true},
		{limit.Ask{Limit: l, N: 11}, false},
		{limit.Ask{Limit: l}, false},
		{limit.Ask{Limit: l, N: -1}, false},
		{limit.Ask{Limit: l, N: 1, Debt: true}, false},
		{limit.Ask{Limit: l, N: 2, Min: 1}, false},
		{limit.Ask{N: 1}, false},
		{limit.Ask{Limit: limit.Limit{Period: time.Second}, N: 1}, false},
	} {
		if got := test.a.Leases(); got != test.want {
			t.Errorf("%+v: Leases() = %v, want %v", test.a, got, test.want)
		}
	}
}

// shifted is t with the wall clock, but not the monotonic one, d further: what
// nobody can make by package time.
func shifted(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	bits := (*uint64)(unsafe.Pointer(&at)) // 1 bit, 33 of seconds, 30 of nanoseconds
	moved := at
	*bits += uint64(d/time.Second) << 30
	if at.Sub(moved) != 0 || at.Round(0).Sub(moved.Round(0)) != d {
		t.Fatalf("package time keeps its clocks in another way: %v is not %v later than %v by the wall clock alone", at, d, moved)
	}
	return at
}

// A machine that was suspended uses nothing that is too old, though its
// monotonic clock has stood still, and one whose wall clock is put back does not
// either.
func TestLeaseSuspended(t *testing.T) {
	perSecond := limit.Limit{Count: 1000, Period: time.Second}
	start := time.Now()
	for _, test := range []struct {
		after, wall time.Duration // by the monotonic clock; and what the other one shows besides
		known       bool
	}{
		{99 * ms, 0, true},
		{100*ms - 50*time.Microsecond, 0, false}, // for clocks that run slower
		{101 * ms, 0, false},
		{-ms, 0, true}, // a caller that was overtaken
		{-101 * ms, 0, false},
		{1 * ms, time.Hour, false},
		{1 * ms, time.Second, false},
		{99 * ms, -time.Hour, true},
		{101 * ms, -time.Hour, false},
		{time.Hour, -time.Hour, false},
	} {
		var l limit.Lease
		one := limit.Ask{Limit: perSecond, N: 1}
		put := one
		put.N = 50
		_, told := limit.Take(limit.State{}, start, put)
		l.Answer(start, start, one, put, told, 100*ms, 0)
		_, known := l.Take(shifted(t, start.Add(test.after), test.wall), one)
		if known != test.known {
			t.Errorf("%v later, by the wall clock %v more: answered by what is held is %v, want %v", test.after, test.wall, known, test.known)
		}
	}
}

// A refusal is believed for as long as was said and a little more, a second at
// most, by those who want as much or more.
func TestLeaseRefusal(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	perMinute := limit.Limit{Count: 60, Period: time.Minute}
	hourly := limit.Limit{Kind: limit.FixedWindow, Count: 60, Period: time.Hour}
	for i, test := range []struct {
		l     limit.Limit
		told  time.Duration
		after time.Duration
		n     int64
		known bool
	}{
		{perMinute, 500 * ms, 524 * ms, 20, true},
		{perMinute, 500 * ms, 525 * ms, 20, false},
		{perMinute, 500 * ms, 0, 19, false},
		{perMinute, 500 * ms, 0, 21, true},
		{perMinute, 20 * time.Second, 1024 * ms, 20, true},
		{perMinute, 20 * time.Second, 1025 * ms, 20, false},
		{hourly, time.Hour, 1024 * ms, 20, true},
		{hourly, time.Hour, 1025 * ms, 20, false},
	} {
		var l limit.Lease
		a := limit.Ask{Limit: test.l, N: 20}
		l.Answer(start, start, a, a, limit.Decision{Max: 60, RetryAfter: test.told, ResetAfter: test.told, At: start}, 100*ms, 0)
		a.N = test.n
		d, known := l.Take(start.Add(test.after), a)
		if known != test.known || known && (d.OK || d.RetryAfter < test.told-test.after) {
			t.Errorf("case %d: %+v, %v; want it known: %v", i, d, known, test.known)
		}
	}
	// One that was late does not count any more.
	var l limit.Lease
	a := limit.Ask{Limit: perMinute, N: 1}
	l.Answer(start.Add(2*ms), start.Add(ms), a, a, limit.Decision{OK: true, N: 1, Max: 60, Remaining: 9, At: start}, 100*ms, 0)
	l.Answer(start.Add(3*ms), start, a, a, limit.Decision{Max: 60, RetryAfter: time.Second, At: start}, 100*ms, 0)
	if d, known := l.Take(start.Add(3*ms), a); known {
		t.Errorf("after an answer that was overtaken: %+v, want it not known", d)
	}
}

// What is held while it is returned from a refused question is not given the
// life of a newer grant.
func TestLeaseBack(t *testing.T) {
	perSecond := limit.Limit{Count: 1000, Period: time.Second}
	start := time.Unix(1_800_000_000, 0)
	var l limit.Lease
	one := limit.Ask{Limit: perSecond, N: 1}
	grant := func(at time.Duration, n int64) {
		put := one
		put.N = n
		_, told := limit.Take(limit.State{}, start.Add(at), put)
		l.Answer(start.Add(at), start.Add(at), one, put, told, 100*ms, 0)
	}
	grant(0, 10)
	first := l.Granted()
	l.Take(start, limit.Ask{Limit: perSecond, N: 9})
	l.Back(4, first)
	if d, known := l.Take(start.Add(99*ms), limit.Ask{Limit: perSecond, N: 4}); !known || !d.OK {
		t.Errorf("what was given back is %+v, %v; want it granted", d, known)
	}
	grant(50*ms, 2)
	l.Take(start.Add(50*ms), one)
	l.Back(5, first)
	if d, known := l.Take(start.Add(60*ms), one); known {
		t.Errorf("what was given back of an older grant is %+v, want it gone", d)
	}
}

// An answer is as old as the question: by the clock that shows more. What comes
// too late is lost, and a refusal that is too old, or of another time, is not
// believed.
func TestLeaseLate(t *testing.T) {
	perSecond := limit.Limit{Count: 1000, Period: time.Second}
	start := time.Now()
	for i, test := range []struct {
		n, min      int64
		after, wall time.Duration
		ok          bool
	}{
		{50, 1, 99 * ms, 0, true},
		{50, 1, 100 * ms, 0, false},
		{50, 50, 3 * time.Second, 0, false},
		{1, 1, 3 * time.Second, 0, false},
		{1, 1, ms, time.Second, false},
		{1, 1, ms, -time.Hour, true},
		{1, 1, 3 * time.Second, -time.Hour, false},
	} {
		var l limit.Lease
		a, put := limit.Ask{Limit: perSecond, N: test.min}, limit.Ask{Limit: perSecond, N: test.n}
		_, told := limit.Take(limit.State{}, start, put)
		now := shifted(t, start.Add(test.after), test.wall)
		d := l.Answer(now, start, a, put, told, 100*ms, 0)
		if d.OK != test.ok || !d.OK && (d.N != 0 || d.Remaining != 0 || d.RetryAfter != time.Microsecond) || limit.Late(now, start, 100*ms) == test.ok {
			t.Errorf("case %d: %+v, want it granted: %v, or else a microsecond to wait", i, d, test.ok)
		}
		if _, known := l.Take(now, a); known != (test.ok && test.n > test.min) {
			t.Errorf("case %d: what else it brought is known: %v", i, known)
		}
	}
	var l limit.Lease
	a := limit.Ask{Limit: perSecond, N: 1}
	told := limit.Decision{Max: 1000, RetryAfter: 100 * ms, At: start}
	l.Answer(start, start, a, a, told, 100*ms, 0)
	for _, test := range []struct {
		after, wall time.Duration
		known       bool
	}{{100 * ms, 0, true}, {126 * ms, 0, false}, {ms, time.Second, false}, {-time.Second, 0, false}, {ms, -time.Hour, true}} {
		if _, known := l.Take(shifted(t, start.Add(test.after), test.wall), a); known != test.known {
			t.Errorf("%v after a refusal, by the wall clock %v more, it is believed: %v", test.after, test.wall, known)
		}
	}
}

// An ask of no number keeps for later all that was told.
func TestLeaseKeeps(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	var l limit.Lease
	put := limit.Ask{Limit: limit.Limit{Count: 1000, Period: time.Second}, N: 7}
	none := put
	none.N = 0
	_, told := limit.Take(limit.State{}, start, put)
	l.Answer(start, start, none, put, told, 100*ms, 0)
	if d, known := l.Take(start, put); !known || !d.OK || d.Remaining != 993 {
		t.Errorf("what was kept is %+v, %v, want all 7 granted", d, known)
	}
}

// What is lent is answered as by Take, and nothing else is; what is returned is
// held again, and what was used and refused counts as wanted.
func TestLeaseLends(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	var l limit.Lease
	one := limit.Ask{Limit: limit.Limit{Count: 1000, Period: time.Second}, N: 1}
	put := one
	put.N = 11
	if l.Lends() {
		t.Error("a Lease that was never granted anything lends")
	}
	_, told := limit.Take(limit.State{}, start, put)
	l.Answer(start, start, one, put, told, 100*ms, 0)
	if got := l.Lend(7); got != 7 || l.Lend(9) != 3 || l.Lend(9) != 0 {
		t.Errorf("of 10 held it lends %d at first, want 7, then 3, then none", got)
	}
	for _, test := range []struct {
		after   time.Duration
		n, left int64
		known   bool
		remains int64
	}{
		{0, 1, 10, true, 998},
		{99 * ms, 4, 4, true, 989},
		{0, 5, 4, false, 0},
		{100 * ms, 1, 10, false, 0},
	} {
		a := one
		a.N = test.n
		if d, known := l.Quick(start.Add(test.after), a, test.left); known != test.known || d.OK != known || d.Remaining != test.remains {
			t.Errorf("%d of %d lent, after %v: %+v, %v; want %v, %d", test.n, test.left, test.after, d, known, test.known, test.remains)
		}
	}
	l.Return(4, 6, 20)
	if d, known := l.Take(start, one); !known || d.Remaining != 992 {
		t.Errorf("after 4 were returned: %+v, %v, want 3 more", d, known)
	}
	a := one
	a.N = 4
	l.Want(a, 100*ms)
	if put := l.Ask(start, a, 100*ms); put.N != 30 {
		t.Errorf("after 6 were used, 20 refused, and 4 wanted it asks for %d, want 30", put.N)
	}
}

// A key that the store was never asked about looks unused, whatever its kind: also
// one with a history, which a State does not hold.
func TestLeaseLooksUnused(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for k := limit.TokenBucket; k <= limit.CalendarWindow; k++ {
		to := limit.Limit{Kind: k, Count: 10, Period: time.Minute}
		for _, a := range []limit.Ask{{Limit: to}, {Limit: to, N: 10}, {Limit: to, N: 11, Min: 1}, {Limit: to, N: -1}, {Limit: to, N: 11, Debt: true}} {
			var l limit.Lease
			if d, want := l.Look(now, a), (limit.Decision{OK: true, Max: 10, Remaining: 10, At: now}); d != want {
				t.Errorf("%v: Look of %+v = %+v, want %+v", k, a, d, want)
			}
		}
		var l limit.Lease
		if d, want := l.Look(now, limit.Ask{Limit: to, N: 11}), (limit.Decision{Max: 10, Remaining: 10, RetryAfter: limit.Never, At: now}); d != want {
			t.Errorf("%v: Look of 11 = %+v, want %+v", k, d, want)
		}
	}
	log := limit.Limit{Kind: limit.SlidingLog, Count: 2 * limit.MaxLog, Period: time.Minute}
	if d := new(limit.Lease).Look(now, limit.Ask{Limit: log, N: 1}); !d.OK || d.Remaining != limit.MaxLog || d.Max != limit.MaxLog {
		t.Errorf("Look of a log beyond MaxLog = %+v, want MaxLog", d)
	}
}
