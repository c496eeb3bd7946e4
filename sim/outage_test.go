package sim

import (
	"fmt"
	"testing"
	"time"
)

// TestAfterAnOutage: a server that refuses everything for a while has no limit
// that one could learn from that; soon after it the rate is what it was.
func TestAfterAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{5 * time.Second, 2 * time.Minute, 10 * time.Minute} {
		for _, test := range []struct {
			policy string
			most   float64 // seconds
		}{{"adaptive", 170}, {"adaptive-informed", 130}} {
			s := plain("outage", 25*time.Minute, bucketOf(50, time.Second, 50), Group{Processes: 1, Workers: 10})
			s.Server.Changes = []Change{{time.Minute, 0, time.Second}, {time.Minute + outage, 50, time.Second}}
			var times []float64
			for seed := uint64(1); seed <= 5; seed++ {
				times = append(times, play(t, s, test.policy, seed).Reconverge.V)
			}
			t.Logf("%s: back %.0f s after an outage of %v", test.policy, median(times), outage)
			if m := median(times); m > test.most {
				t.Errorf("%s: back after %.0f s (median), want at most %.0f after an outage of %v", test.policy, m, test.most, outage)
			}
		}
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
