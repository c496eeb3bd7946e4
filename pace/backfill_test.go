package pace_test

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// unforeseen lets one go at a time, and does not know when the second one may.
type unforeseen struct{}

func (unforeseen) Wait(_ time.Time, r pace.Request) time.Duration {
	if r.Place > 1 {
		return pace.Never
	}
	return 0
}
func (unforeseen) Start(time.Time, pace.Request)                        {}
func (unforeseen) Observe(time.Time, pace.Outcome) (rest time.Duration) { return 0 }

// While one that needs two scopes waits for the slow one of them, another may take of
// the shared one before it, unless that is known to keep it waiting for longer.
func TestWhoMayGoBeforeOneThatWaits(t *testing.T) {
	full := &pace.Scope{Name: "full", MaxInFlight: 1}
	slow := &pace.Scope{Name: "slow"}
	shared := &pace.Scope{Name: "shared"}
	for _, c := range []struct {
		name   string
		shared pace.Controller
		before []*pace.Scope // of one that came first, and waits for a time that is not known
		waits  []*pace.Scope // of the one that waits
		goes   bool
	}{
		{"open again in time", &pace.Fixed{Rate: 1}, nil, []*pace.Scope{slow, shared}, true},
		{"open again just in time", &pace.Fixed{Rate: 0.5}, nil, []*pace.Scope{slow, shared}, true},
		{"open again too late", &pace.Fixed{Rate: 0.4}, nil, []*pace.Scope{slow, shared}, false},
		{"too late, and others wait", &pace.Fixed{Rate: 0.4}, []*pace.Scope{full}, []*pace.Scope{slow, shared}, false},
		{"open again when is not known", unforeseen{}, nil, []*pace.Scope{slow, shared}, true},
		{"it needs something else", &pace.Fixed{Rate: 0.4}, nil, []*pace.Scope{slow}, true},
		{"for how long it waits is not known", &pace.Fixed{Rate: 0.4}, nil, []*pace.Scope{full, shared}, true},
	} {
		l := newLaned(t)
		l.gate.Control = nil
		enter := func(scopes ...*pace.Scope) *pace.Ticket {
			var needs []pace.Need
			for _, s := range scopes {
				needs = append(needs, pace.Need{Scope: s})
			}
			return l.enterKey("", 1, needs...)[0]
		}
		slow.Control, shared.Control = &pace.Fixed{Rate: 0.5}, c.shared // slow is open again in two seconds
		flying := []*pace.Ticket{enter(full), enter(slow)}
		for range flying {
			l.gate.Next(l.now)
		}
		if c.before != nil {
			enter(c.before...)
		}
		enter(c.waits...)
		next := enter(shared)
		if got, again := l.gate.Next(l.now); (got == next) != c.goes || !c.goes && again != 2*time.Second {
			t.Errorf("%s: who came last starts: %v, or again in %v; want %v", c.name, got == next, again, c.goes)
		}
		l.gate.Leave(l.now, flying[0])
	}
}

// One that came first is not put off for one that came later, and waits for another
// scope too.
func TestNobodyIsPutOffForOneThatCameLater(t *testing.T) {
	slow := pace.Need{Scope: &pace.Scope{Name: "slow", Control: &pace.Fixed{Rate: 0.5}}}
	shared := pace.Need{Scope: &pace.Scope{Name: "shared", Control: &pace.Fixed{Rate: 0.4}}}
	l := newLaned(t)
	l.gate.Control = nil
	l.enterKey("", 1, slow)
	l.gate.Next(l.now)
	before := l.enterKey("", 1, slow, shared)[0] // makes the line of those that need both the first
	next := l.enterKey("", 1, shared)[0]
	l.enterKey("", 1, slow, shared)
	l.gate.Leave(l.now, before)
	if got, again := l.gate.Next(l.now); got != next {
		t.Errorf("Next = %v, %v; want the one that came first", got, again)
	}
}

// Where the one that came first of those that may go would delay one that waits, the
// oldest that would not goes.
func TestTheOldestThatDelaysNoneGoes(t *testing.T) {
	others := []pace.Need{{Scope: &pace.Scope{Name: "a"}}, {Scope: &pace.Scope{Name: "b"}}}
	for _, oldest := range []int{0, 1} { // which are not in the order of their lines
		slow := pace.Need{Scope: &pace.Scope{Name: "slow", Control: &pace.Fixed{Rate: 0.5}}}
		shared := pace.Need{Scope: &pace.Scope{Name: "shared", Control: &pace.Fixed{Rate: 0.4}}}
		l := newLaned(t)
		l.gate.Control = nil
		l.enterKey("", 1, slow)
		l.gate.Next(l.now)
		early := l.enterKey("", 1, others[0])[0] // makes its line the first
		l.enterKey("", 1, slow, shared)
		l.enterKey("", 1, shared)
		want := l.enterKey("", 1, others[oldest])[0]
		l.enterKey("", 1, others[1-oldest])
		l.gate.Leave(l.now, early)
		if got, again := l.gate.Next(l.now); got != want {
			t.Errorf("Next = %v, %v; want the oldest that needs neither", got, again)
		}
	}
}
