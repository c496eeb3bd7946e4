package peers

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/internal/schedule"
)

type policy struct {
	name string
	make func() pace.Controller
}

// policies are those that others do, with everyday settings.
func policies() []policy {
	return []policy{
		{"backoff", func() pace.Controller { return &pace.Backoff{} }},
		{"backoff, decorrelated", func() pace.Controller { return &pace.Backoff{Jitter: pace.DecorrelatedJitter} }},
		{"fixed", func() pace.Controller { return &pace.Fixed{Rate: 20, Burst: 2} }},
		{"aimd", func() pace.Controller { return &AIMD{Step: 1} }},
		{"autosleeper", func() pace.Controller { return DefaultAutoSleeper() }},
		{"exponential", func() pace.Controller { return &Ruby{} }},
		{"gradual", func() pace.Controller { return &Ruby{Kind: RubyGradual} }},
		{"proportional", func() pace.Controller { return &Ruby{Kind: RubyProportional} }},
		{"remaining", func() pace.Controller { return &Ruby{Kind: RubyRemaining} }},
		{"aws", func() pace.Controller { return &AWS{} }},
		{"adaptive", func() pace.Controller { return &pace.Adaptive{Blind: true} }},
		{"informed", func() pace.Controller { return &pace.Adaptive{} }},
	}
}

// absurd are settings that make no sense, and must not break anything.
func absurd(v float64, d time.Duration, n int) []pace.Controller {
	return []pace.Controller{
		&pace.Backoff{Base: d, Factor: v, Cap: -d, Jitter: pace.Jitter(n & 7), Spread: v},
		&pace.Backoff{Base: d, Step: d, Cap: d, Tries: n, Jitter: pace.Jitter(n & 7), Spread: v},
		&pace.Fixed{Rate: v, Burst: n},
		&AIMD{Initial: v, Cut: v, Step: v, Min: v, Max: 1 / v},
		&AIMD{Initial: 1 / v, Cut: 1 / v, Step: v},
		&AutoSleeper{
			InitialInterval: d, MaxInterval: d, MaxRandomization: d, UpMultiplier: v,
			DownMultiplier: v, RandomizationFactor: v, DownMultiplierThreshold: n & 3,
		},
		&pace.Adaptive{Probe: d, Blind: n&1 == 0},
		&Ruby{Kind: RubyKind(n & 3), MaxLimit: int64(n), MinSleep: d, Multiplier: v, Initial: d},
	}
}

// guarded checks what every pace.Controller promises.
type guarded struct {
	pace.Controller
	t      testing.TB
	name   string
	flying int
	// the last question for Place 0 since an event, and its answer
	asked pace.Request
	due   time.Time
}

func (g *guarded) Wait(now time.Time, r pace.Request) time.Duration {
	wait := g.Controller.Wait(now, r)
	if r.Place > 0 {
		return wait
	}
	if wait == pace.Never && g.flying == 0 {
		g.t.Errorf("%s: Wait = pace.Never with nothing in flight", g.name)
	}
	if wait > 0 && wait < schedule.Longest {
		if due := now.Add(wait); g.asked == r && !g.due.Equal(due) {
			g.t.Errorf("%s: Wait at %v moved the start by %v", g.name, now, due.Sub(g.due))
		}
		g.asked, g.due = r, now.Add(wait)
	}
	return wait
}

func (g *guarded) Start(now time.Time, r pace.Request) {
	g.flying++
	g.asked = pace.Request{}
	g.Controller.Start(now, r)
}

func (g *guarded) Observe(now time.Time, o pace.Outcome) time.Duration {
	g.flying--
	g.asked = pace.Request{}
	rest := g.Controller.Observe(now, o)
	if rest < 0 {
		g.t.Errorf("%s: Observe(%v) = %v, want 0 at least", g.name, o.Verdict, rest)
	}
	return rest
}

// Where a ticket of a script is.
const (
	outside = iota
	inLine
	flying
)

// playScript plays a script of events through a gate and returns what it did.
func playScript(c pace.Controller, script []byte, ask func(g *pace.Gate, now time.Time)) (trace []string) {
	g := &pace.Gate{Control: c, Seed: 1}
	now, tickets, place := t0, make([]pace.Ticket, 8), make([]int, 8)
	for i, op := range script {
		n := op >> 2 & 7
		ticket := &tickets[n]
		switch {
		case place[n] == outside:
			ticket.Owner = n
			if _, ok := g.Enter(now, ticket); ok {
				place[n] = inLine
			}
		case place[n] == flying && op>>5 == 7, place[n] == inLine && op>>5 == 6:
			g.Leave(now, ticket)
			place[n] = outside
		case place[n] == flying:
			place[n] = outside
			r := pace.Report{Verdict: pace.Verdict(op & 3), Hints: pace.Hints{Remaining: pace.Some(int64(op))}}
			if g.Done(now, ticket, r) {
				place[n] = inLine
			}
		}
		if op&3 == 3 {
			now = now.Add(time.Duration(op) * time.Duration(i+1) * 100 * time.Microsecond)
		}
		ask(g, now)
		for k, again := g.Next(now); ; k, again = g.Next(now) {
			if k == nil {
				if op == 255 && again < schedule.Longest {
					now = now.Add(again) // the next in line may start then
				}
				break
			}
			place[k.Owner.(byte)] = flying
			trace = append(trace, fmt.Sprint(now.Sub(t0), k.Owner, k.Tries()))
		}
	}
	return trace
}

// Asking changes nothing, however often.
func TestWaitOnlyAsks(t *testing.T) {
	var script []byte
	for i := range 600 {
		script = append(script, byte(256*pace.Luck(i).Unit(0)))
		if i%7 == 0 {
			script = append(script, 255)
		}
	}
	for _, p := range policies() {
		quiet := playScript(&guarded{Controller: p.make(), t: t, name: p.name}, script, func(*pace.Gate, time.Time) {})
		c := &guarded{Controller: p.make(), t: t, name: p.name}
		asked := playScript(c, script, func(g *pace.Gate, now time.Time) {
			for i := range 1000 {
				luck := pace.Luck(i)
				c.Wait(now.Add(-since(luck)), pace.Request{Since: now, Place: i % 5, Try: i % 3, Luck: luck})
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
func since(l pace.Luck) time.Duration { return time.Duration(l.Unit(0) * 1e9) }

// A start that never left costs nothing.
func TestUnsentStartIsUndone(t *testing.T) {
	for _, p := range policies() {
		a, b := p.make(), p.make()
		now := t0
		for i := range 300 {
			r := pace.Request{Since: now, Luck: luckOf(2, uint64(i), 0), Cost: 1}
			wait := max(a.Wait(now, r), 0)
			if other := max(b.Wait(now, r), 0); wait-other > 2 || other-wait > 2 {
				t.Fatalf("%s: call %d waits %v after unsent starts, %v without", p.name, i, wait, other)
			}
			now = now.Add(max(wait, max(b.Wait(now, r), 0)))
			if i > 0 {
				a.Start(now, r)
				a.Observe(now, pace.Outcome{Request: r})
			}
			a.Start(now, r)
			b.Start(now, r)
			o := pace.Outcome{Request: r, Sent: now, Report: pace.Report{Verdict: pace.Served}}
			if r.Luck.Unit(5) < 0.2 {
				o.Verdict = pace.Throttled
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
			playScript(g, script, func(_ *pace.Gate, now time.Time) {
				last := time.Duration(math.MinInt64)
				for place := 1; place < 5; place++ {
					wait := g.Wait(now, pace.Request{Since: now, Place: place})
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
