package pace_test

import (
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

// crowd plays calls of 100 ms each, all of which want to go at once, against a
// server that refuses more than most at a time.
type crowd struct {
	gate            pace.Gate
	now             time.Time
	most, inside    int
	served, refused int
	ends            []call
}

type call struct {
	at     time.Time
	ticket *pace.Ticket
	served bool
}

func (c *crowd) run(until time.Duration) {
	end := time.Unix(0, 0).Add(until)
	for {
		for t, _ := c.gate.Next(c.now); t != nil; t, _ = c.gate.Next(c.now) {
			ok := c.inside < c.most
			took := time.Millisecond
			if ok {
				c.inside++
				took = 100 * time.Millisecond
			}
			c.ends = append(c.ends, call{c.now.Add(took), t, ok})
			slices.SortStableFunc(c.ends, func(a, b call) int { return a.at.Compare(b.at) })
		}
		if len(c.ends) == 0 || c.ends[0].at.After(end) {
			c.now = end
			return
		}
		e := c.ends[0]
		c.ends, c.now = c.ends[1:], e.at
		r := pace.Report{Verdict: pace.Throttled, Crowded: true}
		if e.served {
			r = pace.Report{Verdict: pace.Served}
			c.inside--
			c.served++
		} else {
			c.refused++
		}
		if !c.gate.Done(c.now, e.ticket, r) {
			c.gate.Enter(c.now, e.ticket)
		}
	}
}

func newCrowd(n, most int) *crowd {
	c := &crowd{now: time.Unix(0, 0), most: most}
	for range n {
		c.gate.Enter(c.now, new(pace.Ticket))
	}
	return c
}

// Of a limit on what is in flight no more is learnt than that: nearly all of it
// is used, and nearly nothing refused.
func TestCrowdedBoundsWhatIsInFlight(t *testing.T) {
	for _, most := range []int{1, 5, 40} {
		c := newCrowd(100, most)
		control := new(pace.Adaptive)
		c.gate.Control = control
		c.run(time.Minute)
		c.served, c.refused = 0, 0
		c.run(11 * time.Minute)
		all := 10 * 60 * 10 * most // ten minutes of ten a second each
		if c.served < all*98/100 || c.refused > all/200+12 {
			t.Errorf("at most %d at once: served %d of %d, refused %d; want above 98 %%, and below 0.5 %% and one a minute",
				most, c.served, all, c.refused)
		}
		if got := control.Learnt(c.now); got != (pace.Learnt{}) {
			t.Errorf("at most %d at once: the pace was slowed down: %+v", most, got)
		}
	}
}

func TestCrowdedFindsMoreRoom(t *testing.T) {
	c := newCrowd(200, 5)
	c.run(5 * time.Minute)
	c.most = 80
	c.run(6*time.Minute + 15*time.Second) // the longest patience, and a few doublings
	c.served = 0
	c.run(6*time.Minute + 25*time.Second)
	if c.served < 7600 {
		t.Errorf("10 s, 75 s after the limit rose from 5 to 80 at once: served %d of 8000", c.served)
	}
}

func TestMaxInFlight(t *testing.T) {
	c := newCrowd(50, 100)
	c.gate.MaxInFlight = 7
	c.run(time.Second)
	if got := c.gate.InFlight(); got != 7 || c.refused != 0 {
		t.Errorf("MaxInFlight 7: %d in flight, %d refused", got, c.refused)
	}
}

// Where others use up all there is, nobody asks as fast as he is refused.
func TestCrowdedByOthers(t *testing.T) {
	for _, n := range []int{1, 30} {
		c := newCrowd(n, 0)
		c.gate.Control = new(pace.Adaptive)
		for c.now.Before(time.Unix(60, 0)) {
			k, again := c.gate.Next(c.now)
			if k == nil {
				c.now = c.now.Add(again)
				continue
			}
			c.refused++
			c.now = c.now.Add(10 * time.Millisecond)
			c.gate.Done(c.now, k, pace.Report{Verdict: pace.Throttled, Crowded: true})
		}
		if c.refused > 15 {
			t.Errorf("%d callers beside others who use up all: refused %d times in a minute, want 15 at most", n, c.refused)
		}
		// Once there is room and one was served, the pauses are over.
		c.most = 100
		if c.run(3 * time.Minute); c.served < 500 {
			t.Errorf("%d callers: served %d times in 2 minutes with room for all, want 500 and more", n, c.served)
		}
	}
}

// A server that says when to come back is not asked before, by anybody.
func TestCrowdedByOthersWaitsAsTold(t *testing.T) {
	c := newCrowd(2, 0)
	k, _ := c.gate.Next(c.now)
	c.gate.Done(c.now, k, pace.Report{Verdict: pace.Throttled, Crowded: true, After: time.Minute})
	if k, again := c.gate.Next(c.now); k != nil || again != time.Minute {
		t.Errorf("Next lets one go: %t, asks again in %v; want nobody for 1m0s", k != nil, again)
	}
	k = new(pace.Ticket)
	if forecast, _ := c.gate.Enter(c.now, k); forecast != time.Minute || !c.gate.Why(c.now, k).Until.Equal(c.now.Add(time.Minute)) {
		t.Errorf("a newcomer: forecast %v because of %q, want 1m0s, and until when", forecast, c.gate.Why(c.now, k))
	}
}

// A refusal lowers a concurrency limit where nothing paces the call, or where too many
// were in flight; a bound in flight cannot express the rate of a limit that paces.
func TestRefusalTeachesConcurrency(t *testing.T) {
	now := time.Unix(0, 0)
	for _, c := range []struct {
		name  string
		gate  pace.Gate
		k     pace.Ticket
		r     pace.Report
		lower bool
	}{
		{"nothing paces", pace.Gate{}, pace.Ticket{}, pace.Report{Verdict: pace.Throttled}, true},
		{"a Control paces", pace.Gate{Control: new(pace.Fixed)}, pace.Ticket{}, pace.Report{Verdict: pace.Throttled}, false},
		{"a scope paces", pace.Gate{}, pace.Ticket{Needs: []pace.Need{{Scope: new(pace.Scope)}}}, pace.Report{Verdict: pace.Throttled}, false},
		{"another limit refused", pace.Gate{}, pace.Ticket{}, pace.Report{Verdict: pace.Throttled}, false},
		{"too many in flight", pace.Gate{Control: new(pace.Fixed)}, pace.Ticket{}, pace.Report{Verdict: pace.Throttled, Crowded: true}, true},
		{"a failure", pace.Gate{Control: new(pace.Fixed)}, pace.Ticket{}, pace.Report{Verdict: pace.Failed}, true},
		{"ignored", pace.Gate{}, pace.Ticket{}, pace.Report{}, false},
	} {
		law := new(load.AIMD)
		before := law.Limit()
		c.gate.Concurrency = law
		c.gate.Enter(now, &c.k)
		c.gate.Next(now)
		c.k.Elsewhere = c.name == "another limit refused" // which Enter has reset
		c.gate.Done(now.Add(time.Second), &c.k, c.r)
		if got := law.Limit(); (got < before) != c.lower {
			t.Errorf("%s: limit %d after %d; want lower: %t", c.name, got, before, c.lower)
		}
	}
}

// faulty is a concurrency limit that panics.
type faulty struct{}

func (faulty) Limit() int          { return 5 }
func (faulty) Observe(load.Sample) { panic("faulty") }

// A law that panics leaves no place in flight taken, neither of the Gate nor of
// a Scope.
func TestPanicOfConcurrencyFreesPlaces(t *testing.T) {
	now := time.Unix(0, 0)
	scope := pace.Scope{MaxInFlight: 1}
	gate := pace.Gate{Concurrency: faulty{}, Control: new(pace.Adaptive)}
	for i := range 3 {
		k := &pace.Ticket{Needs: []pace.Need{{Scope: &scope}}}
		gate.Enter(now, k)
		if started, _ := gate.Next(now); started != k {
			t.Fatalf("ticket %d does not start: %d in flight in the gate, %d in the scope", i, gate.InFlight(), scope.InFlight())
		}
		now = now.Add(time.Second)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of the law is lost")
				}
			}()
			gate.Done(now, k, pace.Report{Verdict: pace.Served})
		}()
		if gate.InFlight() != 0 || scope.InFlight() != 0 {
			t.Errorf("after the panic, %d in flight in the gate and %d in the scope, want none", gate.InFlight(), scope.InFlight())
		}
	}
}
