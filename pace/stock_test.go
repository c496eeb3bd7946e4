package pace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// stocked returns an Adaptive whose requests differ in cost, and the time: of a limit of 1000 that
// comes back at ten a second, left remain, by the answer that came last.
func stocked(left int64, tell func(left int64, h *Hints)) (*Adaptive, time.Time) {
	a, now := new(Adaptive), at(0)
	for i, cost := range []int64{10, 30, 20} {
		r := Request{Since: now, Cost: cost}
		a.Start(now, r)
		o := Outcome{Request: r, Sent: now, Report: Report{Verdict: Served}}
		o.Hints.Limit, o.Hints.Remaining = Some(int64(1000)), Some(left+20*int64(2-i))
		tell(o.Hints.Remaining.V, &o.Hints)
		now = now.Add(10 * time.Millisecond)
		a.Observe(now, o)
	}
	return a, now
}

func fullIn(left int64, h *Hints) { h.Full = Some(time.Duration(1000-left) * time.Second / 10) }

// A request that costs more than is left waits until that has come back, whichever way the server says
// how fast it does, and no other one waits for it.
func TestDearRequestWaitsForWhatItNeeds(t *testing.T) {
	for _, c := range []struct {
		name string
		left int64
		tell func(left int64, h *Hints)
		cost int64
		want float64 // seconds
	}{
		{"full when", 100, fullIn, 400, 30},
		{"policy", 100, func(_ int64, h *Hints) { h.Window = Some(100 * time.Second) }, 400, 30},
		{"reset", 100, func(left int64, h *Hints) { h.Reset = Some(time.Duration(1000-left) * time.Second / 10) }, 400, 30},
		{"all of it", 100, fullIn, 1000, 90},
		{"enough left", 500, fullIn, 400, 0},
		{"more than the limit", 100, fullIn, 1001, 0},
		{"not known how fast", 100, func(int64, *Hints) {}, 400, 0},
		{"nonsense", 0, func(_ int64, h *Hints) { h.Full = Some(1000 * time.Hour) }, 400, mostHeld},
		{"more than the burst", 100, func(left int64, h *Hints) { fullIn(left, h); h.Burst = Some(int64(200)) }, 400, 0},
	} {
		a, now := stocked(c.left, c.tell)
		if got := max(a.Wait(now, Request{Since: now, Cost: c.cost}), 0).Seconds(); math.Abs(got-c.want) > 0.1*c.want+0.5 {
			t.Errorf("%s: %d left of 1000: a request of %d waits %.2f s, want %v", c.name, c.left, c.cost, got, c.want)
		}
		if got := a.Wait(now, Request{Since: now, Cost: c.cost, Place: 1}).Seconds(); c.want > 0 && math.Abs(got-c.want) > 0.1*c.want {
			t.Errorf("%s: forecast %.2f s, want %v", c.name, got, c.want)
		}
		if got := a.Wait(now, Request{Since: now, Cost: min(c.left, 50)}); c.left > 0 && got > time.Second {
			t.Errorf("%s: a request of 50 waits %v, though %d are left", c.name, got, c.left)
		}
	}
}

// What own requests took since the last answer is not there. A refusal, and a request that was never
// sent, took nothing.
func TestStockCountsOwnStarts(t *testing.T) {
	for _, c := range []struct {
		name string
		end  *Outcome
		want float64
	}{
		{"in flight", nil, 70},
		{"refused", &Outcome{Report: Report{Verdict: Throttled}}, 30},
		{"elsewhere", &Outcome{Elsewhere: true}, 30},
		{"cheaper in the end", &Outcome{Report: Report{Verdict: Served, Cost: 100}}, 40},
	} {
		a, now := stocked(500, fullIn)
		r := Request{Since: now, Cost: 400}
		a.Start(now, r)
		if c.end != nil {
			c.end.Request, c.end.Sent = r, now
			a.stock.ended(now.Sub(a.epoch).Seconds(), a.rtt, 0, c.end)
		}
		if got := a.enough(800) - now.Sub(a.epoch).Seconds(); math.Abs(got-c.want) > 0.1*c.want {
			t.Errorf("%s: after a request of 400 one of 800 waits %.1f s, want about %v", c.name, got, c.want)
		}
	}
}

// Where all requests cost the same, what is left holds up none: neither at cost 1 nor at another.
func TestEqualCostsAreNotHeld(t *testing.T) {
	for _, cost := range []int64{0, 1, 50} {
		for _, tell := range []func(int64, *Hints){fullIn, func(int64, *Hints) {}} {
			a, now := new(Adaptive), at(0)
			for range 20 {
				r := Request{Since: now, Cost: cost}
				a.Start(now, r)
				o := Outcome{Request: r, Sent: now, Report: Report{Verdict: Served, Hints: Hints{Limit: Some(int64(1000)), Remaining: Some(int64(0))}}}
				tell(0, &o.Hints)
				now = now.Add(10 * time.Millisecond)
				a.Observe(now, o)
			}
			if got := a.enough(cost); got != 0 || a.exact() || a.stock.reserve() != 0 {
				t.Errorf("cost %d: the stock holds up requests until %v", cost, got)
			}
		}
	}
}

// llm is a server with a bucket of tokens, which says what is left, rounded, and when it is full.
type llm struct {
	tokens
	round           float64
	served, refused int
}

func (s *llm) ask(now time.Time, cost int64) Report {
	most := 60 * s.rate
	s.level, s.at = min(s.level+s.rate*now.Sub(s.at).Seconds(), most), now
	r := Report{Verdict: Served}
	if s.level >= float64(cost) {
		s.level -= float64(cost)
		s.served++
	} else {
		r.Verdict = Throttled
		s.refused++
	}
	r.Hints.Limit, r.Hints.Remaining = Some(int64(most)), Some(int64(math.Round(s.level/s.round)*s.round))
	r.Hints.Full = Some(seconds(math.Ceil((most - s.level) / s.rate)))
	return r
}

// dearAndCheap returns a cost between 100 and 50,000, each order of magnitude as often.
func dearAndCheap(luck *rand.Rand) int64 { return int64(100 * math.Exp(luck.Float64()*math.Log(500))) }

// callsAt makes calls arrive at these times at gates in turn, and returns their waits.
func (s *llm) callsAt(arrive []time.Duration, costs []int64, gates ...*Gate) (waits []time.Duration) {
	now := at(0)
	s.at, s.level = now, 60*s.rate
	type flight struct {
		g    *Gate
		k    *Ticket
		ends time.Time
		r    Report
	}
	var flying []flight
	for next, events := 0, 0; len(waits) < len(arrive); events++ {
		if events > 100*len(arrive) {
			panic(fmt.Sprint(now.Sub(at(0)), len(waits), next, len(flying), gates[0].Waiting(), gates[0].rests.len()))
		}
		wake := at(1e6 * time.Hour)
		if next < len(arrive) {
			wake = at(0).Add(arrive[next])
		}
		for _, g := range gates {
			for {
				k, again := g.Next(now)
				if k == nil {
					if again != Never {
						wake = earlier(wake, now.Add(again))
					}
					break
				}
				flying = append(flying, flight{g, k, now.Add(200 * time.Millisecond), s.ask(now, k.Cost)})
			}
		}
		for _, f := range flying {
			wake = earlier(wake, f.ends)
		}
		now = wake
		flying = slices.DeleteFunc(flying, func(f flight) bool {
			if f.ends.After(now) {
				return false
			}
			if !f.g.Done(now, f.k, f.r) {
				waits = append(waits, now.Add(-200*time.Millisecond).Sub(f.k.Owner.(time.Time)))
			}
			return true
		})
		for ; next < len(arrive) && !at(0).Add(arrive[next]).After(now); next++ {
			gates[next%len(gates)].Enter(now, &Ticket{Cost: costs[next], Owner: at(0).Add(arrive[next])})
		}
	}
	slices.Sort(waits)
	return waits
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// best returns the waits of a caller who knows all: each call starts as soon as it can, in turn.
func best(rate float64, arrive []time.Duration, costs []int64) (waits []time.Duration) {
	level, then := 60*rate, 0.0
	for i, x := range arrive {
		now := max(x.Seconds(), then)
		level = min(level+rate*(now-then), 60*rate)
		wait := max(float64(costs[i])-level, 0) / rate
		then = now + wait
		level += rate*wait - float64(costs[i])
		waits = append(waits, seconds(then-x.Seconds()))
	}
	slices.Sort(waits)
	return waits
}

// Calls of 100 to 50,000 tokens on a limit of 200,000 a minute, nine tenths of which they use, or much
// more: a client alone waits hardly longer than one who knows all, and hardly any call is refused; also
// where what remains is rounded to thousands.
func TestDearAndCheapRequests(t *testing.T) {
	const rate, calls, seeds = 200_000.0 / 60, 600, 5
	for _, c := range []struct{ round, load float64 }{{1, 0.9}, {1000, 0.9}, {1000, 1000}} {
		var refused int
		var p99, least time.Duration
		for seed := range uint64(seeds) {
			luck := rand.New(rand.NewPCG(seed, 1))
			var arrive []time.Duration
			var costs []int64
			for now := 0.0; len(arrive) < calls; now += luck.ExpFloat64() * 8030 / rate / c.load {
				arrive, costs = append(arrive, seconds(now)), append(costs, dearAndCheap(luck))
			}
			s := &llm{tokens: tokens{rate: rate}, round: c.round}
			p99 += s.callsAt(arrive, costs, &Gate{Control: new(Adaptive)})[calls*99/100] / seeds
			least += best(rate, arrive, costs)[calls*99/100] / seeds
			refused += s.refused
		}
		t.Logf("rounded to %v, %v times the limit: %d of %d refused, mean p99 of the waits %v, at best %v", c.round, c.load, refused, calls*seeds, p99, least)
		if refused > calls*seeds/75 || p99 > least+least/4 {
			t.Errorf("rounded to %v, %v times the limit: %d of %d refused, mean p99 of the waits %v; want %d refused at most, and %v", c.round, c.load, refused, calls*seeds, p99, calls*seeds/75, least+least/4)
		}
	}
}

// Two clients share the limit. Neither starves, nor are many calls refused.
func TestDearAndCheapRequestsOfTwo(t *testing.T) {
	const rate, calls, seeds = 200_000.0 / 60, 500, 8
	var refused int
	var last, least time.Duration
	for seed := range uint64(seeds) {
		luck := rand.New(rand.NewPCG(seed, 2))
		arrive, costs := make([]time.Duration, calls), make([]int64, calls)
		for i := range costs {
			costs[i] = dearAndCheap(luck)
		}
		s := &llm{tokens: tokens{rate: rate}, round: 1}
		waits := s.callsAt(arrive, costs, &Gate{Control: new(Adaptive), Seed: 1}, &Gate{Control: new(Adaptive), Seed: 2})
		last += waits[calls-1] / seeds
		least += best(rate, arrive, costs)[calls-1] / seeds
		refused += s.refused
	}
	t.Logf("%d of %d refused, the last of %d calls of two clients waits %v on average, at best %v", refused, calls*seeds, calls, last, least)
	if refused > calls*seeds/20 || last > least+least/8 {
		t.Errorf("%d of %d refused, the last call waits %v; want %d refused at most, and %v", refused, calls*seeds, last, calls*seeds/20, least+least/8)
	}
}

// TestSteadyStockKeepsTheLevel: where the account of a bucket is kept, neither a policy of few dear requests
// nor a long refusal of one leaves it to the law by refusals; others that do not yield still do.
func TestSteadyStockKeepsTheLevel(t *testing.T) {
	for _, c := range []struct {
		about         string
		steady, crowd bool
		quota, length float64
		refused       float64 // seconds, the longest row
		want          bool
	}{
		{"few requests", false, false, 5, 60, 0, true},
		{"few requests, and an account", true, false, 5, 60, 0, false},
		{"refused for half of the window", false, false, 500, 60, 30, true},
		{"refused for half of the window, and an account", true, false, 500, 60, 30, false},
		{"an account, and others that do not yield", true, true, 500, 60, 0, true},
	} {
		a := new(Adaptive)
		a.begin(time.Unix(0, 0))
		a.stock.varies, a.stock.ledger.steady = true, c.steady
		l := &a.level
		l.quota, l.length, l.policy, l.full, l.most, l.othersFor = c.quota, c.length, c.quota/c.length, c.quota-1, c.quota-1, 1
		l.longestRefusal, l.company.crowded = c.refused, c.crowd
		if got := a.misled(); got != c.want {
			t.Errorf("%s: left to refusals %t, want %t", c.about, got, c.want)
		}
	}
}
