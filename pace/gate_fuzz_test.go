package pace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzGate drives a gate with random events and holds its promises: every
// Start has exactly one Observe, nobody is lost, the head is never stuck, and
// needless questions change nothing.
func FuzzGate(f *testing.F) {
	f.Add(uint64(1), []byte{0, 0, 1, 2, 0, 3, 4, 1, 1, 2})
	f.Add(uint64(3), []byte(strings.Repeat("\x00\x0a\x0f\x14\x2d\x07\x02\x0c\x16\x03", 40)))
	f.Add(uint64(2), []byte{0, 1, 0, 1, 2, 2, 3, 3, 200, 90, 17, 4})
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		script = script[:min(len(script), 2000)]
		quiet, noisy := drive(t, seed, script, 0), drive(t, seed, script, 3)
		if quiet != noisy {
			t.Errorf("needless questions changed the trace:\n%s\nbecame\n%s", quiet, noisy)
		}
	})
}

// driven is a gate under a script of events.
type driven struct {
	*testing.T
	gate           *Gate
	control        *spaced
	scopes         []*Scope
	now            time.Time
	entered        int
	inside, flying []*Ticket
	trace          []byte
}

func newDriven(t *testing.T, seed uint64) *driven {
	random := rand.New(rand.NewPCG(seed, 1))
	seconds := func(n int) time.Duration { return time.Duration(random.IntN(n)) * second }
	c := &spaced{gap: seconds(3), rest: seconds(3)}
	g := &Gate{Control: c, Tries: random.IntN(4), Seed: seed, MaxWaiting: 50}
	g.Budget.Max = float64(random.IntN(4) - 1)
	g.Lanes = []float64{1, 3, 0.1}[:random.IntN(4)]
	g.MaxInFlight = random.IntN(4)
	return &driven{T: t, gate: g, control: c, now: t0, scopes: []*Scope{
		{Control: &spaced{gap: seconds(4)}},
		{Control: &spaced{gap: seconds(2)}, MaxInFlight: random.IntN(3)},
		{MaxInFlight: 1},
	}}
}

// drive plays a script against a gate and returns what happened; extra
// needless questions are asked after each event.
func drive(t *testing.T, seed uint64, script []byte, extra int) (trace string) {
	d := newDriven(t, seed)
	for _, b := range script {
		d.event(b)
		d.pump()
		for range extra {
			if k, _ := d.gate.Next(d.now); k != nil || d.gate.GivenUp() != nil {
				t.Fatal("a needless question let somebody go")
			}
		}
		d.count()
	}
	for _, k := range d.inside {
		d.gate.Leave(d.now, k)
	}
	d.atEnd()
	return string(d.trace)
}

func (d *driven) event(b byte) {
	switch op := b % 5; {
	case op == 0:
		d.enter(b)
	case op == 1:
		d.now = d.now.Add(time.Duration(b) * 10 * time.Millisecond)
	case op <= 3 && len(d.flying) > 0:
		d.end(b)
	case op == 4 && len(d.inside) > 0:
		k := d.inside[int(b)%len(d.inside)]
		d.forget(k)
		d.gate.Leave(d.now, k)
	}
}

// needs are those of the scopes of which the bit is set.
func (d *driven) needs(b byte) (n []Need) {
	for i, s := range d.scopes {
		if b>>i&1 == 1 {
			n = append(n, Need{Scope: s, Cost: int64(i)})
		}
	}
	return n
}

func (d *driven) enter(b byte) {
	k := &Ticket{
		Owner: d.entered, Lane: d.entered % 4, Cost: int64(b / 64),
		Key: []string{"", "a", "b"}[d.entered%3], Needs: d.needs(b / 5),
	}
	d.entered++
	if b%2 == 1 {
		k.Deadline = d.now.Add(5 * second)
	}
	if b%3 == 1 {
		k.End = d.now.Add(time.Duration(b) * 20 * time.Millisecond)
	}
	if _, ok := d.gate.Enter(d.now, k); ok {
		d.inside = append(d.inside, k)
	}
}

func (d *driven) end(b byte) {
	k := d.flying[int(b)%len(d.flying)]
	for i := range k.Needs {
		if b%7 == byte(i) {
			k.Needs[i].Said = Some(Report{Verdict: Verdict(b / 4 % 4), Crowded: b%2 == 0})
		}
	}
	if b%11 == 0 {
		k.Retry = d.needs(b / 3)
	}
	retry := d.gate.Done(d.now, k, Report{Verdict: Verdict(b / 5 % 4), Crowded: b%3 == 0, TimedOut: b%2 == 0})
	d.forget(k)
	if retry {
		d.inside = append(d.inside, k)
	}
}

func (d *driven) forget(k *Ticket) {
	is := func(x *Ticket) bool { return x == k }
	d.inside, d.flying = slices.DeleteFunc(d.inside, is), slices.DeleteFunc(d.flying, is)
}

func (d *driven) pump() {
	for {
		k, again := d.gate.Next(d.now)
		if k != nil {
			d.flying = append(d.flying, k)
			d.trace = fmt.Appendln(d.trace, "go", k.Owner, d.now.Sub(t0))
			continue
		}
		if k := d.gate.GivenUp(); k != nil {
			d.late(k)
			continue
		}
		if again <= 0 {
			d.Fatalf("Next asks again in %v", again)
		}
		if again == Never && d.gate.Waiting() > 0 && d.gate.InFlight() == 0 {
			d.Fatalf("%d wait, nothing is in flight, and nobody will ask again", d.gate.Waiting())
		}
		return
	}
}

// late is told of a ticket that was given up, of which there must have been a
// reason.
func (d *driven) late(k *Ticket) {
	if k.End.IsZero() || !slices.Contains(d.inside, k) || slices.Contains(d.flying, k) {
		d.Fatalf("%v was given up; want one that waits, with an End", k.Owner)
	}
	d.trace = fmt.Appendln(d.trace, "late", k.Owner, d.now.Sub(t0))
	d.forget(k)
}

func (d *driven) count() {
	g := d.gate
	if g.Waiting()+g.InFlight() != len(d.inside) || g.InFlight() != len(d.flying) || d.control.flying != len(d.flying) {
		d.Fatalf("%d waiting + %d in flight, the controller counts %d; want %d in all, %d in flight",
			g.Waiting(), g.InFlight(), d.control.flying, len(d.inside), len(d.flying))
	}
	if most := g.MaxInFlight; most > 0 && g.InFlight() > most {
		d.Fatalf("%d in flight, want %d at most", g.InFlight(), most)
	}
	var cost int64
	var passed, tried int
	for _, k := range d.inside {
		if k.at == ready {
			cost += max(k.Cost, 1)
			tried += k.triedOnce()
			if k.passed {
				passed++
			}
		}
		if k.at == ready && k.urgent != (k.index[byEnd] < k.line.ends.len() && k.line.ends.t[k.index[byEnd]] == k) {
			d.Fatalf("%v may go ahead: %v; it is among %d by End at %d", k.Owner, k.urgent, k.line.ends.len(), k.index[byEnd])
		}
		if k.at != ready && k.urgent {
			d.Fatalf("%v may go ahead, and is not in line", k.Owner)
		}
	}
	if l := &g.lanes; l.cost != cost || l.passed != passed || l.tried != tried {
		d.Fatalf("those in line cost %d, %d were passed over, %d tried; want %d, %d and %d", l.cost, l.passed, l.tried, cost, passed, tried)
	}
}

func (d *driven) atEnd() {
	for i, s := range d.scopes {
		if s.Waiting() != 0 || s.InFlight() != 0 {
			d.Fatalf("scope %d: %d waiting, %d in flight; want none", i, s.Waiting(), s.InFlight())
		}
		if c, ok := s.Control.(*spaced); ok && c.flying != 0 {
			d.Fatalf("scope %d: %d starts without an end", i, c.flying)
		}
	}
	c := d.control
	if sum := c.ends[0] + c.ends[1] + c.ends[2] + c.ends[3]; sum != c.starts || d.gate.Waiting() != 0 {
		d.Fatalf("%d starts, %d ends, %d left waiting", c.starts, sum, d.gate.Waiting())
	}
}
