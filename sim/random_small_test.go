package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// small draws a service at 30 to 80 % of a limit that holds less than 20 requests, or three for
// each of 1 to 60 processes; false if the draw is of none, or of too many calls.
func (d dice) small() (s Scenario, processes int, ok bool) {
	rate, latency := 0.0, 0.0
	rate, processes, latency = d.log(10.0/3600, 200), int(d.log(1, 60)), d.log(1e-3, 3)
	l := d.limit(rate, d.log(1, 60), time.Hour)
	s = d.server(l, latency)
	load, burst := 0.3+0.5*d.Float64(), l.Count
	if l.Kind == limit.TokenBucket {
		burst = l.Burst
	}
	rate = float64(l.Count) / l.Period.Seconds()
	each := load * rate / float64(processes)
	long := max(330/each, 4*l.Period.Seconds())
	s.Clients = []Group{{Processes: processes, Workers: min(200, 8+int(8*each*latency)), Arrivals: each}}
	s.Duration = time.Duration((long + 60) * 1e9)
	return s, processes, l.Count > 0 && burst < int64(max(20, 3*processes)) && long*rate <= 60_000 && latency*each <= 60
}

// TestSmallServicesAtRandom draws services of few calls on small limits, and takes the means over
// them of the share refused and of the wait at p99, the geometric one, once a minute is over.
func TestSmallServicesAtRandom(t *testing.T) {
	p, err := ParsePolicy("adaptive-informed")
	if err != nil {
		t.Fatal(err)
	}
	var n, refused, waits [2]float64 // informed, blind
	for seed := range uint64(700) {
		s, processes, ok := dice{rand.New(rand.NewPCG(seed, 171))}.small()
		if !ok {
			continue
		}
		told := 0
		if !s.informed() {
			told = 1
		}
		wait, share := later(New(s, p, 1), processes)
		n[told]++
		refused[told] += share
		waits[told] += math.Log(wait + 0.1)
	}
	for i, c := range []struct {
		name          string
		refused, wait float64 // at most
	}{{"informed", 0.052, 58}, {"blind", 0.062, 48}} {
		share, wait := refused[i]/n[i], math.Exp(waits[i]/n[i])-0.1
		if t.Logf("%s: %.0f services, %.1f %% refused, %.0f s", c.name, n[i], 100*share, wait); share > c.refused || wait > c.wait {
			t.Errorf("%s: %.1f %% refused, %.0f s; want at most %.1f %% and %.0f s", c.name, 100*share, wait, 100*c.refused, c.wait)
		}
	}
}
