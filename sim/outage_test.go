package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestAfterAnOutage: a server that refuses everything for a while has no limit
// that one could learn from that; soon after it the rate is what it was.
func TestAfterAnOutage(t *testing.T) {
	for outage, most := range map[time.Duration]float64{5 * time.Second: 20, 2 * time.Minute: 90, 10 * time.Minute: 110} { // seconds
		for _, policy := range []string{"adaptive", "adaptive-informed"} {
			s := plain("outage", 25*time.Minute, bucketOf(50, time.Second, 50), Group{Processes: 1, Workers: 10})
			s.Server.Changes = []Change{{At: time.Minute, Count: 0, Period: time.Second}, {At: time.Minute + outage, Count: 50, Period: time.Second}}
			var times []float64
			for seed := uint64(1); seed <= 3; seed++ {
				times = append(times, play(t, s, policy, seed).Reconverge.V)
			}
			t.Logf("%s: back %.0f s after an outage of %v", policy, median(times), outage)
			if m := median(times); m > most {
				t.Errorf("%s: back after %.0f s (median), want at most %.0f after an outage of %v", policy, m, most, outage)
			}
		}
	}
}

// TestOutageThatSaysWhen: what a server that serves nothing says to wait is
// believed as live clients believe it: a bucket that is never refilled says
// nothing, and what was announced is no reason to stay away for a day.
func TestOutageThatSaysWhen(t *testing.T) {
	for _, test := range []struct {
		says time.Duration
		most float64 // seconds until back
	}{{0, 170}, {20 * time.Second, 130}, {100 * 24 * time.Hour, 3800}} {
		for _, name := range []string{"adaptive", "adaptive-informed", "aws-adaptive"} {
			s := plain("outage", 3*time.Hour, bucketOf(10, time.Second, 10), Group{Processes: 1, Workers: 5})
			s.Server.Hints = Hints{Remaining: true, RetryAfter: true, Reset: true}
			s.Server.Changes = []Change{
				{At: time.Minute, Count: 0, Period: time.Second, RetryAfter: test.says},
				{At: 3 * time.Minute, Count: 10, Period: time.Second},
			}
			if back := play(t, s, name, 1).Reconverge.V; back > test.most {
				t.Errorf("%s is told %v: back after %.0f s, want at most %.0f", name, test.says, back, test.most)
			}
		}
	}
}

// TestOutageStatesNoPolicy: a limit of zero is a bucket of one token in decades,
// and that is no policy to pace by once the outage is over.
func TestOutageStatesNoPolicy(t *testing.T) {
	s := plain("outage", 10*time.Minute, bucketOf(78, time.Minute, 49), Group{Processes: 5, Workers: 16, Work: 118})
	s.Server.Hints = Hints{Remaining: true, Reset: true, Policy: true}
	s.Server.Changes = []Change{{At: 33 * time.Second, Count: 0, Period: time.Minute}, {At: 38 * time.Second, Count: 78, Period: time.Minute}}
	if r := play(t, s, "adaptive-informed", 1); !r.Finish.OK || r.Finish.V > 100 {
		t.Errorf("118 calls were served after %v s, want within 100", r.Finish)
	}
}

// TestTinyBuckets: a bucket of a token or three is never seen fuller than that;
// a client that waited for more would crawl.
func TestTinyBuckets(t *testing.T) {
	for burst, least := range map[int64]float64{1: 0.7, 2: 0.6, 3: 0.7, 5: 0.97} {
		s := plain(fmt.Sprintf("burst-%d", burst), 0, bucketOf(5, time.Second, burst), Group{Processes: 1, Workers: 5, Work: 2000})
		s.Network.Latency = 2 * time.Millisecond
		var used []float64
		for seed := uint64(1); seed <= 5; seed++ {
			used = append(used, play(t, s, "adaptive-informed", seed).Utilisation.V)
		}
		if m := median(used); m < least {
			t.Errorf("%s: utilisation %.3f (median), want at least %.2f", s.Name, m, least)
		}
	}
}

// TestSlowAnswersAfterARefusal: once a Retry-After is over the first answer opens
// the way for all, also where it takes longer than the next probe waits for it.
func TestSlowAnswersAfterARefusal(t *testing.T) {
	for _, name := range []string{"adaptive", "adaptive-informed"} {
		s := plain("slow answers", 15*time.Minute, limit.Limit{Kind: limit.FixedWindow, Count: 600, Period: 5 * time.Minute}, Group{Processes: 1, Workers: 40})
		s.Network.Latency, s.Server.Hints = 8*time.Second, Hints{RetryAfter: true}
		if u := play(t, s, name, 1).Utilisation.V; u < 0.8 {
			t.Errorf("%s: utilisation %.2f, want 0.8 or more", name, u)
		}
	}
}

// TestAWindowThatDoesNotBegin: where the end of a window passes, and answers name
// no other, it is none any more; an outage is not asked five times a second.
func TestAWindowThatDoesNotBegin(t *testing.T) {
	s := plain("no window", 20*time.Minute, limit.Limit{Kind: limit.FixedWindow, Count: 60, Period: time.Minute}, Group{Processes: 1, Workers: 5})
	s.Server.Hints = Hints{Remaining: true, RetryAfter: true, Reset: true}
	s.Server.Changes = []Change{{At: 290 * time.Second, Count: 0, Period: time.Minute}, {At: 890 * time.Second, Count: 60, Period: time.Minute}}
	if r := play(t, s, "adaptive-informed", 1); r.Throttled > 200 || r.Served < 500 {
		t.Errorf("%d throttled in ten minutes, %d served in the other ten, want at most 200 and 500 or more", r.Throttled, r.Served)
	}
}

// TestUsedAfterAnOutageThatSaidWhen: the end that refusals of an outage name is not that of a window,
// as a bucket gives back before the next one would end.
func TestUsedAfterAnOutageThatSaidWhen(t *testing.T) {
	s := plain("outage", 10*time.Minute, bucketOf(20, time.Second, 20), Group{Processes: 2, Workers: 5})
	s.Server.Hints = Hints{Remaining: true, RetryAfter: true}
	s.Server.Changes = []Change{{At: 3 * time.Minute, Count: 0, Period: time.Second, RetryAfter: 30 * time.Second}, {At: 5 * time.Minute, Count: 20, Period: time.Second}}
	for seed := uint64(1); seed <= 3; seed++ {
		if u := play(t, s, "adaptive-informed", seed).Utilisation.V; u < 0.9 {
			t.Errorf("seed %d: %.2f used, want 0.9 or more", seed, u)
		}
	}
}
