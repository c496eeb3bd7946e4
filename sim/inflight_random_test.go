package sim

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"
)

// strange draws a server: its speed, width, regularity, pauses and distance.
func strange(seed uint64) trial {
	r := random(seed)
	between := func(low, high float64) float64 { return low * math.Pow(high/low, r.unit()) } // evenly by logarithm
	span := func(low, high time.Duration) time.Duration {
		return time.Duration(between(float64(low), float64(high)))
	}
	c := trial{
		service: Service{
			Time: span(100*time.Microsecond, 100*time.Millisecond), Spread: 0.9 * r.unit(),
			AtOnce: int(between(1, 513)), Queue: -1,
		},
		latency: span(100*time.Microsecond, 20*time.Millisecond),
		seed:    seed,
	}
	if r.unit() < 0.5 {
		c.service.Tail = 0.8 * r.unit()
	}
	if r.unit() < 0.25 {
		c.service.Pause = Pause{Every: span(time.Second, 10*time.Second), Length: span(20*time.Millisecond, 300*time.Millisecond)}
	}
	w := c.service
	c.name = fmt.Sprintf("%d: %v ±%.2f tail %.2f x %d, %v away, pause %v", seed, w.Time, w.Spread, w.Tail, w.AtOnce, c.latency, w.Pause)
	return c
}

// On random servers no other law of how many at once has both 15 % more goodput
// and no longer p99, or half of the p99 at 95 % of the goodput.
func TestInFlightRandomServers(t *testing.T) {
	warm, calls, seeds := int64(5_000), int64(5_000), uint64(4)
	others := []string{"aimd", "vegas", "gradient2", "8", "512"}
	if os.Getenv("THROTTLE_SOAK") != "" {
		warm, calls, seeds = 300_000, 40_000, 100
		others = append(others, "failsafe")
	}
	from := uint64(0)
	if text := os.Getenv("LOAD_FROM"); text != "" { // other seeds
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatalf("LOAD_FROM: %v", err)
		}
		from = n
	}
	for seed := from; seed < from+seeds; seed++ {
		c := strange(seed)
		ours := c.fares(t, "adaptive", warm, calls)
		line := fmt.Sprintf("%s: %.0f/s, p99 %.3g ms", c.name, ours.goodput, ours.p99)
		for _, name := range others {
			f := c.fares(t, name, warm, calls)
			line += fmt.Sprintf("; %s %.2f, %.2f", name, f.goodput/ours.goodput, f.p99/ours.p99)
			if f.goodput > 1.15*ours.goodput && f.p99 <= ours.p99 || f.p99 < ours.p99/2 && f.goodput >= 0.95*ours.goodput {
				t.Errorf("%s is better on %s", name, line)
			}
		}
		t.Log(line)
	}
}
