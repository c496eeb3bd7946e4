package sim

import (
	"math"
	"sort"
)

// addJob queues a call that came up now, in a ring that grows as needed.
func (p *process) addJob(now int64) {
	if p.queued == len(p.jobs) {
		grown := make([]int64, max(16, 2*len(p.jobs)))
		n := copy(grown, p.jobs[p.first:])
		copy(grown[n:], p.jobs[:p.first])
		p.jobs, p.first = grown, 0
	}
	p.jobs[(p.first+p.queued)%len(p.jobs)] = now
	p.queued++
}

// nextJob takes the call that has queued longest.
func (p *process) nextJob() (came int64) {
	came = p.jobs[p.first]
	p.first, p.queued = (p.first+1)%len(p.jobs), p.queued-1
	return came
}

// job brings up calls in a process.
func (r *Run) job(p *process, id int32) {
	g := &r.scenario.Clients[p.group]
	if p.leave > 0 && r.now >= p.leave {
		return
	}
	r.planJob(p, id)
	if !r.comes(p, g) {
		return
	}
	for range max(g.Batch, 1) {
		if p.queued == maxQueue {
			r.overflow++
			continue
		}
		p.addJob(r.now)
		if n := len(p.idle); n > 0 {
			w := p.idle[n-1]
			p.idle = p.idle[:n-1]
			r.wake(w)
		}
	}
}

// planJob plans when calls come up next in a process. With steps that is when
// they might, at the highest of the rates.
func (r *Run) planJob(p *process, id int32) {
	g := &r.scenario.Clients[p.group]
	at := r.now
	if at < p.join {
		at = p.join
	}
	switch {
	case len(g.Trace) > 0:
		if p.traced < len(g.Trace) {
			r.queue.push(max(int64(g.Trace[p.traced]), at), evJob, id)
			p.traced += g.Processes
		}
	case len(g.Steps) > 0:
		if most := g.mostArrivals(); most > 0 {
			r.queue.push(at+p.gap(most/float64(max(g.Batch, 1))), evJob, id)
		}
	default:
		r.queue.push(at+p.gap(g.Arrivals/float64(max(g.Batch, 1))), evJob, id)
	}
}

func (g *Group) mostArrivals() float64 {
	most := 0.0
	for _, a := range g.Steps {
		most = max(most, a.Rate)
	}
	return most
}

// comes reports whether calls do come up: with steps, of those that might at
// the highest rate as many as the rate of now is of it (thinning, Lewis and
// Shedler 1979).
func (r *Run) comes(p *process, g *Group) bool {
	if len(g.Steps) == 0 {
		return true
	}
	since := r.now
	if g.Repeat > 0 {
		since %= int64(g.Repeat)
	}
	i := sort.Search(len(g.Steps), func(i int) bool { return int64(g.Steps[i].At) > since })
	return p.random.unit()*g.mostArrivals() < g.Steps[i-1].Rate
}

// gap is a draw of the time between two calls that come up by themselves. Each
// process draws its own, so that the same come under every policy.
func (p *process) gap(rate float64) int64 {
	return integer(-math.Log(1-p.random.unit()) / rate * 1e9)
}

// lasts is a draw of how long something takes whose middle is d.
func (r *random) lasts(d, spread, tail float64) float64 {
	d *= 1 + spread*(2*r.unit()-1)
	if tail > 0 {
		d *= math.Exp(tail * r.normal())
	}
	return d
}

// never is an instant that no run comes to: 146 years.
const never = int64(1) << 62

// integer is x without its fraction, or half of never where it is more: a draw may
// be of any size.
func integer(x float64) int64 { return int64(min(x, float64(never/2))) }

// normal is a draw of the standard normal distribution (Box and Muller 1958).
func (r *random) normal() float64 {
	return math.Sqrt(-2*math.Log(1-r.unit())) * math.Cos(2*math.Pi*r.unit())
}
