package knee

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// under runs a service under a Poisson load for some seconds, with those requests
// refused that admit refuses. It returns what was answered within the bound and
// later, a second.
func (v *service) under(rate, seconds float64, bound time.Duration, admit func(now float64, inFlight int) bool) (good, slow float64) {
	var calls []*call
	for end := v.now + seconds; v.now < end; {
		v.until(v.now+v.random.ExpFloat64()/rate, nil)
		if admit(v.now, len(v.running)+len(v.line)) {
			c := &call{due: v.now}
			calls = append(calls, c)
			v.arrive(c)
		}
	}
	for len(v.running) > 0 {
		v.until(v.running[0].at, nil)
	}
	for _, c := range calls {
		if c.done-c.due <= bound.Seconds() {
			good++
		} else {
			slow++
		}
	}
	return good / seconds, slow / seconds
}

// TestRuleKeepsTheObjective: under three times the load the rule lets the service
// keep its objective, by either of its limits, and at nearly its rate.
func TestRuleKeepsTheObjective(t *testing.T) {
	for _, c := range []testCase{cases[1], cases[2], cases[9]} {
		r := find(&Search{Objective: Objective{Latency: c.bound}}, c.service.start(1))
		rule := r.Rule(0)
		load, bound := 3*r.Knee.At, c.bound
		var state limit.State
		bucket := func(now float64, _ int) bool {
			var d limit.Decision
			state, d = limit.Take(state, time.Unix(0, int64(now*1e9)), limit.Ask{Limit: rule.Limit, N: 1})
			return d.OK
		}
		bulkhead := func(_ float64, inFlight int) bool { return inFlight < rule.Concurrency }
		all := func(float64, int) bool { return true }
		good, slow := c.service.start(2).under(load, 30, bound, bucket)
		rate := float64(rule.Limit.Count) / rule.Limit.Period.Seconds()
		if slow > 0.01*good || math.Abs(good/rate-1) > 0.05 || rate < 0.75*r.Knee.At {
			t.Errorf("%s: by %v %.1f a second are good and %.1f slow, of a knee of %.1f", c.name, rule.Limit, good, slow, r.Knee.At)
		}
		good, slow = c.service.start(2).under(load, 30, bound, bulkhead)
		if slow > 0.01*good || good < 0.85*r.Knee.At {
			t.Errorf("%s: by %d in flight %.1f a second are good and %.1f slow, of a knee of %.1f", c.name, rule.Concurrency, good, slow, r.Knee.At)
		}
		if good, slow = c.service.start(2).under(load, 20, bound, all); slow < 10*good {
			t.Errorf("%s: with no rule %.1f a second are good and %.1f slow, want hardly any good", c.name, good, slow)
		}
	}
}

func TestRule(t *testing.T) {
	r := Result{
		Objective: Objective{Latency: 200 * time.Millisecond}, Knee: Interval{90, 100, 110}, Capacity: 110, InFlight: 3,
		Curve: []Point{{Level: 50, P99: 50 * time.Millisecond}, {Level: 100, P99: 200 * time.Millisecond}},
	}
	// At 80 a second p99 is 140 ms: half of the 60 ms left is a queue of 3.3.
	if got, want := r.Rule(0), (Rule{limit.Limit{Count: 800, Period: 10 * time.Second, Burst: 3}, 12}); got != want {
		t.Errorf("rule %+v, want %+v", got, want)
	}
	if got := r.Rule(0.5).Limit; got.Count != 500 || got.Burst != 8 {
		t.Errorf("with half as head room %+v, want 500 in 10 s, and a burst of 8", got)
	}
	r.Objective.Latency = 0
	if got := r.Rule(0); got.Concurrency != 6 || got.Limit.Burst != 11 {
		t.Errorf("without a bound on latency %+v, want twice the mean in flight and a tenth of a second", got)
	}
	if got := (Result{}).Rule(0); got != (Rule{}) {
		t.Errorf("with no knee %+v, want none", got)
	}
	if l := perTime(0.0001); !l.Unlimited() {
		t.Errorf("less than one an hour is %+v, want none", l)
	}
	for _, rate := range []float64{0.03, 1.7, 9.99, 99.9, 123.4, 98765} {
		l := perTime(rate)
		if l.Unlimited() {
			t.Errorf("%v a second has no limit", rate)
			continue
		}
		if got := float64(l.Count) / l.Period.Seconds(); got > rate || got < 0.9*rate {
			t.Errorf("%v a second is %+v, want at most a tenth less", rate, l)
		}
	}
}
