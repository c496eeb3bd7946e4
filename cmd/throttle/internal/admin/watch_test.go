package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/ticks"
	"github.com/throttle-go/throttle/rules"
)

// BenchmarkTick is what a second costs while seven streams are read: 100 rules, each
// with four reasons.
func BenchmarkTick(b *testing.B) {
	var counter admit.Counter
	for i := range 100 {
		for _, reason := range []rules.Reason{rules.Within, rules.Over, rules.Busy, rules.Killed} {
			counter.OnEvent(admit.Event{Answer: rules.Answer{Rule: fmt.Sprint("rule-", i), Reason: reason}})
		}
	}
	s, err := newServer(b.Context(), Config{Counter: &counter, Tokens: tokens}, address("127.0.0.1:1"))
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
