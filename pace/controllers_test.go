package pace

import (
	"fmt"
	"math"
	"testing"
	"time"
)

type policy struct {
	name string
	make func() Controller
}

// policies are those that others do, with everyday settings.
func policies() []policy {
	return []policy{
		{"backoff", func() Controller { return &Backoff{} }},
		{"backoff, decorrelated", func() Controller { return &Backoff{Jitter: DecorrelatedJitter} }},
		{"fixed", func() Controller { return &Fixed{Rate: 20, Burst: 2} }},
		{"aimd", func() Controller { return &AIMD{Step: 1} }},
		{"autosleeper", func() Controller { return DefaultAutoSleeper() }},
		{"exponential", func() Controller { return &Ruby{} }},
		{"gradual", func() Controller { return &Ruby{Kind: RubyGradual} }},
		{"proportional", func() Controller { return &Ruby{Kind: RubyProportional} }},
		{"remaining", func() Controller { return &Ruby{Kind: RubyRemaining} }},
		{"aws", func() Controller { return &AWS{} }},
		{"adaptive", func() Controller { return &Adaptive{Blind: true} }},
		{"informed", func() Controller { return &Adaptive{} }},
	}
}

// absurd are settings that nobody should use, and must not break anything.
func absurd(v float64, d time.Duration, n int) []Controller {
	return []Controller{
		&Backoff{Base: d, Factor: v, Cap: -d, Jitter: Jitter(n & 7), Spread: v},
		&Backoff{Base: d, Step: d, Cap: d, Tries: n, Jitter: Jitter(n & 7), Spread: v},
		&Fixed{Rate: v, Burst: n},
		&AIMD{Initial: v, Cut: v, Step: v, Min: v, Max: 1 / v},
		&AIMD{Initial: 1 / v, Cut: 1 / v, Step: v},
		&AutoSleeper{
			InitialInterval: d, MaxInterval: d, MaxRandomization: d, UpMultiplier: v,
			DownMultiplier: v, RandomizationFactor: v, DownMultiplierThreshold: n & 3,
		},
		&Adaptive{Probe: d, Blind: n&1 == 0},
		&Ruby{Kind: RubyKind(n & 3), MaxLimit: int64(n), MinSleep: d, Multiplier: v, Initial: d},
	}
}

// guarded checks what every Controller promises.
type guarded struct {
	Controller
	t      testing.TB
	name   string
	flying int
	// the last question for Place 0 since an event, and its answer
	asked Request
	due   time.Time
}

func (g *guarded) Wait(now time.Time, r Request) time.Duration {
	wait := g.Controller.Wait(now, r)
	if r.Place > 0 {
		return wait
	}
	if wait == Never && g.flying == 0 {
		g.t.Errorf("%s: Wait = Never with nothing in flight", g.name)
	}
	if wait > 0 && wait < most {
		if due := now.Add(wait); g.asked == r && !g.due.Equal(due) {
			g.t.Errorf("%s: Wait at %v moved the start by %v", g.name, now, due.Sub(g.due))
		}
		g.asked, g.due = r, now.Add(wait)
	}
	return wait
}

func (g *guarded) Start(now time.Time, r Request) {
	g.flying++
	g.asked = Request{}
	g.Controller.Start(now, r)
}

func (g *guarded) Observe(now time.Time, o Outcome) time.Duration {
	g.flying--
	g.asked = Request{}
	rest := g.Controller.Observe(now, o)
	if rest < 0 {
		g.t.Errorf("%s: Observe(%v) = %v, want 0 at least", g.name, o.Verdict, rest)
	}
	return rest
}

// playScript plays a script of events through a gate and returns what it did.
func playScript(c Controller, script []byte, ask func(g *Gate, now time.Time)) (trace []string) {
	g := &Gate{Control: c, Seed: 1}
	now, tickets := t0, make([]Ticket, 8)
	for i, op := range script {
		ticket := &tickets[op>>2&7]
		switch {
		case ticket.at == outside:
			g.Enter(now, ticket)
		case ticket.at == flying && op>>5 == 7:
			g.Leave(now, ticket)
		case ticket.at == flying:
			r := Report{Verdict: Verdict(op & 3), Hints: Hints{Remaining: Some(int64(op))}}
			g.Done(now, ticket, r)
		case op>>5 == 6:
			g.Leave(now, ticket)
		}
		if op&3 == 3 {
			now = now.Add(time.Duration(op) * time.Duration(i+1) * 100 * time.Microsecond)
		}
		ask(g, now)
		for k, again := g.Next(now); ; k, again = g.Next(now) {
			if k == nil {
				if op == 255 && again < most {
					now = now.Add(again) // whoever is next may go then
				}
				break
			}
			trace = append(trace, fmt.Sprint(now.Sub(t0), k.arrival, k.tries))
		}
	}
	return trace
}

// Asking changes nothing, however often.
func TestWaitOnlyAsks(t *testing.T) {
	var script []byte
	for i := range 600 {
		script = append(script, byte(mix(uint64(i))))
		if i%7 == 0 {
			script = append(script, 255)
		}
	}
	for _, p := range policies() {
		quiet := playScript(&guarded{Controller: p.make(), t: t, name: p.name}, script, func(*Gate, time.Time) {})
		c := &guarded{Controller: p.make(), t: t, name: p.name}
		asked := playScript(c, script, func(g *Gate, now time.Time) {
			for i := range 1000 {
				luck := Luck(i)
				c.Wait(now.Add(-luck.since()), Request{Since: now, Place: i % 5, Try: i % 3, Luck: luck})
			}
		})
		if len(quiet) < 50 {
			t.Errorf("%s: only %d starts, too few to tell", p.name, len(quiet))
		}
		for i := range max(len(quiet), len(asked)) {
			if i >= len(quiet) || i >= len(asked) || quiet[i] != asked[i] {
				t.Errorf("%s: start %d differs when asked 1000 times between events: %d and %d starts", p.name, i, len(quiet), len(asked))
				break
			}
		}
	}
}

// since is some time before now.
func (l Luck) since() time.Duration { return time.Duration(l.Unit(0) * 1e9) }

// A start that never left costs nothing.
func TestUnsentStartIsUndone(t *testing.T) {
	for _, p := range policies() {
		a, b := p.make(), p.make()
		now := t0
		for i := range 300 {
			r := Request{Since: now, Luck: luckOf(2, uint64(i), 0), Cost: 1}
			wait := max(a.Wait(now, r), 0)
			if other := max(b.Wait(now, r), 0); wait-other > 2 || other-wait > 2 {
				t.Fatalf("%s: call %d waits %v after unsent starts, %v without", p.name, i, wait, other)
			}
			now = now.Add(max(wait, max(b.Wait(now, r), 0)))
			if i > 0 {
				a.Start(now, r)
				a.Observe(now, Outcome{Request: r})
			}
			a.Start(now, r)
			b.Start(now, r)
			o := Outcome{Request: r, Sent: now, Report: Report{Verdict: Served}}
			if r.Luck.Unit(5) < 0.2 {
				o.Verdict = Throttled
			}
			now = now.Add(30 * ms)
			if x, y := a.Observe(now, o), b.Observe(now, o); x != y {
				t.Fatalf("%s: call %d rests %v after unsent starts, %v without", p.name, i, x, y)
			}
		}
	}
}

func FuzzControllers(f *testing.F) {
	f.Add(1.5, int64(time.Second), 3, []byte("waits are shared, rests are personal"))
	f.Add(math.NaN(), int64(math.MaxInt64), math.MaxInt, []byte{0, 4, 1, 5, 255, 1, 2, 255, 2, 255, 228, 255})
	f.Add(math.Inf(1), int64(math.MinInt64), math.MinInt, []byte{3, 7, 11, 2, 6, 10, 255, 255, 224, 192})
	f.Add(1e-300, int64(1), 0, []byte{255, 254, 253, 252, 251, 250, 249, 248})
	f.Add(-1e300, int64(-1), -1, []byte{1, 1, 1, 1, 2, 2, 2, 2, 255, 3, 3, 3, 3})
	f.Fuzz(func(t *testing.T, v float64, d int64, n int, script []byte) {
		if len(script) > 2000 {
			return
		}
		all := absurd(v, time.Duration(d), n)
		for _, p := range policies() {
			all = append(all, p.make())
		}
		for _, c := range all {
			g := &guarded{Controller: c, t: t, name: fmt.Sprintf("%T", c)}
			playScript(g, script, func(_ *Gate, now time.Time) {
				last := time.Duration(math.MinInt64)
				for place := 1; place < 5; place++ {
					wait := g.Wait(now, Request{Since: now, Place: place})
					if wait < last {
						t.Errorf("%s: Wait(Place %d) = %v, sooner than %v of the place before", g.name, place, wait, last)
					}
					last = wait
				}
			})
			if g.flying < 0 {
				t.Errorf("%s: more answers than starts", g.name)
			}
		}
	})
}
