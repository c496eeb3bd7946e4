package sim

import (
	"os"
	"testing"
	"time"
)

// tenfold is 200 clients of a server of 20 workers, 1000/s, that refuses what its
// queue has no room for. So many times its capacity arrives; what finds the line
// of its client full is rejected there.
func tenfold(times float64) Scenario {
	const n, capacity = 200, 1000
	return Scenario{
		Name: "tenfold", Duration: 20 * time.Second,
		Server:  Server{Service: Service{Time: 20 * time.Millisecond, Spread: 0.2, AtOnce: 20, Queue: 20}, Hints: Hints{Crowded: true}},
		Network: Network{Latency: 2 * time.Millisecond, Spread: 0.2},
		Clients: []Group{{Processes: n, Workers: 20, Arrivals: times * capacity / n}},
	}
}

// settled measures the second half of a run, in calls a second and in seconds.
func settled(t *testing.T, s Scenario, text string) (served, sent, p99 float64) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	r := New(s, policy(t, text), 1)
	for r.now < int64(s.Duration/2) && !r.Step(1000) {
	}
	from := r.Result()
	r.took = histogram{}
	to := finish(r)
	half := s.Duration.Seconds() / 2
	return float64(to.Served-from.Served) / half, float64(to.Sent-from.Sent) / half, to.LatencyP99.V
}

// Under ten times as many calls as a server has capacity for, clients reject most
// of them themselves: the server does all it can, is offered little more than
// that, and answers nearly as fast as at rest.
func TestTenfoldOverload(t *testing.T) {
	_, _, rest := settled(t, tenfold(0.5), "adaptive")
	for _, text := range []string{"adaptive", "adaptive(in-flight=adaptive)"} {
		served, sent, p99 := settled(t, tenfold(10), text)
		t.Logf("%s: %.0f/s of 1000/s served, %.0f/s offered, p99 %.1f times that at rest", text, served, sent, p99/rest)
		if served < 950 || sent > 2200 || p99 > 2*rest {
			t.Errorf("%s: %.0f/s served, %.0f/s offered, p99 %.2f times that at rest; want 950, at most 2200 and 2", text, served, sent, p99/rest)
		}
	}
	if os.Getenv("THROTTLE_SOAK") == "" {
		return
	}
	_, sent, _ := settled(t, tenfold(10), "backoff-jitter")
	t.Logf("backoff with jitter: %.0f/s offered", sent)
	if sent < 3_000 {
		t.Errorf("backoff with jitter offers %.0f/s, want 3,000/s or more, or this proves nothing", sent)
	}
}
