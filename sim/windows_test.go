package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Several clients use up a fixed window without being refused at its end, and with even
// shares, whatever it is told by. Before, a window of a minute that was used up within
// three seconds was never known for one, one that answers of eight seconds told of
// neither, and the client that came back first took it; a refusal at the end of each window was
// taken for a sign that others do not yield; windows longer than an hour were tried every
// hour; and a Retry-After did not tell their end.
func TestSharedWindows(t *testing.T) {
	all := Hints{Remaining: true, RetryAfter: true, Reset: true}
	after := Hints{Remaining: true, RetryAfter: true, Policy: true}
	only := Hints{Remaining: true, RetryAfter: true}
	for _, c := range []struct {
		name               string
		limit              limit.Limit
		hints              Hints
		latency            time.Duration
		processes, workers int
		windows            int
		throttled, jain    float64
		used               float64
	}{
		{"much at once", limit.Limit{Kind: limit.FixedWindow, Count: 432, Period: time.Minute}, all, 210 * time.Millisecond, 7, 20, 5, 0.02, 0.97, 0.97},
		{"many at once", limit.Limit{Kind: limit.CalendarWindow, Count: 5222, Period: time.Minute}, all, 46 * time.Millisecond, 80, 19, 5, 0.02, 0.85, 0.97},
		{"one refusal a window", limit.Limit{Kind: limit.CalendarWindow, Count: 406, Period: time.Hour}, all, 157 * time.Millisecond, 23, 1, 7, 0.05, 0.97, 0.97},
		{"slow answers", limit.Limit{Kind: limit.FixedWindow, Count: 673, Period: 10 * time.Minute}, all, 8 * time.Second, 17, 16, 9, 0.03, 0.93, 0.93},
		{"few for each", limit.Limit{Kind: limit.FixedWindow, Count: 155, Period: 10 * time.Second}, all, 180 * time.Millisecond, 24, 1, 30, 0.05, 0.92, 0.97},
		{"first hit", limit.Limit{Kind: limit.FirstHitWindow, Count: 494, Period: time.Hour}, all, 120 * time.Millisecond, 13, 23, 6, 0.02, 0.97, 0.97},
		{"no reset", limit.Limit{Kind: limit.CalendarWindow, Count: 286, Period: time.Minute}, after, 395 * time.Millisecond, 41, 1, 30, 0.02, 0.9, 0.91},
		{"no reset, many", limit.Limit{Kind: limit.FixedWindow, Count: 648, Period: time.Minute}, after, 166 * time.Millisecond, 20, 2, 20, 0.02, 0.9, 0.93},
		{"neither reset nor policy", limit.Limit{Kind: limit.FixedWindow, Count: 170, Period: 40 * time.Minute}, only, time.Millisecond, 22, 5, 20, 0.03, 0.95, 0.97},
		{"a day", limit.Limit{Kind: limit.FixedWindow, Count: 51, Period: 7 * time.Hour}, all, 50 * time.Millisecond, 4, 1, 23, 0.03, 0.97, 0.97},
		{"no reset, first hit", limit.Limit{Kind: limit.FirstHitWindow, Count: 26, Period: 10 * time.Minute}, after, 1300 * time.Millisecond, 2, 6, 26, 0.06, 0.95, 0.93},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Scenario{
				Name: c.name, Duration: time.Duration(c.windows)*c.limit.Period - c.limit.Period/50,
				Server: Server{Limit: c.limit, Hints: c.hints}, Network: Network{Latency: c.latency, Spread: 0.2},
				Clients: []Group{{Processes: c.processes, Workers: c.workers}},
			}
			p, err := ParsePolicy("adaptive-informed")
			if err != nil {
				t.Fatal(err)
			}
			r := runAll(s, p, 3)
			t.Logf("%.2f %% refused, Jain %.3f, used %.3f", 100*r.RetryRate.V, r.Jain.V, r.Utilisation.V)
			if r.RetryRate.V > c.throttled || r.Jain.V < c.jain || r.Utilisation.V < c.used {
				t.Errorf("%.2f %% refused, Jain %.3f, used %.3f; want at most %g %%, at least %g and %g",
					100*r.RetryRate.V, r.Jain.V, r.Utilisation.V, 100*c.throttled, c.jain, c.used)
			}
		})
	}
}

// TestWindowsAtRandom draws fixed windows that clients share and that they are told the
// rest and the end of. In 52 of 60 at least, at most 5 % is refused, Jain's index is at
// least 0.95, and at least 0.95 of the limit is used.
func TestWindowsAtRandom(t *testing.T) {
	p, err := ParsePolicy("adaptive-informed")
	if err != nil {
		t.Fatal(err)
	}
	hints := []Hints{
		{Remaining: true, Reset: true},
		{Remaining: true, Reset: true, RetryAfter: true},
		{Remaining: true, Reset: true, Policy: true},
		{Remaining: true, Reset: true, RetryAfter: true, Policy: true},
		{Remaining: true, RetryAfter: true, Policy: true},
		{Remaining: true, RetryAfter: true},
	}
	drawn, held := 0, 0
	for seed := uint64(1); drawn < 60; seed++ {
		s := windowAtRandom(rand.New(rand.NewPCG(seed, 5)))
		demand := float64(s.Clients[0].Workers*s.Clients[0].Processes) / s.Network.Latency.Seconds()
		if limit := s.Server.Limit; demand*limit.Period.Seconds() < 1.5*float64(limit.Count) {
			continue
		}
		s.Server.Hints = hints[drawn%len(hints)]
		drawn++
		r := runAll(s, p, 1)
		if r.RetryRate.V <= 0.05 && r.Jain.V >= 0.95 && r.Utilisation.V >= 0.95 {
			held++
			continue
		}
		t.Logf("seed %d: %v, %d×%d workers, latency %v, told %+v: %.1f %% refused, Jain %.3f, used %.3f", seed, s.Server.Limit, s.Clients[0].Processes,
			s.Clients[0].Workers, s.Network.Latency, s.Server.Hints, 100*r.RetryRate.V, r.Jain.V, r.Utilisation.V)
	}
	if t.Logf("%d of %d held", held, drawn); held < 52 {
		t.Errorf("%d of %d held, want 52", held, drawn)
	}
}

// windowAtRandom draws a window of ten seconds to a day, of which each of 2 to 50 clients
// has 5 to 100 requests, and lasts for 150 of them.
func windowAtRandom(r *rand.Rand) Scenario {
	log := func(least, most float64) float64 { return least * math.Pow(most/least, r.Float64()) }
	l := limit.Limit{Kind: []limit.Kind{limit.FixedWindow, limit.CalendarWindow, limit.FirstHitWindow}[r.IntN(3)]}
	l.Period = time.Duration(log(10, 86400)) * time.Second
	if l.Kind == limit.CalendarWindow {
		l.Period = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}[r.IntN(3)]
	}
	processes, each := int(log(2, 50)), log(5, 100)
	l.Count = int64(each * float64(processes))
	return Scenario{
		Name: "window", Duration: time.Duration(max(4, 150/each))*l.Period - l.Period/50, Server: Server{Limit: l},
		Network: Network{Latency: time.Duration(log(1e6, min(l.Period.Seconds()/50, 5)*1e9)), Spread: 0.2},
		Clients: []Group{{Processes: processes, Workers: int(log(1, 20))}},
	}
}

// A service that has a fixed window to itself, and hears what remains and nothing else, keeps
// little of it free: what it keeps is lost in each window, and left to nobody. Before, 19 of 24 that
// needed 0.6 to 0.8 of a window, drawn at random, waited longer and longer. One still does for a while.
func TestServiceAloneInWindows(t *testing.T) {
	long := 0
	random := rand.New(rand.NewPCG(7, 1))
	for range 24 {
		count := int64(100 * math.Pow(6, random.Float64()))
		period := []time.Duration{time.Second, 10 * time.Second}[random.IntN(2)]
		load := 0.6 + 0.2*random.Float64()
		s := Scenario{
			Name: "alone", Duration: max(60*period, 3*time.Minute),
			Server:  Server{Limit: limit.Limit{Kind: limit.FixedWindow, Count: count, Period: period}, Hints: Hints{Remaining: true}},
			Network: Network{Latency: time.Duration(1+random.IntN(60)) * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: 1, Workers: 200, Arrivals: load * float64(count) / period.Seconds()}},
		}
		r := play(t, s, "adaptive-informed", 1)
		t.Logf("%d in %v, needs %.2f, %v away: %d refused of %d, p99 of waits %.2f s", count, period, load, s.Network.Latency, r.Throttled, r.Sent, r.WaitP99.V)
		if r.WaitP99.V > period.Seconds() {
			long++
		}
		if float64(r.Throttled) > 0.01*float64(r.Sent) {
			t.Errorf("%d in %v, needs %.2f: %d refused of %d; want at most a hundredth", count, period, load, r.Throttled, r.Sent)
		}
	}
	if long > 1 {
		t.Errorf("%d of 24 services wait longer than a window; want one at most", long)
	}
}

// TestLeapsBetweenSlowAnswers has clients share a bucket that fills in the time of one answer. What remains
// leaps from answer to answer, as where a window ends, but none of them may take that for a window that it has
// for itself: it would keep little free, and have most of the bucket.
func TestLeapsBetweenSlowAnswers(t *testing.T) {
	var fair []float64
	for seed := range uint64(9) {
		fair = append(fair, play(t, builtin(t, "far"), "adaptive-informed", seed+1).Jain.V)
	}
	if t.Logf("Jain's index %.2f", fair); slices.Min(fair) < 0.9 {
		t.Errorf("Jain's index %.2f, want at least 0.9 each", fair)
	}
}

// TestWindowsThatRefusalsName: where only refusals say when a window ends, and none says how long it
// is, the distance of two ends does. The Retry-After of one in the middle of a window is half of it.
func TestWindowsThatRefusalsName(t *testing.T) {
	for _, count := range []int64{30, 100} {
		s := plain("named", 2*time.Hour, limit.Limit{Kind: limit.FixedWindow, Count: count, Period: 100 * time.Second}, Group{Processes: 1, Workers: 3})
		s.Server.Hints = Hints{Remaining: true, RetryAfter: true}
		if r := play(t, s, "adaptive-informed", 1); r.Throttled > 10 || r.Utilisation.V < 0.95 {
			t.Errorf("%v: %d refused, %.2f used, want at most 10 and 0.95 or more", s.Server.Limit, r.Throttled, r.Utilisation.V)
		}
	}
}
