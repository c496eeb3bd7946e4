package limit_test

import (
	"math/rand/v2"
	"slices"
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
		{at: 104 * ms, n: 1, asked: 13, ok: true, left: 999}, // 2 are lost
		{at: 204 * ms, n: 1, asked: 2, ok: true, left: 999},  // 12 are lost
		{at: 3 * time.Second, n: 1000, asked: 1000, ok: true},
		{at: 3 * time.Second, n: 1, asked: 18, retry: 26 * ms}, // 1 ms, and half of 50 ms
		{at: 3*time.Second + 10*ms, n: 1, retry: 16 * ms},
		{at: 3*time.Second + 26*ms, n: 1, asked: 12, ok: true, left: 25},
		{at: 3*time.Second + 26*ms, n: 20, asked: 32, ok: true, left: 5}, // 11 + 14: all there is
		{at: 3*time.Second + 27*ms, n: 6, retry: 24 * ms},                // it had no more
		{at: 3*time.Second + 27*ms, n: 5, ok: true},
		{at: 3*time.Second + 51*ms, n: 1, asked: 29, ok: true, left: 24},
	} {
		a, asked := limit.Ask{Limit: perSecond, N: step.n}, int64(0)
		now := start.Add(step.at)
		l.Seen(a.N)
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
		{101 * ms, 0, false},
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
	grant(50*ms, 1)
	l.Back(5, first)
	if d, known := l.Take(start.Add(60*ms), one); known {
		t.Errorf("what was given back of an older grant is %+v, want it gone", d)
	}
}

// A leaseRun is processes that share one limit for a while, over a network that
// delays and loses, with clocks that differ.
type leaseRun struct {
	limit       limit.Limit
	life        time.Duration
	demand      float64 // a second, of each
	processes   int
	cost        int64
	slowest     time.Duration // an answer
	lost        float64       // of all answers
	length      time.Duration
	pause       time.Duration // after each 200 asks
	utilisation float64       // wanted at least
	used, asked int64
	times       []leaseUse
	granted     []leaseUse
}

type leaseUse struct {
	at time.Time
	n  int64
}

// run does it, in steps of random length: at each instant one process is asked.
func (r *leaseRun) run(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	type process struct {
		limit.Lease
		offset  time.Duration
		busy    bool
		answers time.Time
		answer  func(at time.Time)
	}
	all := make([]process, r.processes)
	for i := range all {
		all[i].offset = time.Duration(random.Int64N(int64(10 * time.Hour)))
	}
	var state limit.State
	var log limit.Log
	start := time.Unix(1_800_000_000, random.Int64N(1e9))
	gap := float64(time.Second) / r.demand / float64(r.processes)
	now := start
	for step := 1; now.Sub(start) < r.length; step++ {
		now = now.Add(time.Duration(random.ExpFloat64() * gap))
		if step%200 == 0 {
			now = now.Add(r.pause)
		}
		for i := range all {
			if p := &all[i]; p.busy && !p.answers.After(now) {
				p.busy = false
				p.answer(p.answers)
			}
		}
		p := &all[random.IntN(len(all))]
		own := now.Add(p.offset)
		a := limit.Ask{Limit: r.limit, N: 1 + random.Int64N(r.cost)}
		p.Seen(a.N)
		if d, known := p.Take(own, a); known {
			r.use(now, d)
			continue
		} else if p.busy {
			continue
		}
		put := p.Ask(own, a, r.life)
		there := now.Add(time.Duration(random.Int64N(int64(r.slowest))))
		p.busy, p.answers = true, there.Add(time.Duration(random.Int64N(int64(r.slowest))))
		var told limit.Decision
		if r.limit.Kind == limit.SlidingLog {
			told = log.Take(there, put)
		} else {
			state, told = limit.Take(state, there, put)
		}
		r.asked++
		r.granted = append(r.granted, leaseUse{there, told.N})
		lost, chance := random.Float64() < r.lost, random.Float64()
		p.answer = func(at time.Time) {
			if !lost {
				r.use(at, p.Answer(at.Add(p.offset), own, a, put, told, r.life, chance))
			}
		}
	}
}

func (r *leaseRun) use(at time.Time, d limit.Decision) {
	if d.OK {
		r.used += d.N
		r.times = append(r.times, leaseUse{at, d.N})
	}
}

// excess is how many more were used in some time than rate × time.
func (r *leaseRun) excess() (most float64) {
	owed, last := 0.0, time.Time{}
	slices.SortFunc(r.times, func(a, b leaseUse) int { return a.at.Compare(b.at) })
	rate := float64(r.limit.Count) / r.limit.Period.Seconds()
	for _, u := range r.times {
		owed = max(owed-rate*u.at.Sub(last).Seconds(), 0) + float64(u.n)
		most, last = max(most, owed), u.at
	}
	return most
}

// However many processes share a token bucket, and whatever is lost: they use no
// more than it allows in the time and a Life, use nearly all if they want it, and
// ask seldom.
func TestLeaseBound(t *testing.T) {
	for i, r := range []leaseRun{
		{limit: limit.Limit{Count: 1000, Period: time.Second}, demand: 10_000, processes: 1, cost: 1, utilisation: 0.98},
		{limit: limit.Limit{Count: 1000, Period: time.Second, Burst: 100}, demand: 3000, processes: 8, cost: 1, utilisation: 0.98},
		{limit: limit.Limit{Count: 20_000, Period: time.Second}, demand: 500, processes: 20, cost: 1, utilisation: 0.95},
		{limit: limit.Limit{Count: 20_000, Period: time.Second}, demand: 5000, processes: 20, cost: 1, lost: 0.01, utilisation: 0.97},
		{limit: limit.Limit{Count: 100_000, Period: time.Second}, demand: 500, processes: 40, cost: 100, utilisation: 0.98},
		{limit: limit.Limit{Count: 60_000, Period: time.Minute}, demand: 10_000, processes: 4, cost: 3, utilisation: 0.98},
		{limit: limit.Limit{Count: 100, Period: time.Second, Burst: 5}, demand: 300, processes: 3, cost: 2, utilisation: 0.98},
		{limit: limit.Limit{Count: 3, Period: time.Second}, demand: 1000, processes: 2, cost: 1, utilisation: 0.98},
		// Held for a Life, and then used at once.
		{limit: limit.Limit{Count: 1000, Period: time.Second, Burst: 100}, demand: 100_000, processes: 3, cost: 1, pause: 98 * ms},
		{limit: limit.Limit{Count: 1000, Period: time.Second, Burst: 50}, demand: 100_000, processes: 5, cost: 3, pause: 90 * ms},
	} {
		for seed := range uint64(4) {
			r := r
			r.life, r.slowest, r.length = 100*ms, 2*ms, 5*time.Second
			r.run(seed)
			rate := float64(r.limit.Count) / r.limit.Period.Seconds()
			bound := float64(r.limit.Most()) + rate*r.life.Seconds()
			if got := r.excess(); got > bound+1e-6 {
				t.Errorf("run %d, seed %d: %v above the rate in some time, want at most %v", i, seed, got, bound)
			}
			wanted := r.demand * float64(r.processes) * float64(1+r.cost) / 2 * r.length.Seconds()
			possible := min(wanted, float64(r.limit.Most())+rate*r.length.Seconds())
			if got := float64(r.used+1) / possible; got < r.utilisation {
				t.Errorf("run %d, seed %d: %.3f of what was possible was used, want %v", i, seed, got, r.utilisation)
			}
			// Usually once in half a Life, more often where not even half the
			// burst may wait for it to be over.
			most := 2 / min(r.life.Seconds()/2, float64(r.limit.Most())/2/rate)
			if got := float64(r.asked) / float64(r.processes) / r.length.Seconds(); got > most {
				t.Errorf("run %d, seed %d: each process asked %.1f times a second, want at most %.1f", i, seed, got, most)
			}
		}
	}
}

// Whatever is leased of a window is used in it, and sliding limits let pass in a
// Period what was granted in that and a Life.
func TestLeaseWindows(t *testing.T) {
	for i, kind := range []limit.Kind{limit.FixedWindow, limit.FirstHitWindow, limit.CalendarWindow, limit.SlidingWindow, limit.SlidingLog} {
		r := leaseRun{
			limit:  limit.Limit{Kind: kind, Count: 5000, Period: 500 * ms},
			demand: 20_000, processes: 3, cost: 2, life: 100 * ms, slowest: 2 * ms, length: 3 * time.Second, pause: 20 * ms,
		}
		if kind == limit.CalendarWindow {
			r.limit.Count, r.limit.Period, r.length = 50_000, time.Minute, 70*time.Second
		}
		r.run(uint64(i))
		most := int64(0)
		switch kind {
		case limit.FixedWindow, limit.CalendarWindow:
			in := map[int64]int64{}
			for _, u := range r.times {
				w := u.at.UnixMicro() / r.limit.Period.Microseconds()
				in[w] += u.n
				most = max(most, in[w])
			}
		default: // in each Period that ends with a use
			r.excess() // sorts
			slices.SortFunc(r.granted, func(a, b leaseUse) int { return a.at.Compare(b.at) })
			first, next, before, used, granted := 0, 0, 0, int64(0), int64(0)
			for _, u := range r.times {
				for used += u.n; u.at.Sub(r.times[first].at) >= r.limit.Period; first++ {
					used -= r.times[first].n
				}
				for ; next < len(r.granted) && !r.granted[next].at.After(u.at); next++ {
					granted += r.granted[next].n
				}
				for ; u.at.Sub(r.granted[before].at) > r.limit.Period+r.life; before++ {
					granted -= r.granted[before].n
				}
				if most = max(most, used); used > granted {
					t.Fatalf("%v: %d were used in a Period, %d granted in that and a Life", kind, used, granted)
				}
			}
		}
		exact := kind == limit.FixedWindow || kind == limit.CalendarWindow
		if exact && most > r.limit.Count || most < r.limit.Count*9/10 {
			t.Errorf("%v: up to %d were used in a Period, want nearly %d, and, if it has an edge, no more", kind, most, r.limit.Count)
		}
		if asked := float64(r.asked) / float64(len(r.times)); asked > 0.2 {
			t.Errorf("%v: %v questions for each use", kind, asked)
		}
	}
}

// Processes that hoard what they are granted, and use it all at once with the
// burst, as late as they can: the worst there is.
func TestLeaseHoarded(t *testing.T) {
	l := limit.Limit{Count: 1000, Period: time.Second, Burst: 100}
	start := time.Unix(1_800_000_000, 0)
	var s limit.State
	hosts := make([]limit.Lease, 100)
	one := limit.Ask{Limit: l, N: 1}
	ask := func(h *limit.Lease, at time.Duration) bool {
		now := start.Add(at)
		if d, known := h.Take(now, one); known {
			return d.OK
		}
		h.Seen(50)
		put := h.Ask(now, one, 100*ms)
		var told limit.Decision
		s, told = limit.Take(s, now, put)
		return h.Answer(now, now, one, put, told, 100*ms, 0).OK
	}
	for i := range hosts {
		ask(&hosts[i], time.Duration(i)*3*ms) // 3 refill meanwhile
	}
	used := 0
	for i := range hosts {
		for ask(&hosts[i], 300*ms) {
			used++
		}
	}
	// The burst was gone when it began, so it is B + r × Life less what
	// it has not refilled.
	if used < 60 || used > 100+100 {
		t.Errorf("%d were used at once, want most of what refills in a Life, and at most 200", used)
	}
}
