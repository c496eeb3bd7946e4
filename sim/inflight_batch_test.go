package sim

import (
	"fmt"
	"testing"
	"time"
)

// batching are servers that do more a second the more is in flight, and take longer
// for each, over a decade and more.
func batching() []trial {
	const ms, us = time.Millisecond, time.Microsecond
	return []trial{
		// As a Cassandra on two cores: 4,300/s with 6 in flight, 9,000/s with 64.
		{name: "node", service: Service{Time: 650 * us, Spread: 0.5, Tail: 0.5, Each: 100 * us}, latency: 100 * us},
		{name: "node with pauses", service: Service{Time: 650 * us, Spread: 0.5, Tail: 0.8, Each: 100 * us, Pause: Pause{Every: 700 * ms, Length: 25 * ms}}, latency: 100 * us},
		{name: "slower node", service: Service{Time: 20 * ms, Spread: 0.5, Tail: 0.5, Each: 3 * ms}, latency: ms},
		{name: "group commit", service: Service{Time: ms, Spread: 0.2, AtOnce: 1, Queue: -1, Each: 50 * us, Batch: 256}, latency: 200 * us},
		{name: "four at once, batches of 16", service: Service{Time: 2 * ms, Spread: 0.2, AtOnce: 4, Queue: -1, Each: 50 * us, Batch: 16}, latency: 500 * us},
	}
}

// Where throughput rises with what is in flight, though ever less, and latency with
// it, Adaptive takes the rise for a queue: it serves at least half of what 64 in
// flight do, and its p99 is hardly longer, on average.
func TestInFlightBatches(t *testing.T) {
	const seeds = 6
	for _, c := range batching() {
		var part, longer float64
		for c.seed = range seeds {
			fixed, ours := c.fares(t, "64", 15_000, 15_000), c.fares(t, "adaptive", 15_000, 15_000)
			part, longer = part+ours.goodput/fixed.goodput/seeds, longer+ours.p99/fixed.p99/seeds
		}
		most := c.fares(t, "512", 15_000, 15_000).goodput / c.fares(t, "64", 15_000, 15_000).goodput
		t.Logf("%s: %.2f of the throughput of 64 in flight, %.2f of that of 512, and %.2f of the p99 of 64", c.name, part, part/most, longer)
		if part < 0.5 || longer > 1.1 {
			t.Errorf("%s: %.2f of the throughput of 64 in flight, %.2f of the p99; want at least half, and at most 1.1", c.name, part, longer)
		}
	}
}

// A Slowdown of 6 gets five sixths of the throughput of such servers.
func TestInFlightSlowdown(t *testing.T) {
	for _, c := range batching() {
		most, ours := c.fares(t, "512", 15_000, 15_000), c.fares(t, "adaptive-6", 15_000, 15_000)
		part, longer := ours.goodput/most.goodput, ours.p99/c.fares(t, "64", 15_000, 15_000).p99
		t.Logf("%s: %.0f/s, p99 %.3g ms; %.3f of fixed 512, and %.2f of the p99 of 64", c.name, ours.goodput, ours.p99, part, longer)
		if part < 5.0/6 || c.service.AtOnce == 0 && longer > 2 {
			t.Errorf("%s: %.3f of the throughput of 512 in flight, %.2f of the p99 of 64; want 0.833, and on a node at most twice that", c.name, part, longer)
		}
	}
}

// Where a Slowdown of 20 would make requests time out, those that do once bound it,
// so that no more is lost.
func TestInFlightSlowdownTimesOut(t *testing.T) {
	for _, workers := range []int{1, 8, 64} {
		c := trial{
			name: fmt.Sprint(workers), workers: 512, latency: time.Millisecond, timeout: 600 * time.Millisecond,
			service: Service{Time: 100 * time.Millisecond, Spread: 0.2, AtOnce: workers, Queue: -1},
		}
		plain, ours := c.fares(t, "adaptive", 3000, 3000), c.fares(t, "adaptive-20", 3000, 3000)
		t.Logf("%s workers: %.1f/s, %.3f timed out for each; without it %.1f/s", c.name, ours.goodput, ours.failed, plain.goodput)
		if ours.goodput < 0.95*plain.goodput || ours.failed > 0.03 {
			t.Errorf("%s workers: %.1f/s, %.3f timed out for each; want at least 95 %% of %.1f/s, at most 0.03", c.name, ours.goodput, ours.failed, plain.goodput)
		}
	}
}

// Where AtOnce is zero, Each makes latency rise in a line with what is in flight:
// n are served in 0.75 ms and n times 0.1 ms.
func TestEachSlowsTheOthers(t *testing.T) {
	c := batching()[0]
	c.service.Spread, c.service.Tail = 0, 0
	for n, want := range map[string]float64{"1": 1 / 0.85e-3, "16": 16 / 2.35e-3, "64": 64 / 7.15e-3} {
		if got := c.fares(t, n, 5000, 5000).goodput; got < 0.97*want || got > 1.03*want {
			t.Errorf("%s in flight: %.0f/s, want %.0f/s", n, got, want)
		}
	}
}

// A worker that becomes free takes all that wait, up to Batch, and is done with all
// at the same time: of 40 in flight without a way, 20 are worked on in 1 ms and 20
// times 0.05 ms.
func TestBatch(t *testing.T) {
	c := trial{name: "batch", service: Service{Time: time.Millisecond, AtOnce: 1, Queue: -1, Each: 50 * time.Microsecond, Batch: 256}, latency: time.Nanosecond}
	for n, want := range map[string]float64{"1": 1 / 1.05e-3, "40": 20 / 2e-3} {
		if got := c.fares(t, n, 5000, 5000).goodput; got < 0.97*want || got > 1.03*want {
			t.Errorf("%s in flight: %.0f/s, want %.0f/s", n, got, want)
		}
	}
	c.service.Batch = 10
	if got, want := c.fares(t, "40", 5000, 5000).goodput, 10/1.5e-3; got < 0.97*want || got > 1.03*want {
		t.Errorf("batches of 10: %.0f/s, want %.0f/s", got, want)
	}
	bad := Service{Time: time.Millisecond, Batch: 2}
	if bad.check() == nil {
		t.Error("batches without a bound on how many at once: want an error")
	}
}
