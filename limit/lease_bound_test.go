package limit_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

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
	stops       time.Duration // a process, with a question out, once in a while
	utilisation float64       // wanted at least
	used, asked int64
	overdue     int // used after the window that they were granted in
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
		ends    time.Time // of the window that it was granted of last
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
		p.Want(a, r.life)
		if d, known := p.Take(own, a); known {
			if r.use(now, d); d.OK && now.After(p.ends) {
				r.overdue++
			}
			continue
		} else if p.busy {
			continue
		}
		put := p.Ask(own, a, r.life)
		there := now.Add(time.Duration(random.Int64N(int64(r.slowest))))
		p.busy, p.answers = true, there.Add(time.Duration(random.Int64N(int64(r.slowest))))
		if r.stops > 0 && random.IntN(10) == 0 { // all that are stopped go on together
			p.answers = start.Add(p.answers.Sub(start).Truncate(r.stops) + r.stops)
		}
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
				if put.N > a.N {
					p.ends = there.Add(told.ResetAfter)
				}
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
		{limit: limit.Limit{Count: 20_000, Period: time.Second}, demand: 500, processes: 20, cost: 1, utilisation: 0.94},
		{limit: limit.Limit{Count: 20_000, Period: time.Second}, demand: 5000, processes: 20, cost: 1, lost: 0.01, utilisation: 0.97},
		{limit: limit.Limit{Count: 100_000, Period: time.Second}, demand: 500, processes: 40, cost: 100, utilisation: 0.98},
		{limit: limit.Limit{Count: 60_000, Period: time.Minute}, demand: 10_000, processes: 4, cost: 3, utilisation: 0.98},
		{limit: limit.Limit{Count: 100, Period: time.Second, Burst: 5}, demand: 300, processes: 3, cost: 2, utilisation: 0.98},
		{limit: limit.Limit{Count: 3, Period: time.Second}, demand: 1000, processes: 2, cost: 1, utilisation: 0.98},
		// Held for a Life, and then used at once.
		{limit: limit.Limit{Count: 1000, Period: time.Second, Burst: 100}, demand: 100_000, processes: 3, cost: 1, pause: 98 * ms},
		{limit: limit.Limit{Count: 1000, Period: time.Second, Burst: 50}, demand: 100_000, processes: 5, cost: 3, pause: 90 * ms},
		// Stopped with questions out, and gone on together.
		{limit: limit.Limit{Count: 1000, Period: time.Second, Burst: 100}, demand: 10_000, processes: 50, cost: 100, stops: 300 * ms},
		{limit: limit.Limit{Count: 1000, Period: time.Second, Burst: 500}, demand: 1000, processes: 50, cost: 1000, stops: time.Second},
		{limit: limit.Limit{Count: 10_000, Period: time.Second, Burst: 10}, demand: 10_000, processes: 20, cost: 1, stops: 150 * ms},
	} {
		for seed := range uint64(2) {
			r := r
			r.life, r.slowest, r.length = 100*ms, 2*ms, 3*time.Second
			r.run(seed)
			rate := float64(r.limit.Count) / r.limit.Period.Seconds()
			bound := float64(r.limit.Max()) + rate*r.life.Seconds()
			if got := r.excess(); got > bound+1e-6 {
				t.Errorf("run %d, seed %d: %v above the rate in some time, want at most %v", i, seed, got, bound)
			}
			wanted := r.demand * float64(r.processes) * float64(1+r.cost) / 2 * r.length.Seconds()
			possible := min(wanted, float64(r.limit.Max())+rate*r.length.Seconds())
			if got := float64(r.used+1) / possible; got < r.utilisation {
				t.Errorf("run %d, seed %d: %.3f of what was possible was used, want %v", i, seed, got, r.utilisation)
			}
			// Usually once or twice in half a Life, more often where not even half
			// the burst may wait for it to be over.
			most := 4.5 / min(r.life.Seconds()/2, float64(r.limit.Max())/2/rate)
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
		if kind == limit.FirstHitWindow && r.overdue > 0 {
			t.Errorf("%v: %d were used after the end of the window that they were granted of", kind, r.overdue)
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
		h.Want(limit.Ask{Limit: l, N: 50}, 100*ms)
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
