package survey

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/sim"
)

// clients draws the groups of clients, and how long they call.
func (d *drawer) clients() bool {
	c := &d.cell
	d.workers = d.whole(1, 50)
	work := int64(0)
	if c.Mode == Job {
		work = int64(d.whole(20, 2000))
		c.Processes = min(c.Processes, max(1, int(work/20)))
	}
	each := c.Rate * c.Scenario.Network.Latency.Seconds() / float64(c.Processes) // in flight at the limit
	switch c.Mode {
	case Closed: // more than the limit, or it would not matter
		if need := each * d.log(1.5, 10); float64(d.workers) < 1.5*each {
			d.workers = int(math.Ceil(need))
		}
	case Open:
		c.Load = 0.3 + 0.9*d.Float64()
		d.workers = max(d.workers, int(math.Ceil(2*c.Load*each)))
	}
	if d.workers > mostWorkers {
		return false
	}
	d.seconds = d.length(float64(work))
	g := sim.Group{Processes: c.Processes, Workers: d.workers, Work: work}
	if c.Mode == Open {
		g.Arrivals = arrivals(c.Load * c.Rate / float64(c.Processes))
	}
	c.Scenario.Clients = []sim.Group{g}
	return true
}

// length is how long the run has to be, in seconds.
func (d *drawer) length(work float64) float64 {
	c := &d.cell
	latency := c.Scenario.Network.Latency.Seconds()
	if c.Mode == Job {
		return max(work/c.Rate, work/float64(c.Processes*d.workers)*latency) + 2*latency
	}
	least := float64(permitsEach * c.Processes)
	permits := min(least*d.log(1, 6), max(least, mostPermits))
	long := max(permits/c.Rate, 20*latency)
	if c.Scenario.Server.Limit.Kind != limit.TokenBucket {
		long = max(long, windowsEach*c.Scenario.Server.Limit.Period.Seconds())
	}
	return long
}

// trouble adds what goes on besides.
func (d *drawer) trouble() {
	c := &d.cell
	move := c.Trouble == Joins || c.Trouble == Leaves
	if move && c.Processes == 1 || c.Trouble == Leaves && c.Mode == Job {
		c.Trouble = Steps
	}
	from := d.between(0.2, 0.4)
	switch s := &c.Scenario; c.Trouble {
	case Steps:
		d.change(from, d.log(0.2, 5))
		d.change(d.between(0.6, 0.8), d.log(0.2, 5))
	case Drift:
		for i, to := 1, d.log(0.2, 5); i <= 10; i++ {
			d.change(from+float64(i)*0.04, math.Pow(to, float64(i)/10))
		}
	case Outage:
		d.change(from, 0)
		d.change(from+d.log(0.02, 0.2), 1)
	case Errors:
		s.Server.Errors = math.Round(d.log(0.005, 0.2)*1e3) / 1e3
	case Joins:
		d.join(from)
	case Leaves:
		d.split()
		s.Clients[1].Leave = duration(from * d.seconds)
	}
}

func (d *drawer) between(least, most float64) float64 { return least + (most-least)*d.Float64() }

// change sets the rate to so many times the first at a part of the run.
func (d *drawer) change(part, times float64) {
	server := &d.cell.Scenario.Server
	at := duration(part * d.seconds)
	if n := len(server.Changes); n > 0 { // of a run of a few milliseconds
		at = max(at, server.Changes[n-1].At+time.Millisecond)
	}
	count := int64(math.Round(times * float64(server.Limit.Count)))
	if times > 0 {
		count = max(count, 1)
	}
	server.Changes = append(server.Changes, sim.Change{At: at, Count: count, Period: server.Limit.Period})
}

// join lets half of the processes come later, of a job one after another.
func (d *drawer) join(part float64) {
	c := &d.cell
	if c.Mode == Job {
		c.Scenario.Clients[0].Every = duration(d.seconds / 2 / float64(c.Processes))
		return
	}
	d.split()
	c.Scenario.Clients[1].Join = duration(part * d.seconds)
}

// split makes two groups of the one.
func (d *drawer) split() {
	s := &d.cell.Scenario
	first, second := s.Clients[0], s.Clients[0]
	first.Processes = (d.cell.Processes + 1) / 2
	second.Processes = d.cell.Processes - first.Processes
	s.Clients = []sim.Group{first, second}
}
