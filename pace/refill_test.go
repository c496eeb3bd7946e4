package pace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestRefill: a server that says when its bucket would be full has stated the policy, whoever uses
// it and in whatever order the answers come. Windows, and a bucket that says when it has the next
// token, state none by their resets.
func TestRefill(t *testing.T) {
	bucket := func(n, burst int64, per time.Duration) limit.Limit {
		return limit.Limit{Count: n, Period: per, Burst: burst}
	}
	window := func(k limit.Kind, n int64, per time.Duration) limit.Limit {
		return limit.Limit{Kind: k, Count: n, Period: per}
	}
	next := func(d limit.Decision) time.Duration { return d.RetryAfter }
	full := func(d limit.Decision) time.Duration { return d.ResetAfter }
	for _, c := range []struct {
		limit limit.Limit
		reset func(limit.Decision) time.Duration
		want  bool
	}{
		{bucket(2000, 2000, time.Minute), full, true},
		{bucket(100, 100, time.Minute), full, true},
		{bucket(100, 20, time.Minute), full, true},
		{bucket(30, 30, time.Hour), full, true},
		{bucket(100, 100, time.Second), full, false}, // full within a second
		{bucket(100, 100, time.Minute), next, false},
		{window(limit.FixedWindow, 100, time.Minute), full, false},
		{window(limit.FixedWindow, 5000, time.Hour), full, false},
		{window(limit.SlidingWindow, 100, time.Minute), full, false},
		{window(limit.SlidingWindow, 1000, 10*time.Second), full, false},
	} {
		for _, whole := range []bool{true, false} {
			for seed := range uint64(20) {
				name := fmt.Sprintf("%v, whole seconds: %v, seed %d", c.limit, whole, seed)
				got := inferred(c.limit, c.reset, whole, seed)
				if (got > 0) != c.want {
					t.Errorf("%s: %v a second inferred; want one: %v", name, got, c.want)
				}
				rate := float64(c.limit.Count) / c.limit.Period.Seconds()
				if got > 0 && math.Abs(math.Log(got/rate)) > 0.2 {
					t.Errorf("%s: %v a second inferred, want about %v", name, got, rate)
				}
			}
		}
	}
}

// inferred returns the policy, in requests a second, that the resets of a limit show to clients that
// send in flights at random times, about as often as it allows.
func inferred(l limit.Limit, reset func(limit.Decision) time.Duration, whole bool, seed uint64) float64 {
	var (
		random = rand.New(rand.NewPCG(seed, 1))
		mean   = float64(l.Period) / float64(l.Count)
		now    = t0.Add(time.Duration(random.Float64() * float64(l.Period)))
		state  limit.State
		a      Adaptive
		got    float64
	)
	for range 3 * l.Count / 4 {
		var answers []Outcome
		for range 1 + random.IntN(8) {
			var d limit.Decision
			state, d = limit.Take(state, now, limit.Ask{Limit: l, N: 1})
			h, verdict := Hints{Remaining: Some(d.Remaining), Reset: Some(reset(d))}, Served
			if !d.OK { // such a reset is when to come back
				h.Reset, verdict = Some(d.RetryAfter), Throttled
			}
			if whole {
				h.Reset.V = (h.Reset.V + time.Second - 1).Truncate(time.Second)
			}
			answers = append(answers, Outcome{Report: Report{Verdict: verdict, Hints: h}})
		}
		random.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
		for _, o := range answers {
			if a.infer(0, &o); o.Hints.Limit.OK {
				got = float64(o.Hints.Limit.V) / o.Hints.Window.V.Seconds()
			}
		}
		now = now.Add(time.Duration(random.ExpFloat64() * 3 * mean))
	}
	if a.refill.limit == 0 {
		return 0 // forgotten again
	}
	return got
}

// TestRefillForgotten: a policy that was inferred does not outlast the limit that showed it.
func TestRefillForgotten(t *testing.T) {
	var (
		a      = new(Adaptive)
		now    = t0
		state  limit.State
		policy []float64
	)
	for _, c := range []struct {
		limit.Limit
		every time.Duration
	}{
		{limit.Limit{Count: 2000, Period: time.Minute, Burst: 500}, 15 * time.Millisecond},
		{limit.Limit{Count: 300, Period: time.Minute, Burst: 500}, 200 * time.Millisecond}, // so that its reset stands
	} {
		l := c.Limit
		for range 1000 {
			now = now.Add(c.every)
			var d limit.Decision
			state, d = limit.Take(state, now, limit.Ask{Limit: l, N: 1})
			h := Hints{Remaining: Some(d.Remaining), Reset: Some((d.ResetAfter + time.Second - 1).Truncate(time.Second))}
			a.Learn(now, Outcome{Sent: now, Report: Report{Verdict: Served, Hints: h}})
		}
		policy = append(policy, a.level.policy)
	}
	if policy[0] < 30 || policy[0] > 37 || policy[1] != 0 {
		t.Errorf("%v a second inferred of 2000 and then 300 a minute; want about 33.3, and none", policy)
	}
}

// TestBrief: whole seconds do not name the end of a window of a second or three, but how long it is,
// as often as what remains leaps up. Those of a longer window, or of one much shorter, do not.
func TestBrief(t *testing.T) {
	for _, c := range []struct {
		count  int64
		period time.Duration
		want   time.Duration // zero: nothing is inferred
	}{
		{50, time.Second, time.Second},
		{300, time.Second, time.Second},
		{20, 2 * time.Second, 2 * time.Second},
		{300, 3 * time.Second, 3 * time.Second},
		{50, 500 * time.Millisecond, 0},
		{50, 5 * time.Second, 0},
		{300, time.Minute, 0},
		{5, time.Second, 0}, // too few to leap
	} {
		for seed := range uint64(20) {
			var (
				random = rand.New(rand.NewPCG(seed, 1))
				l      = limit.Limit{Kind: limit.FixedWindow, Count: c.count, Period: c.period}
				now    = t0.Add(time.Duration(random.Float64() * float64(time.Second)))
				began  = now
				state  limit.State
				a      Adaptive
				got    Hints
			)
			for now.Sub(began) < 30*c.period {
				var d limit.Decision
				state, d = limit.Take(state, now, limit.Ask{Limit: l, N: 1})
				o := Outcome{Report: Report{Verdict: Served, Hints: Hints{Remaining: Some(d.Remaining), Reset: Some((d.ResetAfter + time.Second - 1).Truncate(time.Second))}}}
				if a.infer(now.Sub(began).Seconds(), &o); o.Hints.Window.OK {
					got = o.Hints
				}
				now = now.Add(time.Duration(random.ExpFloat64() * float64(c.period) / float64(c.count)))
			}
			if got.Window.V != c.want || c.want > 0 && got.Limit.V != c.count {
				t.Errorf("%v, seed %d: %d in %v inferred, want %v", l, seed, got.Limit.V, got.Window.V, c.want)
			}
		}
	}
}
