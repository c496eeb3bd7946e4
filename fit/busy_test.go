package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// exchange is an answer to a request sent and answered so many milliseconds after the
// beginning.
func exchange(sent, ended float64, refused bool) Answer {
	begin := time.UnixMicro(1_800_000_000_000_000)
	at := func(ms float64) time.Time { return begin.Add(time.Duration(ms * float64(time.Millisecond))) }
	return Answer{Sent: at(sent), Ended: at(ended), Refused: refused}
}

// truthCost is what answers cost under params.
func truthCost(all []Answer, p params) float64 {
	tr := readTrace(all)
	c := &scorer{tr: tr, events: tr.events}
	return c.cost(&p, math.Inf(1))
}

// TestSlowRefusal: a refusal that took long may have been decided after all that were
// served meanwhile.
func TestSlowRefusal(t *testing.T) {
	var all []Answer
	for i := range 20 {
		all = append(all, exchange(float64(i), float64(i)+4+float64(i%3)/10, false))
	}
	all = append(all, exchange(9.5, 26, true), exchange(21, 25, true), exchange(23, 27, true))
	if cost := truthCost(all, params{kind: FixedWindow, first: true, period: 3, n: 20}); cost != 0 {
		t.Errorf("20 in 3s, one refusal late: the truth costs %.1f", cost)
	}
	if cost := truthCost(all, params{kind: FixedWindow, first: true, period: 3, n: 40}); cost < costRefused {
		t.Errorf("40 in 3s: costs %.1f, want more than %v", cost, costRefused)
	}
}

// TestSlowServed: where latencies vary, one that took long may have been decided
// after the end of a window.
func TestSlowServed(t *testing.T) {
	took := [...]float64{2, 10, 6, 6}
	var all []Answer
	for i := range 8 {
		at := 100 * float64(i)
		all = append(all, exchange(at, at+took[i%4], false))
	}
	all = append(all, exchange(900, 908, true), exchange(990, 1020, false))
	if cost := truthCost(all, params{kind: FixedWindow, period: 1, n: 8}); cost != 0 {
		t.Errorf("8 in 1s, one served at its end: the truth costs %.1f", cost)
	}
}

// TestWindowBeginsInARun: in an even run over the end of a window from the first
// request, the next request begins another, and a refusal may come as much later.
func TestWindowBeginsInARun(t *testing.T) {
	p := params{kind: FixedWindow, first: true, period: 10, n: 5}
	s := begin(&p, nil)
	s.serve(0, 0, 1)
	s.serve(3, 18, 6)
	if s.start != 12 || s.cur != 3 || s.prev != 4 {
		t.Errorf("after 3, 6 … 18: %v in the window from %v, %v before; want 3 from 12, 4 before", s.cur, s.start, s.prev)
	}
	if a, b := s.usedLast(24), s.usedLast(26); a != 3 || b != 0 {
		t.Errorf("2 and 4 s after its end %v and %v may be used, want 3 and 0", a, b)
	}
}

// TestDelayOfNoise: a few latencies that vary much are no queue.
func TestDelayOfNoise(t *testing.T) {
	const draws = 400
	queues := 0
	for seed := range uint64(draws) {
		r := rand.New(rand.NewPCG(seed, 11))
		var all []Answer
		now := 0.0
		for range 8 {
			took := 0.3 + 5*r.Float64()
			if r.IntN(10) == 0 {
				took += 40 * r.Float64()
			}
			all = append(all, exchange(now, now+took, false))
			now += took
		}
		if Fit(all).Candidates[0].Kind == Delay {
			queues++
		}
	}
	if queues*200 > draws {
		t.Errorf("%d of %d are taken for a queue, want at most one in 200", queues, draws)
	}
}

// TestWidenEdge: where another period explains as much, the edge is as little known as
// the two differ where it was seen.
func TestWidenEdge(t *testing.T) {
	p := params{kind: FixedWindow, n: 20, period: 3, edge: 30}
	w := weighed{found: found{p, 3}, edge: span{29.95, 30.05}}
	other := p
	other.period, other.edge = 3.05, 30.25-9*3.05
	w.widen([]found{{other, 3}}, explained)
	if math.Abs(w.edge.low-29.95) > 1e-9 || math.Abs(w.edge.high-30.25) > 1e-9 {
		t.Errorf("edge %v, want from 29.95 to 30.25", w.edge)
	}
}

// TestChanged: a limit that changed is told from one that others share.
func TestChanged(t *testing.T) {
	for _, x := range limits {
		after, p := x.limit, x.p
		after.Count, after.Burst = after.Count*3/2, after.Burst*3/2
		p.n, p.rate = float64(max(after.Count, after.Burst)), 1.5*p.rate
		if x.p.kind == TokenBucket {
			p.rate, p.n = float64(after.Count), float64(after.Burst)
		}
		all, later := play(x.limit, 5, 120), play(after, 6, 120)
		for i := range later {
			later[i].Sent, later[i].Ended = later[i].Sent.Add(time.Hour), later[i].Ended.Add(time.Hour)
		}
		if w, left := changes(append(all, later...), p); !w {
			t.Errorf("%v, then %v: not seen, they cost %.1f", x.limit, after, left)
		}
		x.p.others = 0.08 * float64(x.limit.Count) / x.limit.Period.Seconds()
		for seed := range uint64(4) {
			if w, left := changes(crowded(x.limit, 0.08, seed, 12), x.p); w {
				t.Errorf("%v, shared with others: taken for a change, they cost %.1f", x.limit, left)
			}
		}
	}
}

// changes reports whether answers that cost so much under p show a change.
func changes(all []Answer, p params) (changed bool, cost float64) {
	tr := readTrace(untold(all))
	c := &scorer{tr: tr, events: tr.events}
	w := weighed{found: found{p, c.cost(&p, math.Inf(1)) + penalty(&p, tr.latency)}}
	return tr.changed([]weighed{w}) != nil, w.cost
}

// TestChangedIsUndecided: a limit that changed is not decided, and Why says so.
func TestChangedIsUndecided(t *testing.T) {
	l := limit.Limit{Kind: limit.SlidingLog, Count: 9, Period: 3 * time.Second}
	all := play(l, 5, 250)
	l.Count = 13
	for _, a := range play(l, 6, 250) {
		a.Sent, a.Ended = a.Sent.Add(time.Hour), a.Ended.Add(time.Hour)
		all = append(all, a)
	}
	if r := Fit(untold(all)); r.Decided || !strings.Contains(r.Why, "changed") {
		t.Errorf("%v, decided %t: %s", r.Candidates[0].Model, r.Decided, r.Why)
	}
}

// recorded are the answers in a file: seconds of sending and of the answer, and whether it
// was refused.
func recorded(t *testing.T, name string) (all []Answer) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var sent, ended float64
		var refused bool
		if _, err := fmt.Sscan(line, &sent, &ended, &refused); err != nil {
			t.Fatal(err)
		}
		all = append(all, exchange(1000*sent, 1000*ended, refused))
	}
	return all
}

// TestSharedIsNoChange: a counter of 13 in 10 s of which others take one in twenty is decided,
// though two parts of the answers fit others, each by a small part of its params.
func TestSharedIsNoChange(t *testing.T) {
	r := Fit(recorded(t, "counter"))
	if best := r.Candidates[0]; !r.Decided || best.Kind != SlidingCounter || best.Count != 13 || math.Abs(best.Period.Seconds()-10) > 0.5 {
		t.Errorf("%v, decided %t: %s", best.Model, r.Decided, r.Why)
	}
}

// TestAlikeIsNoChange: two parts that are about the same counter are one of which others use
// a little.
func TestAlikeIsNoChange(t *testing.T) {
	x := limits[4]
	x.p.others = 0.24
	if w, left := changes(crowded(x.limit, 0.08, 57, 24), x.p); w {
		t.Errorf("%v, shared with others: taken for a change, they cost %.1f", x.limit, left)
	}
}

// TestNarrowRate: a rate that only a few in a thousand explain is found, and no sliding
// window counter in its place. The answers are of a bucket of 1.58/s, burst 7.
func TestNarrowRate(t *testing.T) {
	if best := Fit(recorded(t, "bucket")).Candidates[0]; best.Kind != TokenBucket || math.Abs(best.Rate-1.58) > 0.02 || best.Burst != 7 {
		t.Errorf("found %v", best.Model)
	}
}
