package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
	"github.com/throttle-go/throttle/rules"
)

// large are rules with 10,000 overrides.
func large(t testing.TB) *rules.Live {
	t.Helper()
	set := rules.Set{Kill: rules.Kill{On: true, Note: rules.Note{Until: time.Now().Add(time.Hour)}}}
	one, err := rules.Parse([]byte(`{"rules": [{"name": "client", "key": "client", "limits": "1/s"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	set.Rules = one.Set().Rules
	for i := range 10_000 {
		set.Rules[0].Overrides = append(set.Rules[0].Overrides, rules.Override{Key: []string{fmt.Sprint("client-", i)}, Limits: set.Rules[0].Limits})
	}
	all, err := rules.Compile(set)
	if err != nil {
		t.Fatal(err)
	}
	live := new(rules.Live)
	live.Swap(all)
	return live
}

// TestTickParsesNoRules: the state of a second, and /api/v1/status, have the kill
// switch without a copy of the rules.
func TestTickParsesNoRules(t *testing.T) {
	s, err := newServer(t.Context(), Config{Rules: large(t), Tokens: tokens}, address("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close(t.Context())
	now := time.Now()
	if n := testing.AllocsPerRun(5, func() {
		if is := s.parts(now); !is.Kill {
			t.Error("the kill switch is off")
		}
	}); n > 100 {
		t.Errorf("%v allocations for a tick, with 10,000 overrides, want a few", n)
	}
	if s.parts(now.Add(2 * time.Hour)).Kill {
		t.Error("the kill switch is on after its end")
	}
}

// BenchmarkTick is what a second costs while seven streams are read: 100 rules, each
// with four reasons, and 10,000 overrides.
func BenchmarkTick(b *testing.B) {
	var counter admit.Counter
	for i := range 100 {
		for _, reason := range []rules.Reason{rules.Within, rules.Over, rules.Busy, rules.Killed} {
			counter.OnEvent(admit.Event{Answer: rules.Answer{Rule: fmt.Sprint("rule-", i), Reason: reason}})
		}
	}
	s, err := newServer(b.Context(), Config{Counter: &counter, Rules: large(b), Tokens: tokens}, address("127.0.0.1:1"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.close(b.Context())
	s.watch.to = map[chan moment]bool{}
	for range 7 {
		s.watch.to[make(chan moment, b.N+1)] = true
	}
	before, from := s.totals(), time.Now()
	for b.Loop() {
		now, to := s.totals(), time.Now()
		t := ticks.Next(before, now, from, to)
		t.State = s.parts(to)
		before, from = now, to
		s.watch.deliver(s.watch.ring.Add(t), to)
	}
}

// TestNobodyWatches: ticks go on for a while after the last watcher has left, and not
// beyond.
func TestNobodyWatches(t *testing.T) {
	var v watch
	at := time.Unix(1e9, 0)
	v.looked = at
	c := make(chan moment, 1)
	v.to = map[chan moment]bool{c: true}
	if !v.deliver(ticks.Tick{ID: 1}, at.Add(2*goOn)) {
		t.Error("while somebody watches the ticks end")
	}
	if v.deliver(ticks.Tick{ID: 2}, at.Add(2*goOn)); len(v.to) != 0 {
		t.Error("a watcher that is too far behind stays")
	}
	if m, ok := <-c; !ok || m.id != 1 {
		t.Errorf("the watcher has tick %d", m.id)
	}
	if _, ok := <-c; ok {
		t.Error("the watcher does not see that it is behind")
	}
	if !v.deliver(ticks.Tick{ID: 3}, at.Add(goOn-1)) || v.deliver(ticks.Tick{ID: 4}, at.Add(goOn)) || v.running {
		t.Error("ticks end before, or after, their time")
	}
}
