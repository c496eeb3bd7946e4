package pace_test

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
)

// told counts what a Controller is told that does not know of feedback.
type told struct {
	pace.Backoff
	starts, ends int
	last         pace.Outcome
}

func (c *told) Start(time.Time, pace.Request) { c.starts++ }

func (c *told) Observe(_ time.Time, o pace.Outcome) time.Duration {
	c.ends, c.last = c.ends+1, o
	return 0
}

// Reports reach the Controller as an answer would, and no permit comes back.
func TestGateReport(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	c := new(told)
	g := pace.Gate{Control: c}
	var k pace.Ticket
	g.Report(now, time.Time{}, pace.Report{Verdict: pace.Throttled, Cost: 7})
	if !c.last.Sent.Equal(now) || c.last.Cost != 1 {
		t.Errorf("before any start: sent %v, cost %d; want now and 1", c.last.Sent, c.last.Cost)
	}
	g.Enter(at(time.Second), &k)
	g.Next(at(time.Second))
	for i, test := range []struct{ sent, want time.Time }{
		{time.Time{}, at(time.Second)},   // the last start
		{at(-time.Hour), at(-time.Hour)}, // as told
		{at(time.Hour), at(time.Minute)}, // not in the future
	} {
		g.Report(at(time.Minute), test.sent, pace.Report{Verdict: pace.Throttled, After: time.Second})
		if c.last.Verdict != pace.Throttled || c.last.After != time.Second || !c.last.Sent.Equal(test.want) {
			t.Errorf("report %d: the Controller saw %+v; want Throttled, 1 s, sent %v", i, c.last, test.want)
		}
	}
	if c.starts != 5 || c.ends != 4 || g.InFlight() != 1 {
		t.Errorf("%d starts, %d ends, %d in flight; want 5, 4 and 1", c.starts, c.ends, g.InFlight())
	}
	(&pace.Gate{}).Report(now, now, pace.Report{Verdict: pace.Throttled}) // without a Controller
}

// What learns from feedback takes no turn for it; what knows its rate does
// neither.
func TestLearnersTakeNoTurn(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		c           pace.Controller
		least, most time.Duration // until the next start, after one and a refusal
	}{
		"Fixed":    {&pace.Fixed{Rate: 1}, time.Second, time.Second},
		"AIMD":     {&peers.AIMD{Initial: 1, Cut: 0.5}, 2 * time.Second, 2 * time.Second},
		"Adaptive": {&pace.Adaptive{}, 500 * time.Millisecond, 1500 * time.Millisecond},
		"All":      {pace.All{&pace.Fixed{Rate: 0.5}, &peers.AIMD{Initial: 1}}, 2 * time.Second, 2 * time.Second},
	} {
		g := pace.Gate{Control: test.c}
		var k, next pace.Ticket
		g.Enter(now, &k)
		g.Next(now)
		for range 100 { // of the same overload
			g.Report(now.Add(time.Nanosecond), time.Time{}, pace.Report{Verdict: pace.Throttled})
		}
		g.Enter(now, &next)
		if _, again := g.Next(now); again < test.least || again > test.most {
			t.Errorf("%s: the next one waits %v; want %v to %v", name, again, test.least, test.most)
		}
	}
}

// Feedback that too many are in flight lowers the bound, and one that work was
// served ends the pause.
func TestReportOfTooManyInFlight(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g := pace.Gate{}
	var k [5]pace.Ticket
	for i := range 4 {
		g.Enter(now, &k[i])
		g.Next(now)
	}
	g.Report(now, time.Time{}, pace.Report{Verdict: pace.Throttled, Crowded: true})
	g.Done(now, &k[0], pace.Report{Verdict: pace.Served})
	g.Enter(now, &k[4])
	if next, again := g.Next(now); next != nil || again != pace.Never {
		t.Errorf("with 3 in flight of 4 that were too many: Next = %v, %v; want none until one ends", next, again)
	}
	g.Done(now, &k[1], pace.Report{Verdict: pace.Served})
	if next, _ := g.Next(now); next != &k[4] {
		t.Error("with 2 in flight none starts")
	}
}
