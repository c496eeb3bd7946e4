package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// served counts what a run under none(in-flight=adaptive) serves between two
// times, how long that took on average, and Jain's index of the groups.
func (c trial) served(t *testing.T, clients []Group, speeds []Speed, from, to time.Duration) (n float64, mean time.Duration, jain float64) {
	t.Helper()
	s := c.scenario()
	s.Duration, s.Server.Service.Speeds = to, speeds
	if clients != nil {
		s.Clients = clients
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	var took time.Duration
	of := make([]float64, len(s.Clients))
	r := New(s, policy(t, "none(in-flight=adaptive)"), c.seed+1)
	r.Watch = func(p Point) {
		if !p.Sent && p.Verdict == pace.Served && p.At >= from {
			n, took = n+1, took+p.Took
			of[p.Group]++
		}
	}
	finish(r)
	squares := 0.0
	for _, x := range of {
		squares += x * x
	}
	return n, time.Duration(float64(took) / max(1, n)), n * n / max(1, squares) / float64(len(of))
}

// A server that becomes slower by itself has no queue, though its latency looks
// like one. The limit is cut as for a queue at first, and must come back soon: of
// what servers can do at 2 to 20 times their latency, nine tenths are done in the
// seconds 1 to 20 after it.
func TestInFlightSlowerServers(t *testing.T) {
	var part, servers float64
	for _, each := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond} {
		for _, width := range []int{2, 5, 16} {
			for _, factor := range []float64{2, 5, 20} {
				var own float64
				for seed := range uint64(4) {
					c := trial{
						name:    fmt.Sprintf("%v x %d", each, width),
						service: Service{Time: each, Spread: 0.2, AtOnce: width, Queue: -1},
						latency: 200 * time.Microsecond, workers: 64, seed: seed,
					}
					at := 20*time.Second + time.Duration(seed)*1300*time.Millisecond
					n, _, _ := c.served(t, nil, []Speed{{at, factor}}, at+time.Second, at+20*time.Second)
					own += n / 19 / (float64(width) / each.Seconds() / factor) / 4
				}
				t.Logf("%v x %d, %v times as slow: %.2f", each, width, factor, own)
				part, servers = part+own, servers+1
			}
		}
	}
	if part /= servers; part < 0.88 {
		t.Errorf("%.3f of what slower servers can do, on average, want at least 0.88", part)
	}
}

// Clients that come while others have a queue measure that queue, and learn the
// latency without it in the probes that all of them make together. A limit that has
// grown beyond what its client wants is not probed: then it stays.
func TestInFlightLateClients(t *testing.T) {
	for _, c := range []struct {
		width, clients, workers int
		most                    float64 // times the latency without a queue
	}{{4, 4, 256, 3}, {16, 4, 256, 3}, {16, 8, 256, 3}, {5, 10, 100, 10}, {16, 10, 100, 4}, {64, 10, 100, 16}} {
		var parts, even float64
		for seed := range uint64(4) {
			k := trial{
				service: Service{Time: 10 * time.Millisecond, Spread: 0.2, AtOnce: c.width, Queue: -1},
				latency: 200 * time.Microsecond, seed: seed,
			}
			var groups []Group
			for i := range c.clients {
				groups = append(groups, Group{Processes: 1, Workers: c.workers, Join: time.Duration(i) * 3 * time.Second})
			}
			n, mean, jain := k.served(t, groups, nil, 60*time.Second, 75*time.Second)
			parts, even = parts+mean.Seconds()/0.0104/4, even+jain/4
			if full := 15 * 100 * float64(c.width); n < 0.95*full {
				t.Errorf("%d clients of %d at once: %.0f served of %.0f, want 95 %%", c.clients, c.width, n, full)
			}
		}
		t.Logf("%d clients of %d at once: %.2f times the latency without a queue, Jain %.2f", c.clients, c.width, parts, even)
		if parts > c.most {
			t.Errorf("%d clients of %d at once: %.2f times the latency without a queue, want at most %v", c.clients, c.width, parts, c.most)
		}
	}
}
