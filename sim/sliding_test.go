package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// A server with a sliding log serves no more than its count in any period, all
// of it to clients that press, and what it tells is right.
func TestSlidingLogServer(t *testing.T) {
	s, ok := Find("sliding")
	if !ok || s.Server.Limit.Kind != limit.SlidingLog {
		t.Fatalf("Find(sliding) = %+v, %t", s, ok)
	}
	v := newServer(&s, new(random))
	var served []int64
	for now := int64(0); now < int64(time.Minute); now += int64(37 * time.Millisecond) {
		a := ask(v, time.Duration(now))
		at := now / 1000 // the server counts in microseconds
		for len(served) > 0 && served[0]+10_000_000 <= at {
			served = served[1:]
		}
		if full := len(served) == 100; full != (a.Verdict == pace.Throttled) {
			t.Fatalf("at %v: %v with %d served in 10 s", time.Duration(now), a.Verdict, len(served))
		} else if !full {
			served = append(served, at)
		}
		if want := int64(100 - len(served)); a.Remaining.V != want || v.level != want {
			t.Fatalf("at %v: remaining %v, level %d, want %d", time.Duration(now), a.Remaining, v.level, want)
		}
	}
	r := play(t, s, "none", 1)
	if u := r.Utilisation.V; r.Served > 9000 || u < 0.99 || u > 1 {
		t.Errorf("served %d, utilisation %v; want 9000 at most and nearly all", r.Served, u)
	}
}

func TestSlidingLogChanges(t *testing.T) {
	s, _ := Find("sliding")
	s.Server.Changes = []Change{{At: 5 * time.Minute, Count: 0, Period: 10 * time.Second}, {At: 10 * time.Minute, Count: 200, Period: 10 * time.Second}}
	if r := play(t, s, "none", 1); r.Served < 8950 || r.Served > 9000 {
		t.Errorf("served %d, want 30 × 100, nothing, and 30 × 200", r.Served)
	}
	s.Server.Changes[1].Count = limit.MaxLog + 1
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "a sliding log keeps at most 1000000") {
		t.Errorf("Check of a log of %d = %v", limit.MaxLog+1, err)
	}
}

// A log that two quick workers used up at once gives back bit by bit: that the second
// request after a row is refused says nothing against the rate from before.
func TestLogsThatGiveBack(t *testing.T) {
	s := Scenario{
		Name: "log", Duration: 15 * time.Minute,
		Server:  Server{Limit: limit.Limit{Kind: limit.SlidingLog, Count: 2116, Period: time.Minute}},
		Network: Network{Latency: 5 * time.Millisecond},
		Clients: []Group{{Processes: 1, Workers: 2}},
	}
	var used []float64
	for seed := range uint64(20) {
		used = append(used, play(t, s, "adaptive", seed+1).Utilisation.V)
	}
	slices.Sort(used)
	if t.Logf("used to %.2f to %.2f, median %.2f", used[0], used[19], used[10]); used[0] < 0.55 || used[10] < 0.72 {
		t.Errorf("used to %.2f by the worst seed, median %.2f; want 0.55 and 0.72", used[0], used[10])
	}
}

// A caller alone in a log of a second, told what remains and when to come back, spreads what
// came back at once over that time, and holds back no more for it.
func TestLogsToldWhatRemains(t *testing.T) {
	for _, count := range []int64{20, 41, 150} {
		s := Scenario{
			Name: "log", Duration: time.Minute,
			Server:  Server{Limit: limit.Limit{Kind: limit.SlidingLog, Count: count, Period: time.Second}, Hints: Hints{Remaining: true, RetryAfter: true}},
			Network: Network{Latency: 10 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: 1, Workers: 3}},
		}
		var used []float64
		for seed := range uint64(5) {
			used = append(used, play(t, s, "adaptive-informed", seed+1).Utilisation.V)
		}
		slices.Sort(used)
		if t.Logf("%d a second: used to %.2f", count, used[2]); used[0] < 0.75 {
			t.Errorf("%d a second: used to %.2f, want 0.75", count, used)
		}
	}
}
