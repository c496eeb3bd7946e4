// Package survey draws scenarios at random and judges how a policy does in them:
// whether each cell is held, where a peer does better, and whether more hints do
// harm. A cell is a function of two numbers, a verdict a function of figures.
package survey

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// Mode says how the calls of a cell arrive.
type Mode string

// Modes are equally likely.
const (
	Closed Mode = "closed" // each worker's next at once after the one before
	Open   Mode = "open"   // by themselves
	Job    Mode = "job"    // so many in all
)

// Trouble is a disturbance of a cell.
type Trouble string

// Two cells in three have none; the others are equally likely. A drift is ten
// small steps. Of one process none joins or leaves, and of a job none leaves:
// it has steps instead.
const (
	None   Trouble = "none"
	Steps  Trouble = "steps"
	Drift  Trouble = "drift"
	Outage Trouble = "outage"
	Errors Trouble = "errors"
	Joins  Trouble = "joins"
	Leaves Trouble = "leaves"
)

// Cell is a scenario drawn at random, and the values drawn.
type Cell struct {
	Seed      uint64 // of the survey
	Number    int
	Scenario  sim.Scenario
	Mode      Mode
	Trouble   Trouble
	Rate      float64 // a second, at the start
	Burst     int64   // at once: that of a bucket, the count of a window
	Processes int
	Load      float64 // of Open: calls that arrive / rate
}

// kinds are those of the limits in a survey, equally likely.
var kinds = [...]limit.Kind{limit.TokenBucket, limit.FixedWindow, limit.SlidingLog, limit.SlidingWindow, limit.SlidingSlots, limit.FirstHitWindow, limit.CalendarWindow}

// Bounds of what is drawn, so that a run of a cell takes a fraction of a second.
const (
	leastRate, mostRate = 10.0 / 3600, 5000.0 // a second
	permitsEach         = 100                 // of a process, at least
	mostPermits         = 20_000              // in all, but of the start of a full bucket
	mostFlying          = 2_000               // rate × latency
	mostWorkers         = 200                 // of a process
	windowsEach         = 2.5                 // in a run
)

// drawer makes one cell.
type drawer struct {
	*rand.Rand
	cell    Cell
	seconds float64 // the run, of a job what it would take at least
	workers int
}

// Draw returns the cell of that number of a survey. Rates, bursts, latencies,
// processes and workers are log-uniform; a third of the latencies have a heavy
// tail. A cell that no run of a fraction of a second could show is drawn again:
// with more than 2,000 requests in flight, with windows so large that two and a
// half hold more than 50,000 permits, or one that the simulator refuses.
func Draw(seed uint64, number int) Cell {
	d := drawer{Rand: rand.New(rand.NewPCG(seed, uint64(number)))}
	for !d.draw() || d.cell.Scenario.Check() != nil {
	}
	d.cell.Seed, d.cell.Number = seed, number
	d.cell.Scenario.Name = fmt.Sprintf("cell-%d-%d", seed, number)
	return d.cell
}

// log is a log-uniform draw.
func (d *drawer) log(least, most float64) float64 {
	return least * math.Pow(most/least, d.Float64())
}

// whole is a log-uniform draw of a whole number.
func (d *drawer) whole(least, most float64) int {
	return min(int(d.log(least, most+1)), int(most))
}

func (d *drawer) draw() (ok bool) {
	d.cell = Cell{
		Mode: modes[d.IntN(len(modes))], Trouble: None,
		Rate: d.log(leastRate, mostRate), Processes: d.whole(1, 100),
	}
	if d.IntN(3) == 0 {
		d.cell.Trouble = troubles[1+d.IntN(len(troubles)-1)]
	}
	s := &d.cell.Scenario
	s.Network = sim.Network{Latency: time.Duration(d.log(1e3, 1e7)) * time.Microsecond, Spread: 0.2}
	if d.IntN(3) == 0 {
		s.Network.Tail = math.Round(d.between(0.2, 1)*100) / 100
	}
	s.Server.Hints = sim.Hints{RetryAfter: d.half(), Remaining: d.half(), Reset: d.half(), Policy: d.half()}
	if d.cell.Rate*s.Network.Latency.Seconds() > mostFlying || !d.limit() || !d.clients() {
		return false
	}
	d.trouble()
	s.Duration = duration(d.seconds)
	if d.cell.Mode == Job {
		s.Duration = 10*s.Duration + time.Minute + 60*s.Network.Latency + duration(20/d.cell.Rate)
	}
	return s.Duration < 300*24*time.Hour
}

func (d *drawer) half() bool { return d.IntN(2) == 0 }

// duration is a length as files hold it.
func duration(seconds float64) time.Duration {
	return time.Duration(math.Ceil(seconds*1e3)) * time.Millisecond
}

// limit draws the server's limit, of about the cell's rate.
func (d *drawer) limit() bool {
	c, server := &d.cell, &d.cell.Scenario.Server
	l := limit.Limit{Kind: kinds[d.IntN(len(kinds))]}
	burst := d.log(1, max(1, c.Rate*3600))
	if l.Kind == limit.TokenBucket {
		l.Count, l.Period = rounded(c.Rate)
		l.Burst = int64(math.Round(burst))
		c.Burst = l.Burst
		// A bucket that no run empties is only ever full.
		if d.half() || burst > mostPermits {
			server.Start = pace.Some[int64](0)
		}
	} else {
		l.Period = window(l.Kind, burst/c.Rate)
		l.Count = int64(math.Round(c.Rate * l.Period.Seconds()))
		c.Burst = l.Count
		if l.Count < 1 || windowsEach*float64(l.Count) > windowsEach*mostPermits {
			return false
		}
	}
	c.Rate = float64(l.Count) / l.Period.Seconds()
	server.Limit = l
	return true
}

// window is the usual length nearest to so many seconds.
func window(kind limit.Kind, seconds float64) time.Duration {
	usual := []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
	if kind == limit.CalendarWindow {
		usual = []time.Duration{time.Minute, time.Hour}
	}
	best := usual[0]
	far := func(w time.Duration) float64 { return math.Abs(math.Log(w.Seconds() / seconds)) }
	for _, w := range usual {
		if far(w) < far(best) {
			best = w
		}
	}
	return best
}

// rounded is a rate as a whole number of a usual period.
func rounded(rate float64) (count int64, period time.Duration) {
	for _, period = range []time.Duration{time.Second, time.Minute, time.Hour} {
		if rate*period.Seconds() >= 20 {
			break
		}
	}
	return max(1, int64(math.Round(rate*period.Seconds()))), period
}

// arrivals is a rate with three digits, as files hold it.
func arrivals(rate float64) float64 {
	digits := math.Pow(10, 2-math.Floor(math.Log10(rate)))
	return math.Round(rate*digits) / digits
}
