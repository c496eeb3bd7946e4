package knee

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"
)

// modelOf is the model that a scenario was made of.
func modelOf(t *testing.T, r Result) model {
	s, ok := r.Scenario(r.Knee.At)
	if err := s.Check(); !ok || err != nil {
		t.Fatalf("no scenario: %t, %v", ok, err)
	}
	for _, m := range r.models() {
		if m.workers == s.Server.Service.AtOnce {
			return m
		}
	}
	t.Fatalf("a scenario of no model: %+v", s)
	return model{}
}

// fitted is how far the simulator's curve is from a service's own, as shares, at
// some shares of the knee.
func (c testCase) fitted(t *testing.T, seed uint64) (text string, goodput, mean float64) {
	o := Objective{Latency: c.bound}
	r := find(&Search{Objective: o}, c.service.start(seed))
	m := modelOf(t, r)
	text = fmt.Sprintf("%-42s %2d workers, %6.2f ms, tail %.2f, network %6.2f ms:", c.name, m.workers, 1000*m.work, m.tail, 1000*m.network)
	for _, share := range []float64{0.25, 0.5, 0.75, 0.9} {
		rate := r.Knee.At * share
		own := c.service.start(9).run(Trial{Rate: rate, Duration: duration(20000 / rate), Parts: 1}, o)
		got := m.curve(o, rate, 20000)
		g, l := got.Goodput/(float64(own.Good)/own.Took.Seconds())-1, got.Mean.Seconds()/own.Mean.Seconds()-1
		goodput = max(goodput, math.Abs(g))
		if share <= 0.75 { // closer to the knee the mean is a matter of chance
			mean = max(mean, math.Abs(l))
		}
		text += fmt.Sprintf("  %.2f: %+.1f%% %+.1f%%", share, 100*g, 100*l)
	}
	return text, goodput, mean
}

func TestScenarioHasTheCurve(t *testing.T) {
	few := cases[2:3]
	if os.Getenv("THROTTLE_SOAK") != "" {
		few = cases
	}
	for _, c := range few {
		text, goodput, mean := c.fitted(t, 1)
		t.Log(text)
		most := 0.1
		if c.service.pause > 0 {
			most = 0.15 // the model has none
		}
		if goodput > 0.1 || mean > most {
			t.Errorf("%s: goodput up to %.3f off, mean latency %.3f; want 0.1 and %v", c.name, goodput, mean, most)
		}
	}
}

// TestScenarioQueue: a service that refuses has a queue that ends; timeouts are no
// refusals.
func TestScenarioQueue(t *testing.T) {
	curve := []Point{{Level: 50, Mean: ms(20), P50: ms(20), P99: ms(40), Requests: 1000}, {Level: 200, Mean: ms(300), P99: ms(500), Errors: 0.4}}
	r := Result{Knee: Interval{100, 100, 100}, Curve: curve}
	if got := r.models()[0].queue; got != longQueue {
		t.Errorf("where requests time out the queue is %d, want %d", got, longQueue)
	}
	curve[1].Refused = 0.4
	if got := r.models()[0].queue; got != 50 {
		t.Errorf("where 100 a second are served within 500 ms, and others refused, the queue is %d, want 50", got)
	}
}

func TestScenarioNeedsAKnee(t *testing.T) {
	for _, r := range []Result{{}, {Knee: Interval{1, 1, 1}}, {Knee: Interval{1, 1, 1}, Concurrency: true, Curve: []Point{{Level: 1, Mean: time.Second}}}} {
		if s, ok := r.Scenario(1); ok {
			t.Errorf("%+v has the scenario %+v, want none", r, s)
		}
	}
}
