package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// limits are one of each kind that package limit decides by, with its params.
var limits = []struct {
	limit limit.Limit
	p     params
}{
	{limit.Limit{Count: 5, Period: time.Second, Burst: 12}, params{kind: TokenBucket, rate: 5, n: 12}},
	{limit.Limit{Kind: limit.FixedWindow, Count: 9, Period: 3 * time.Second}, params{kind: FixedWindow, period: 3, n: 9}},
	{limit.Limit{Kind: limit.FirstHitWindow, Count: 9, Period: 3 * time.Second}, params{kind: FixedWindow, first: true, period: 3, n: 9}},
	{limit.Limit{Kind: limit.SlidingLog, Count: 9, Period: 3 * time.Second}, params{kind: SlidingLog, period: 3, n: 9}},
	{limit.Limit{Kind: limit.SlidingWindow, Count: 9, Period: 3 * time.Second}, params{kind: SlidingCounter, period: 3, n: 9}},
}

// play asks a limit at random times, now and then many in a row.
func play(l limit.Limit, seed uint64, n int) (all []Answer) {
	r := rand.New(rand.NewPCG(seed, 1))
	var s limit.State
	var log limit.Log
	now := time.UnixMicro(1_800_000_000_000_000) // a multiple of every period here
	for range n {
		ask := limit.Ask{Limit: l, N: 1}
		var d limit.Decision
		if l.Kind == limit.SlidingLog {
			d = log.Take(now, ask)
		} else {
			s, d = limit.Take(s, now, ask)
		}
		all = append(all, Answer{Sent: now, Ended: now, Refused: !d.OK, Remaining: float64(d.Remaining), HasRemaining: true, Limit: float64(d.Max)})
		now = now.Add(time.Duration(r.IntN(5_000)) * time.Microsecond)
		if r.IntN(6) == 0 {
			now = now.Add(time.Duration(r.ExpFloat64()*1e6) * time.Microsecond)
		}
	}
	return all
}

// untold are the answers without what the server said of its limit.
func untold(all []Answer) (bare []Answer) {
	for _, a := range all {
		bare = append(bare, Answer{Sent: a.Sent, Ended: a.Ended, Refused: a.Refused})
	}
	return bare
}

// TestTruthExplains: without latency the true params explain every answer of
// package limit, and others do not.
func TestTruthExplains(t *testing.T) {
	for _, x := range limits {
		for seed := range uint64(5) {
			tr := readTrace(untold(play(x.limit, seed, 120)))
			c := &scorer{tr: tr, events: tr.events}
			if cost := c.cost(&x.p, math.Inf(1)); cost != 0 {
				t.Errorf("%v, seed %d: the truth costs %v", x.limit, seed, cost)
			}
			for _, k := range [...]float64{0.8, 1.25} {
				wrong, count := x.p, x.p
				wrong.rate, wrong.period = wrong.rate*k, wrong.period*k
				count.n = math.Round(count.n * k)
				for _, p := range []params{wrong, count} {
					if cost := c.cost(&p, math.Inf(1)); cost < costRefused {
						t.Errorf("%v, seed %d: %+v costs %v", x.limit, seed, p, cost)
					}
				}
			}
		}
	}
}

// TestTruthExplainsALongPast: what was served before the events that are kept explains
// the refusals among them.
func TestTruthExplainsALongPast(t *testing.T) {
	for _, x := range limits[1:] { // a bucket refills within runs that are merged
		for seed := range uint64(5) {
			tr := readTrace(untold(play(x.limit, seed, 1000)))
			if cost := tr.scorer().cost(&x.p, math.Inf(1)); cost != 0 || tr.from == 0 {
				t.Errorf("%v, seed %d: the truth costs %v after %d events", x.limit, seed, cost, tr.from)
			}
		}
	}
	x := limits[3]
	if r := Fit(untold(play(x.limit, 3, 1000))); !r.Decided || r.Shared || r.Candidates[0].Kind != x.p.kind {
		t.Errorf("%v: %v, decided %t, shared %t: %s", x.limit, r.Candidates[0].Model, r.Decided, r.Shared, r.Why)
	}
}

// TestFitPastRequests: a log of requests that nobody planned is enough where it
// is long, also in any order.
func TestFitPastRequests(t *testing.T) {
	for _, x := range limits {
		all := untold(play(x.limit, 3, 300))
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		r := Fit(all)
		best := r.Candidates[0]
		if best.Kind != x.p.kind || best.FromFirst != x.p.first || r.Unexplained > 0 || r.Used != 300 {
			t.Errorf("%v: %v, %d unexplained, %d used", x.limit, best.Model, r.Unexplained, r.Used)
		}
		n := best.Burst + best.Count
		if math.Abs(n-x.p.n) > 1 || math.Abs(best.Period.Seconds()-x.p.period) > 0.1*x.p.period || x.p.rate > 0 && math.Abs(best.Rate-x.p.rate) > 0.25 {
			t.Errorf("%v: %v", x.limit, best.Model)
		}
	}
}

// TestFitReadsRemaining: what the server says to remain tells the limit where
// nothing was refused.
func TestFitReadsRemaining(t *testing.T) {
	all := play(limits[0].limit, 4, 90)
	all = slices.DeleteFunc(all, func(a Answer) bool { return a.Refused })
	if m := Fit(all).Candidates[0].Model; m.Kind != TokenBucket || m.Burst != 12 || math.Abs(m.Rate-5) > 0.25 {
		t.Errorf("with what remains: %v", m)
	}
	if m := Fit(untold(all)).Candidates[0].Model; m.Kind != Unlimited {
		t.Errorf("without: %v", m)
	}
}

// TestFitNothing: without answers, or with none of use, the limiter is unlimited
// and not decided.
func TestFitNothing(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, all := range [][]Answer{nil, {{}}, {{Sent: now, Ended: now.Add(-1)}}, {{Sent: now, Ended: now, Ignored: true}}} {
		if r := Fit(all); r.Decided || len(r.Candidates) != 1 || r.Candidates[0].Kind != Unlimited || r.Candidates[0].Share != 1 || r.Used != 0 {
			t.Errorf("%v: %+v", all, r)
		}
	}
}

// TestDelay: latencies that grow as a queue does are a queue, and those that are
// merely noisy are not.
func TestDelay(t *testing.T) {
	now := time.Unix(1000, 0)
	var queued, noisy []Answer
	free := now
	r := rand.New(rand.NewPCG(2, 2))
	for i := range 60 {
		sent := now.Add(time.Duration(i/20) * 5 * time.Second)
		if free.Before(sent) {
			free = sent
		}
		queued = append(queued, Answer{Sent: sent, Ended: free.Add(10 * time.Millisecond)})
		free = free.Add(50 * time.Millisecond)
		noisy = append(noisy, Answer{Sent: sent, Ended: sent.Add(time.Duration(1e7 * (1 + 9*r.Float64())))})
	}
	if m := Fit(queued).Candidates[0]; m.Kind != Delay || math.Abs(m.Rate-20) > 0.4 || m.Burst != 1 {
		t.Errorf("queue of 20/s: %v", m.Model)
	}
	if m := Fit(noisy).Candidates[0]; m.Kind != Unlimited {
		t.Errorf("noise: %v", m.Model)
	}
}

// FuzzFit: whatever the answers are, Fit returns shares that sum up to one and
// numbers that are numbers, and Next a step that can be taken.
func FuzzFit(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 250, 251, 252}, int64(1000))
	f.Add([]byte{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 255, 255, 255, 255}, int64(-1))
	f.Fuzz(func(t *testing.T, data []byte, begin int64) {
		now := time.Unix(begin%(1<<40), 0)
		var all []Answer
		for ; len(data) >= 3 && len(all) < 60; data = data[3:] {
			now = now.Add(time.Duration(math.Pow(1.12, float64(data[0]))) * time.Microsecond)
			a := Answer{
				Sent: now, Ended: now.Add(time.Duration(data[1]) * time.Millisecond), Refused: data[2]&1 > 0, Ignored: data[2]&14 == 14,
				Remaining: float64(data[2]) - 9, HasRemaining: data[2]&16 > 0, Limit: float64(data[2]&32) - 8, Reset: time.Duration(data[1]) << data[2], RetryAfter: time.Duration(data[0]) << data[1],
			}
			all = append(all, a)
		}
		r := Fit(all)
		sum := 0.0
		for _, c := range r.Candidates {
			sum += c.Share
			for _, x := range [...]float64{c.LogLikelihood, c.Rate, c.Burst, c.Count, c.RateIn.High, c.BurstIn.High, c.CountIn.High, c.PeriodIn.High, c.PeriodIn.Low} {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("%+v", c)
				}
			}
			if _, ok := c.Limit(); ok && c.Kind == Unlimited || c.String() == "" || c.Period < 0 || c.Phase < 0 {
				t.Fatalf("%+v", c)
			}
		}
		if math.Abs(sum-1) > 1e-6 || r.Decided != (r.Why == "") {
			t.Fatalf("shares sum up to %v; %+v", sum, r)
		}
		step, more := Plan{Requests: 100, Time: 100 * 365 * 24 * time.Hour}.Next(now, all)
		if more && (step.N < 1 || step.N > 100 || step.AtOnce < 1 || step.Refusals < 1 || step.Every < 0 || step.At.Before(now)) {
			t.Fatalf("step %+v at %v", step, now)
		}
	})
}

// TestTraceKeepsTheLastRefusal: however many refusals come in a row, the trace is
// small, and has the first and the last of them.
func TestTraceKeepsTheLastRefusal(t *testing.T) {
	now := time.Unix(1000, 0)
	all := []Answer{{Sent: now, Ended: now}}
	for i := range 5000 {
		at := now.Add(time.Duration(i+1) * time.Second)
		all = append(all, Answer{Sent: at, Ended: at, Refused: true})
	}
	tr := readTrace(all)
	n := len(tr.events)
	if n > 200 || tr.events[1].to != 1 || tr.events[n-1].to != 5000 {
		t.Errorf("%d events, the second at %v, the last at %v", n, tr.events[1].to, tr.events[n-1].to)
	}
}

// TestTraceIsBounded: a long trace is merged, and counts what was merged.
func TestTraceIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	var all []Answer
	for i := range MaxAnswers + 500 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		all = append(all, Answer{Sent: at, Ended: at, Refused: i%50 == 49})
	}
	tr := readTrace(all)
	if len(tr.events)-tr.from > 2*mostEvents || tr.from > 2*mostEvents || tr.used != MaxAnswers {
		t.Errorf("%d events of %d answers", len(tr.events), tr.used)
	}
}
