package sim

import (
	"testing"
	"time"
)

// A service whose failures look like refusals is used where they are few, and refuses
// little more than one whose refusals are sure.
func TestPlainRefusals(t *testing.T) {
	for _, c := range []struct {
		errors, refused, used float64
	}{{0, 0.04, 0.85}, {0.01, 0.05, 0.8}, {0.05, 0.08, 0.3}} {
		r := play(t, Scenario{
			Name: "plain", Duration: 10 * time.Minute,
			Server:  Server{Limit: bucketOf(100, time.Second, 50), Errors: c.errors, Plain: true},
			Network: Network{Latency: 20 * time.Millisecond, Spread: 0.2},
			Clients: []Group{{Processes: 3, Workers: 10}},
		}, "adaptive", 1)
		t.Logf("%.2f fail: %.3f refused, %.2f used", c.errors, r.RetryRate.V, r.Utilisation.V)
		if r.RetryRate.V > c.refused || r.Utilisation.V < c.used {
			t.Errorf("%.2f fail: %.3f refused, %.2f used; want at most %.2f and %.2f or more", c.errors, r.RetryRate.V, r.Utilisation.V, c.refused, c.used)
		}
	}
}
