package pace

import (
	"testing"
	"time"
)

// A call that failed rests as its Backoff says, never less than the server
// asked for; one that was throttled does not.
func TestGateBacksOff(t *testing.T) {
	b := &Backoff{Base: time.Second}
	for _, c := range []struct {
		reports []Report
		want    time.Duration // the last rest
	}{
		{[]Report{{Verdict: Failed}}, time.Second},
		{[]Report{{Verdict: Failed}, {Verdict: Failed}}, 2 * time.Second},
		{[]Report{{Verdict: Failed, After: time.Minute}}, time.Minute},
		{[]Report{{Verdict: Throttled}}, 0},
		{[]Report{{Verdict: Throttled}, {Verdict: Throttled}, {Verdict: Failed}}, time.Second},
	} {
		g, tk, now := Gate{Backoff: b}, new(Ticket), t0
		g.Enter(now, tk)
		for _, r := range c.reports {
			if started, again := g.Next(now); started == nil {
				now = now.Add(again)
				g.Next(now)
			}
			if !g.Done(now, tk, r) {
				t.Fatalf("%v: given up", c.reports)
			}
		}
		if _, again := g.Next(now); again != c.want && (again != Never || c.want > 0) && tk.Tries() <= len(c.reports) {
			t.Errorf("%v: rests %v, want %v", c.reports, again, c.want)
		}
	}
}

// With all slots at rest nothing starts before the first rest ends, and who has
// rested comes first.
func TestGateCountsResting(t *testing.T) {
	g := Gate{MaxInFlight: 2, CountResting: true, Backoff: &Backoff{Base: time.Second}}
	tickets := make([]Ticket, 3)
	for i := range tickets {
		g.Enter(t0, &tickets[i])
	}
	for i := range 2 {
		if started, _ := g.Next(t0); started != &tickets[i] {
			t.Fatalf("ticket %d did not start", i)
		}
	}
	g.Done(t0, &tickets[0], Report{Verdict: Failed})
	g.Done(t0, &tickets[1], Report{Verdict: Failed})
	if started, again := g.Next(t0); started != nil || again != time.Second {
		t.Fatalf("beside two at rest one starts: %v, or in %v; want none before a second", started != nil, again)
	}
	if w := g.Why(t0, &tickets[2]); w.InFlight != 2 {
		t.Errorf("the third waits for %+v; want 2 in flight", w)
	}
	for i := range 2 {
		if started, _ := g.Next(at(time.Second)); started != &tickets[i] {
			t.Errorf("after the rest ticket %d did not start", i)
		}
	}
	if started, again := g.Next(at(time.Second)); started != nil || again != Never {
		t.Errorf("a third starts beside them: %v, or in %v", started != nil, again)
	}
}

// TestAdaptiveTakesAResetForRetryAfter: a refusal that says when there will be
// more says when to come back; but not where something is left, as then another
// limit refused, nor to one that is blind.
func TestAdaptiveTakesAResetForRetryAfter(t *testing.T) {
	for _, test := range []struct {
		name        string
		blind       bool
		hints       Hints
		least, most time.Duration
	}{
		{"nothing left", false, Hints{Reset: Some(time.Minute), Remaining: Some[int64](0)}, time.Minute, 75 * time.Second},
		{"only a reset", false, Hints{Reset: Some(time.Minute)}, time.Minute, 75 * time.Second},
		{"a reset of a century", false, Hints{Reset: Some(876_000 * time.Hour)}, 24 * time.Hour, 25 * time.Hour},
		{"some left", false, Hints{Reset: Some(time.Minute), Remaining: Some[int64](7)}, 0, 10 * time.Second},
		{"blind", true, Hints{Reset: Some(time.Minute)}, 0, 10 * time.Second},
	} {
		p := &play{t: t, a: &Adaptive{Blind: test.blind}}
		for range 20 {
			p.served()
		}
		p.call(Throttled, test.hints, 0)
		if w := p.served(); w < test.least || w > test.most {
			t.Errorf("%s: waits %v, want %v to %v", test.name, w, test.least, test.most)
		}
	}
}

// A call keeps its slot from try to try whatever its key, its lane and its scopes
// are: no more are begun and unfinished than MaxInFlight, and all come to an end.
func TestGateCountsRetriesInLine(t *testing.T) {
	scope := new(Scope)
	for name, change := range map[string]func(i int, tk *Ticket){
		"plain":  func(int, *Ticket) {},
		"keys":   func(i int, tk *Ticket) { tk.Key = string(rune('a' + i)) },
		"lanes":  func(i int, tk *Ticket) { tk.Lane = i % 2 },
		"scopes": func(i int, tk *Ticket) { tk.Needs = []Need{{Scope: scope}}[:i%2] },
		"ends":   func(i int, tk *Ticket) { tk.End = at(time.Duration(100-i) * time.Second) },
	} {
		for _, b := range []*Backoff{nil, {Base: time.Second}} {
			g := Gate{MaxInFlight: 2, CountResting: true, Backoff: b, Lanes: []float64{1, 10}, Budget: Budget{Max: -1}}
			tickets := make([]Ticket, 20)
			for i := range tickets {
				change(i, &tickets[i])
				g.Enter(t0, &tickets[i])
			}
			now, begun, most, done := t0, 0, 0, 0
			var flying []*Ticket
			for {
				tk, again := g.Next(now)
				switch {
				case tk != nil:
					if flying = append(flying, tk); tk.Tries() == 1 {
						begun++
					}
					most = max(most, begun)
				case len(flying) > 0:
					tk, flying = flying[0], flying[1:]
					if tk.Tries() == 1 && g.Done(now, tk, Report{Verdict: Failed}) {
						continue
					}
					if tk.Tries() > 1 {
						g.Done(now, tk, Report{Verdict: Served})
					}
					begun, done = begun-1, done+1
				case again != Never:
					now = now.Add(again)
					continue
				}
				if tk == nil {
					break
				}
			}
			if most != 2 || done != len(tickets) || g.lanes.tried != 0 {
				t.Errorf("%s, %v: %d begun at once, %d of %d ended, %d retries counted; want 2, all, 0", name, b, most, done, len(tickets), g.lanes.tried)
			}
		}
	}
}
