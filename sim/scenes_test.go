package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

func TestScenes(t *testing.T) {
	if os.Getenv("SCENES") == "" {
		t.Skip()
	}
	only := os.Getenv("ONLY")
	base := func(name string, d time.Duration, s Service, clients ...Group) Scenario {
		return Scenario{Name: name, Duration: d, Server: Server{Service: s, Hints: Hints{Crowded: true}},
			Network: Network{Latency: 500 * time.Microsecond, Spread: 0.2}, Clients: clients}
	}
	many := Group{Processes: 1, Workers: 512}
	slowOut := Group{Processes: 1, Workers: 512, Timeout: 600 * time.Millisecond}
	queued := base("500/s queue 600ms", 20*time.Second, Service{}, slowOut)
	queued.Server.Limit = bucketOf(500, time.Second, 1)
	queued.Server.Queue = 1 << 40
	throw := base("500/s throw", 20*time.Second, Service{}, many)
	throw.Server.Limit = limit.Limit{Count: 500, Period: time.Second, Burst: 10}
	ms := time.Millisecond
	rude := policy(t, "none")
	scenes := []Scenario{
		queued, throw,
		base("workers 5x10ms 600ms", 20*time.Second, Service{Time: 10 * ms, Spread: 0.2, AtOnce: 5, Queue: -1}, slowOut),
		base("gc 200ms every 2s", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, Tail: 0.5, AtOnce: 32, Queue: -1, Pause: Pause{2 * time.Second, 200 * ms}}, many),
		base("slow node x10 of 3", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, Tail: 0.5, AtOnce: 48, Queue: -1, Slow: Slow{1. / 3, 10}}, many),
		base("10x slower at 5s, 10x faster at 12", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, AtOnce: 32, Queue: -1, Speeds: []Speed{{5 * time.Second, 10}, {12 * time.Second, 1}}}, many),
		base("2x slower at 5s, 2x at 12", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, AtOnce: 32, Queue: -1, Speeds: []Speed{{5 * time.Second, 2}, {12 * time.Second, 1}}}, many),
		base("100x slower, 600ms out", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, AtOnce: 32, Queue: -1, Speeds: []Speed{{5 * time.Second, 100}, {12 * time.Second, 1}}}, slowOut),
		base("neighbour with 512 from 5 to 12", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, AtOnce: 32, Queue: -1}, many, Group{Processes: 1, Workers: 512, Policy: &rude, Rival: true, Join: 5 * time.Second, Leave: 12 * time.Second}),
		base("refuses at 32+16", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, AtOnce: 32, Queue: 16}, many),
		base("refuses at 32+0", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, AtOnce: 32}, many),
	}
	lossy := base("loss 1 %", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, AtOnce: 32, Queue: -1}, slowOut)
	lossy.Network.Loss = 0.01
	scenes = append(scenes, lossy)
	crowd := base("10 processes", 20*time.Second, Service{Time: 1 * ms, Spread: 0.5, AtOnce: 32, Queue: -1}, Group{Processes: 10, Workers: 100})
	scenes = append(scenes, crowd)
	for _, s := range scenes {
		if !strings.Contains(s.Name, only) {
			continue
		}
		for _, p := range strings.Split(os.Getenv("SCENES"), ";") {
			scene(t, s, p)
		}
	}
}

func scene(t *testing.T, s Scenario, p string) {
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	r := New(s, policy(t, p), 1)
	n := int(s.Duration / time.Second)
	good, bad, lost, limits, lat := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	r.Watch = func(p Point) {
		i := int(p.At / time.Second)
		if p.Sent || p.Group > 0 {
			return
		}
		switch p.Verdict {
		case pace.Served:
			good[i]++
			lat[i] += p.Took.Seconds() * 1e3
		case pace.Throttled:
			bad[i]++
		case pace.Failed:
			lost[i]++
		}
		limits[i] = float64(p.Limit)
	}
	for !r.Step(1e6) {
	}
	res := r.Result()
	fmt.Printf("== %s under %s: %.0f/s p50 %.2f p99 %.2f ms, throttled %d timed out %d, jain %.3f\n", s.Name, p, res.Throughput.V, 1e3*res.LatencyP50.V, 1e3*res.LatencyP99.V, res.Throttled, res.TimedOut, res.Jain.V)
	for i := range lat {
		lat[i] /= max(1, good[i])
	}
	fmt.Printf(" good %.0f\n refused %.0f\n lost %.0f\n limit %.0f\n ms %.1f\n", good, bad, lost, limits, lat)
}
