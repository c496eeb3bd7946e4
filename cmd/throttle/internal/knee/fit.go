package knee

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

const (
	fitCalls    = 4000 // of each run of the simulator
	fitInFlight = 1000
	fitLevels   = 6  // of the curve that are compared
	fitPools    = 14 // sizes of the pool that are tried
	patience    = 10 * time.Second
	longQueue   = 1_000_000
	p99Sigma    = 2.326 // standard deviations from the median to the 99th percentile
	leastWay    = 10 * time.Microsecond
	// usualTail is that of exponential work. A small pool behind a long network
	// explains idle latency by a heavier one; doubt is what that adds to its
	// distance.
	usualTail = 0.8
	noisy     = 0.9 // of the knee, beyond which latency is a matter of chance
	doubt     = 0.2
)

// A model is a service as the simulator has it.
type model struct {
	workers int
	work    float64 // seconds, the mean
	tail    float64 // sigma of the logarithm
	network float64 // seconds
	queue   int
}

// Scenario returns a scenario in which the simulator's service has the curve that
// was measured, under a load of rate requests a second for a minute, and reports
// whether one fits. The service is a worker pool with one queue: its workers and
// their time are those whose simulated curve is the closest, of up to 14 pools
// that have the measured capacity. It does not become slower under overload, as
// a service that thrashes does, and has no pauses.
func (r Result) Scenario(rate float64) (s sim.Scenario, ok bool) {
	if r.Concurrency || r.Knee.At <= 0 || !(rate > 0) {
		return s, false
	}
	best, least := model{}, math.Inf(1)
	for _, m := range r.models() {
		if d := r.distance(m); d < least {
			best, least = m, d
		}
	}
	if math.IsInf(least, 1) {
		return s, false
	}
	return best.scenario(r.Objective, rate), true
}

// throughput is the most that the service answered a second.
func (r Result) throughput() float64 {
	most := r.Knee.At
	for _, p := range r.Curve {
		most = max(most, p.Served)
	}
	return most
}

// models are the pools that have the measured capacity, and the measured latency
// where nothing queues: what a small pool does not take of it, the network does.
func (r Result) models() (all []model) {
	idle := r.idle()
	if idle.Mean <= 0 {
		return nil
	}
	capacity := r.throughput()
	most := max(1, capacity*idle.Mean.Seconds())
	seen := map[int]bool{}
	for i := range fitPools {
		workers := int(math.Round(math.Pow(most, 1-float64(i)/(fitPools-1))))
		if seen[workers] {
			continue
		}
		seen[workers] = true
		m := model{workers: workers, work: float64(workers) / capacity, queue: r.queue(capacity)}
		m.work = min(m.work, idle.Mean.Seconds())
		m.network = max(idle.Mean.Seconds()-m.work, leastWay.Seconds())
		m.tail = tailOf((idle.P99.Seconds() - m.network) / m.work)
		all = append(all, m)
	}
	return all
}

// tailOf is the sigma of a log-normal distribution whose 99th percentile is so
// many times its mean, at most what the simulator has.
func tailOf(times float64) float64 {
	if !(times > 1) {
		return 0
	}
	return p99Sigma - math.Sqrt(max(p99Sigma*p99Sigma-2*math.Log(times), 0.5))
}

// idle is the point of the curve where nothing queues: of those up to half of the
// knee the one with the most requests, or else the lowest.
func (r Result) idle() (idle Point) {
	most := -1
	for i, p := range r.Curve {
		if n := p.Requests; i == 0 || p.Level <= r.Knee.At/2 && n > most && p.Mean > 0 {
			idle, most = p, n
		}
	}
	return idle
}

// queue is how many requests wait at the service before it refuses. If it does
// not refuse, as many as come.
func (r Result) queue(capacity float64) int {
	for _, p := range slices.Backward(r.Curve) {
		if p.Level > r.Knee.At && p.Refused > 0.01 && p.Mean > 0 {
			return max(1, int(capacity*p.P99.Seconds()))
		}
	}
	return longQueue
}

// levels are those of the curve to compare with: from a quarter of the knee up to
// it, in trials that met the objective.
func (r Result) levels() (points []Point) {
	var all []Point
	for _, p := range r.good {
		if p.Trusted && p.Mean > 0 && p.Level >= r.Knee.At/4 && p.Level <= r.Knee.At {
			all = append(all, p)
		}
	}
	if i := slices.IndexFunc(all, func(p Point) bool { return p.Level > noisy*r.Knee.At }); i >= 2 {
		all = all[:i]
	}
	for i := range min(fitLevels, len(all)) {
		points = append(points, all[len(all)-1-i*len(all)/min(fitLevels, len(all))])
	}
	return points
}

// distance is how far the curve of a model is from what was measured: the mean
// square of the logarithms of the ratios of mean and tail of latency.
func (r Result) distance(m model) float64 {
	sum, n := 0.0, 0.0
	for _, p := range r.levels() {
		got := m.curve(r.Objective, p.Level, fitCalls)
		weight := math.Sqrt(float64(p.Requests))
		for i, pair := range [][2]time.Duration{{got.P50, p.P50}, {got.Mean, p.Mean}, {got.P99, p.P99}} {
			d := math.Log(max(pair[0].Seconds(), 1e-6) / max(pair[1].Seconds(), 1e-6))
			if i == 2 {
				d /= 2 // a quantile of few requests is less sure
			}
			sum, n = sum+weight*d*d, n+weight
		}
	}
	heavy := max(0, m.tail-usualTail)
	return sum/max(n, 1) + doubt*heavy*heavy
}

// scenario is a minute of the model under a load.
func (m model) scenario(o Objective, rate float64) sim.Scenario {
	g := sim.Group{
		Processes: 1, Arrivals: rate, Retries: -1, Patience: patience, Deadline: o.Latency,
		Workers: int(min(max(rate*patience.Seconds(), 64), 20_000)),
	}
	work := m.work / math.Exp(m.tail*m.tail/2) // the median of that mean
	return sim.Scenario{
		Name: fmt.Sprintf("knee-%.0f-a-second", rate), Duration: time.Minute,
		Server: sim.Server{Service: sim.Service{
			Time: max(duration(work), time.Microsecond), Tail: math.Round(m.tail*1000) / 1000,
			AtOnce: m.workers, Queue: m.queue,
		}},
		Network: sim.Network{Latency: max(duration(m.network), leastWay)},
		Clients: []sim.Group{g},
	}
}

// curve is a point of the model's curve, simulated.
func (m model) curve(o Objective, rate float64, calls int) Point {
	s := m.scenario(o, rate)
	s.Duration = duration(float64(calls) / rate)
	s.Clients[0].Workers = min(s.Clients[0].Workers, fitInFlight)
	policy, err := sim.ParsePolicy("none")
	if err != nil || s.Check() != nil {
		return Point{}
	}
	var took []float64
	run := sim.New(s, policy, 1)
	run.Watch = func(p sim.Point) {
		if !p.Sent && p.Took > 0 && p.Verdict == pace.Served {
			took = append(took, p.Took.Seconds())
		}
	}
	for !run.Step(1_000_000) {
	}
	return pointOf(o, rate, s.Duration.Seconds(), took)
}

// pointOf is what latencies in seconds come to.
func pointOf(o Objective, rate, seconds float64, took []float64) Point {
	p := Point{Level: rate, Trials: 1}
	if len(took) == 0 {
		return p
	}
	slices.Sort(took)
	good := len(took)
	if o.Latency > 0 {
		good, _ = slices.BinarySearch(took, o.Latency.Seconds())
	}
	p.Served, p.Goodput = float64(len(took))/seconds, float64(good)/seconds
	p.Mean = duration(mean(took))
	at := func(q float64) time.Duration { return duration(took[int(q*float64(len(took)-1))]) }
	p.P50, p.P90, p.P99 = at(0.5), at(0.9), at(0.99)
	return p
}
