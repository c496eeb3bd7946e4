package pace_test

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// jar lets a request start when as much as it costs is left; so much comes back a second.
type jar struct {
	left, rate float64
	at         time.Time
}

func (j *jar) Wait(now time.Time, r pace.Request) time.Duration {
	there := j.left + j.rate*now.Sub(j.at).Seconds()
	return time.Duration((float64(r.Cost) - there) / j.rate * 1e9)
}

func (j *jar) Start(now time.Time, r pace.Request) {
	j.left, j.at = j.left+j.rate*now.Sub(j.at).Seconds()-float64(r.Cost), now
}

func (j *jar) Observe(time.Time, pace.Outcome) (rest time.Duration) { return 0 }

// A dear call of one key, or of one lane, whose turn it is is not put off for ever by the cheap ones of
// another that need the same scope. Calls that do not need it go on.
func TestDearCallKeepsItsTurn(t *testing.T) {
	for _, by := range []string{"key", "lane", "scopes"} {
		l := newLaned(t, 1, 1)
		l.gate.Control = nil
		tokens := &pace.Scope{Name: "tokens", Control: &jar{rate: 10, at: l.now}}
		other := &pace.Scope{Name: "other", Control: &jar{rate: 10, at: l.now}}
		enter := func(key string, lane int, needs ...pace.Need) *pace.Ticket {
			k := &pace.Ticket{Key: key, Lane: lane, Needs: needs}
			l.gate.Enter(l.now, k)
			return k
		}
		dear := enter("dear", 0, pace.Need{Scope: tokens, Cost: 100})
		cheap := func() *pace.Ticket {
			switch by {
			case "key":
				return enter("cheap", 0, pace.Need{Scope: tokens, Cost: 10})
			case "lane":
				return enter("", 1, pace.Need{Scope: tokens, Cost: 10})
			}
			return enter("dear", 0, pace.Need{Scope: other}, pace.Need{Scope: tokens, Cost: 10})
		}
		began, free := l.now, enter("free", 0, pace.Need{Scope: other, Cost: 5})
		freed := time.Duration(-1)
		for range 3 {
			cheap()
		}
		for l.now.Sub(began) < time.Minute {
			k, again := l.gate.Next(l.now)
			if k == dear {
				break
			}
			if k == nil {
				l.now = l.now.Add(again)
				continue
			}
			if k == free {
				freed = l.now.Sub(began)
			}
			l.gate.Done(l.now, k, pace.Report{Verdict: pace.Served})
			cheap()
		}
		if got := l.now.Sub(began); got > 13*time.Second {
			t.Errorf("by %s: a call of 100 starts after %v at 10 a second, want 13s at most", by, got)
		}
		if freed < 0 || freed > time.Second {
			t.Errorf("by %s: a call that needs another scope starts after %v, want a second at most", by, freed)
		}
	}
}

// A call that goes ahead, as its caller stops waiting soon, still needs what it costs to be left.
func TestUrgentCallNeedsWhatItCosts(t *testing.T) {
	l := newLaned(t)
	l.gate.Control = nil
	tokens := &pace.Scope{Name: "tokens", Control: &jar{rate: 10, at: l.now}}
	enter := func(cost int64, end time.Time) *pace.Ticket {
		k := &pace.Ticket{Needs: []pace.Need{{Scope: tokens, Cost: cost}}, End: end}
		l.gate.Enter(l.now, k)
		return k
	}
	for range 20 { // which take a second each
		enter(1, time.Time{})
		l.now = l.now.Add(time.Second)
		k, _ := l.gate.Next(l.now)
		l.now = l.now.Add(time.Second)
		l.gate.Done(l.now, k, pace.Report{Verdict: pace.Served})
	}
	first, urgent := enter(10, time.Time{}), enter(100_000, l.now.Add(1500*time.Millisecond))
	if k, _ := l.gate.Next(l.now); k != first || k == urgent {
		t.Errorf("a call of 100,000 starts ahead of one of 10 where less than 500 are left")
	}
}
