package scenario

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
	"github.com/throttle-go/throttle/sim/survey"
)

// back is what Parse makes of what Write wrote.
func back(t *testing.T, s sim.Scenario) (sim.Scenario, string) {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, s); err != nil {
		t.Fatal(err)
	}
	got, err := Parse("file.yaml", file.Bytes())
	if err != nil {
		t.Errorf("%v in\n%s", err, file.String())
	}
	return got, file.String()
}

// closeArrivals makes arrivals equal that are so but for their last digits.
func closeArrivals(a, b sim.Scenario) {
	for i := range b.Clients {
		if x, y := a.Clients[i].Arrivals, b.Clients[i].Arrivals; math.Abs(x-y) < 1e-6*x {
			b.Clients[i].Arrivals = x
		}
	}
}

func TestWriteAndParse(t *testing.T) {
	for number := range 300 {
		s := survey.Draw(1, number).Scenario
		got, file := back(t, s)
		closeArrivals(s, got)
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("cell %d is\n%+v, read\n%+v from\n%s", number, s, got, file)
		}
	}
}

func TestWriteEverything(t *testing.T) {
	none, err := sim.ParsePolicy("backoff(factor=2)")
	if err != nil {
		t.Fatal(err)
	}
	s := sim.Scenario{
		Name: "everything", Duration: 90 * time.Second,
		Server: sim.Server{
			Limit: limit.Limit{Count: 7, Period: 1500 * time.Millisecond, Burst: 9}, Start: pace.Some[int64](0),
			Service: sim.Service{Time: 1500 * time.Microsecond, Spread: 0.5, AtOnce: 8, Queue: 1000},
			Hints:   sim.Hints{Remaining: true, RetryAfter: true, Reset: true, Full: true, Policy: true, Share: true}, Errors: 0.25, Down: 0.125,
			Changes: []sim.Change{{At: time.Second, Count: 0, Period: time.Hour, RetryAfter: time.Minute, Down: 0.5}},
		},
		Network: sim.Network{Latency: 1234 * time.Microsecond, Spread: 0.5},
		Stop:    sim.Stop{Remaining: pace.Some[int64](1)},
		Clients: []sim.Group{
			{Processes: 2, Workers: 3, Join: time.Second, Leave: time.Minute, Every: time.Millisecond},
			{Processes: 1, Workers: 1, Rival: true, Policy: &none, Work: 5, Arrivals: 1.5},
			{Processes: 1, Workers: 1, Timeout: time.Second, Patience: 10 * time.Second, Deadline: 250 * time.Millisecond, Retries: -1},
			{Processes: 1, Workers: 1, Retries: 2},
			{Processes: 1, Workers: 1, On: 10 * time.Second, Off: time.Minute},
		},
	}
	got, file := back(t, s)
	if p := got.Clients[1].Policy; p == nil || p.Name != none.Name {
		t.Fatalf("policy %+v, read from\n%s", p, file)
	}
	got.Clients[1].Policy = &none
	if !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, read\n%+v from\n%s", s, got, file)
	}
}
