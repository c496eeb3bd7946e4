package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// Each process has its part of what there is, at each time. The whole tokens
// of all together are what the server has at the start, not more.
func TestPartsAreOfWhatThereIs(t *testing.T) {
	s := sim.Scenario{
		Server: sim.Server{
			Limit: limit.Limit{Count: 6, Period: time.Second, Burst: 20}, Start: pace.Some[int64](7),
			Changes: []sim.Change{{At: 10 * time.Second, Count: 12, Period: time.Second}},
		},
		Network: sim.Network{Latency: time.Millisecond},
		Clients: []sim.Group{
			{Processes: 3, Workers: 1},
			{Processes: 1, Workers: 1, Join: 5 * time.Second, Leave: 20 * time.Second},
		},
	}
	whole := 0
	for _, b := range parts(s)[0] {
		whole += int(b.Level)
	}
	if whole != 7 {
		t.Errorf("three processes may send %d at once, want the 7 that are there", whole)
	}
	late := parts(s)[1][0]
	if !late.Since.Equal(time.Unix(5, 0)) || late.Level > 0 {
		t.Errorf("the late one begins at %v with %v, want 5 s and nothing", late.Since, late.Level)
	}
	var got []float64
	for _, r := range late.Rates {
		got = append(got, r.From.Sub(time.Unix(0, 0)).Seconds(), r.Second)
	}
	if want := []float64{0, 2, 5, 1.5, 10, 3, 20, 4}; !slices.Equal(got, want) {
		t.Errorf("times and rates %v, want %v", got, want)
	}
}
