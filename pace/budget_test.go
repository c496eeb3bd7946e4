package pace_test

import (
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// tried makes calls of which each try ends as end says, and counts the tries.
func tried(g *pace.Gate, calls int, end func(try int) pace.Verdict) (tries, broke int) {
	now := time.Unix(1000, 0)
	for range calls {
		t := new(pace.Ticket)
		g.Enter(now, t)
		for again := true; again; {
			next, wait := g.Next(now)
			if next == nil {
				now = now.Add(wait)
				continue
			}
			tries++
			again = g.Done(now, t, pace.Report{Verdict: end(tries)})
		}
		if t.Broke {
			broke++
		}
	}
	return tries, broke
}

func always(v pace.Verdict) func(int) pace.Verdict { return func(int) pace.Verdict { return v } }

// TestBudgetsBoundAmplification: all calls fail for a passing reason.
func TestBudgetsBoundAmplification(t *testing.T) {
	const calls = 10_000
	for _, c := range []struct {
		name   string
		budget pace.Budget
		retry  float64 // retries a call, in the long run
		saved  float64 // and those that the first tokens pay
	}{
		{"zero", pace.Budget{}, 0.1, 10},
		{"Finagle", pace.FinagleBudget, 0.2, 100},
		{"gRPC", pace.GRPCBudget, 0, 5},
		{"AWS", pace.AWSBudget, 0, 100},
		{"AWS 2026", pace.AWS2026Budget, 0, 35},
		{"none", pace.Budget{Max: -1}, 3, 0},
	} {
		g := &pace.Gate{Budget: c.budget}
		tries, broke := tried(g, calls, always(pace.Failed))
		retries := float64(tries - calls)
		if want := c.retry*calls + c.saved; math.Abs(retries-want) > 4 {
			t.Errorf("%s: %d calls that all fail: %.0f retries, want %.0f", c.name, calls, retries, want)
		}
		if none := c.budget.Max < 0; (broke == 0) != none {
			t.Errorf("%s: %d calls were given up for want of budget", c.name, broke)
		}
	}
}

// TestBudgetLeavesFewFailuresAlone: with one try in twenty failing at random
// every call gets its retries.
func TestBudgetLeavesFewFailuresAlone(t *testing.T) {
	for name, budget := range map[string]pace.Budget{
		"zero": {}, "Finagle": pace.FinagleBudget, "gRPC": pace.GRPCBudget, "AWS": pace.AWSBudget, "AWS 2026": pace.AWS2026Budget,
	} {
		g := &pace.Gate{Budget: budget}
		_, broke := tried(g, 10_000, func(try int) pace.Verdict {
			if try%20 == 0 {
				return pace.Failed
			}
			return pace.Served
		})
		if broke > 0 {
			t.Errorf("%s: %d calls were given up for want of budget, want none", name, broke)
		}
	}
}

func TestBudgetDoesNotCountThrottledTries(t *testing.T) {
	g := new(pace.Gate)
	tries, broke := tried(g, 10, func(try int) pace.Verdict {
		if try%50 == 0 {
			return pace.Served
		}
		return pace.Throttled
	})
	if tries != 500 || broke != 0 {
		t.Errorf("10 calls, throttled 49 times each: %d tries, %d given up for want of budget; want 500, 0", tries, broke)
	}
}

// TestBudgetOfRetriesThatLeave: a retry that was never made costs nothing.
func TestBudgetOfRetriesThatLeave(t *testing.T) {
	now := time.Unix(1000, 0)
	g := &pace.Gate{Budget: pace.Budget{Max: 1, Call: 1e-12}}
	for i := range 100 {
		k := new(pace.Ticket)
		g.Enter(now, k)
		g.Next(now)
		if !g.Done(now, k, pace.Report{Verdict: pace.Failed}) {
			t.Fatalf("call %d: no retry, though none was made before", i)
		}
		if i%2 == 0 {
			g.Next(now) // it starts, but never leaves
		}
		g.Leave(now, k)
	}
}

func TestRetriesThatAreServedGiveBack(t *testing.T) {
	g := &pace.Gate{Budget: pace.Budget{Max: 5, Retry: 5, First: 1e-12, Refund: true}}
	_, broke := tried(g, 1000, func(try int) pace.Verdict {
		if try%2 == 1 {
			return pace.Failed
		}
		return pace.Served
	})
	if broke > 0 {
		t.Errorf("every retry is served: %d of 1000 calls were given up for want of budget, want none", broke)
	}
}
