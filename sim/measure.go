package sim

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Result holds the measures of one run. Measures that do not apply are absent.
// Times are in seconds. Rivals and groups with a policy of their own count only
// in Groups and Utilisation.
type Result struct {
	Sent, Served, Throttled int64
	// TimedOut counts the tries that lasted longer than the Timeout of their group.
	TimedOut int64
	// RetryRate is throttled/sent over all workers; RetryRateWorkerMean the
	// unweighted mean of the workers' own.
	RetryRate, RetryRateWorkerMean pace.Opt[float64]
	// MaxSleep is the longest time from when a worker wants to send until it
	// sends.
	MaxSleep pace.Opt[float64]
	// StdevRequests is the sample standard deviation of the workers' requests.
	StdevRequests pace.Opt[float64]
	// Jain is Jain's index of fairness (Jain, Chiu, Hawe 1984) of the served
	// requests per process, of those that never leave, from the last join on.
	Jain, JainWorkers pace.Opt[float64]
	// Utilisation is served/available, over all clients.
	Utilisation pace.Opt[float64]
	// Throughput is the number of requests served a second.
	Throughput pace.Opt[float64]
	// Goodput is the number of calls served in time a second: within the
	// Deadline of their group, or within its Patience. InTime is their share of
	// the calls that are over. Both are absent where no group has either.
	Goodput, InTime pace.Opt[float64]
	// Finish is when the last piece of work was served or the stop came.
	Finish pace.Opt[float64]
	// WaitP50 and WaitP99 are percentiles of the time from when a worker wants
	// to call until its success.
	WaitP50, WaitP99 pace.Opt[float64]
	// LatencyP50 and LatencyP99 are percentiles of the time from when a request
	// is sent until it is served.
	LatencyP50, LatencyP99 pace.Opt[float64]
	// Reconverge is the longest time from a change of capacity to the start of
	// the first 10 s in which 0.95 of it was served.
	Reconverge pace.Opt[float64]
	Groups     []GroupResult
	// Overflow counts the calls that found the queue of their process full.
	Overflow int64
	// Events counts the events simulated; Cut says that the run ended early, by
	// its bound or because it was abandoned.
	Events int64
	Cut    bool
}

// GroupResult is the part of one group.
type GroupResult struct {
	Policy                  string
	Sent, Served, Throttled int64
	Share                   pace.Opt[float64]
}

// jain is (Σx)²/(n Σx²): 1 if all are equal, 1/n if one has everything.
type jain struct{ n, sum, squares float64 }

func (j *jain) add(x float64) {
	j.n, j.sum, j.squares = j.n+1, j.sum+x, j.squares+x*x
}

func (j *jain) index() pace.Opt[float64] {
	if j.squares == 0 {
		return pace.Opt[float64]{}
	}
	return pace.Some(j.sum * j.sum / (j.n * j.squares))
}

// ratio is a/b where b is not zero.
func ratio(a, b float64) pace.Opt[float64] {
	if b == 0 || math.IsInf(b, 0) || math.IsNaN(b) {
		return pace.Opt[float64]{}
	}
	return pace.Some(a / b)
}

// Result returns the measures so far.
func (r *Run) Result() Result {
	res := Result{Overflow: r.overflow, Events: r.events, Cut: !r.done || r.cut}
	var ratios, rated, sum, squares, n float64
	var workers, processes jain
	for i := range r.procs {
		p := &r.procs[i]
		if !r.scenario.Clients[p.group].measured() {
			continue
		}
		var fair int64
		for w := range p.workers {
			w := &p.workers[w]
			res.Sent, res.Served, res.Throttled = res.Sent+w.sent, res.Served+w.served, res.Throttled+w.throttled
			res.TimedOut += w.timeouts
			if w.sent > 0 {
				ratios, rated = ratios+float64(w.throttled)/float64(w.sent), rated+1
			}
			x := float64(w.sent)
			n, sum, squares = n+1, sum+x, squares+x*x
			fair += w.fair
			if p.leave == 0 {
				workers.add(float64(w.fair))
			}
		}
		if p.leave == 0 {
			processes.add(float64(fair))
		}
	}
	res.RetryRate = ratio(float64(res.Throttled), float64(res.Sent))
	res.RetryRateWorkerMean = ratio(ratios, rated)
	if n > 1 {
		res.StdevRequests = pace.Some(math.Sqrt(max(0, squares-sum*sum/n) / (n - 1)))
	}
	res.Jain, res.JainWorkers = processes.index(), workers.index()
	r.times(&res)
	r.groups(&res)
	return res
}

// times fills in the measures of time and capacity.
func (r *Run) times(res *Result) {
	end := time.Duration(r.now)
	if r.finish >= 0 && r.finish <= r.now { // a stop may come after the end
		end = time.Duration(r.finish)
		res.Finish = pace.Some(end.Seconds())
	}
	if res.Sent > 0 {
		res.MaxSleep = pace.Some(time.Duration(r.maxSleep).Seconds())
	}
	res.Throughput = ratio(float64(res.Served), end.Seconds())
	for i := range r.scenario.Clients {
		if g := &r.scenario.Clients[i]; g.measured() && g.inTime() > 0 {
			res.Goodput = ratio(float64(r.good), end.Seconds())
			res.InTime = ratio(float64(r.good), float64(r.ended))
		}
	}
	if r.server.capacity.finite && len(r.server.Gap) == 0 {
		res.Utilisation = ratio(float64(r.server.served), r.server.capacity.available(r.now))
	}
	if r.waits.total > 0 {
		res.WaitP50 = pace.Some(r.waits.quantile(0.5) / 1e9)
		res.WaitP99 = pace.Some(r.waits.quantile(0.99) / 1e9)
	}
	if r.took.total > 0 {
		res.LatencyP50 = pace.Some(r.took.quantile(0.5) / 1e9)
		res.LatencyP99 = pace.Some(r.took.quantile(0.99) / 1e9)
	}
	res.Reconverge = r.back.worst(r.now)
}

func (r *Run) groups(res *Result) {
	var all int64
	for i := range r.scenario.Clients {
		g := GroupResult{Policy: r.policies[i].Name}
		for p := range r.procs {
			if r.procs[p].group != i {
				continue
			}
			for _, w := range r.procs[p].workers {
				g.Sent, g.Served, g.Throttled = g.Sent+w.sent, g.Served+w.served, g.Throttled+w.throttled
			}
		}
		all += g.Served
		res.Groups = append(res.Groups, g)
	}
	for i := range res.Groups {
		res.Groups[i].Share = ratio(float64(res.Groups[i].Served), float64(all))
	}
}

// back measures how long it takes, after each change of capacity, until the
// clients are back at it. It keeps the last 10 s in sliceCount.
type back struct {
	changed int64   // when the capacity changed; -1: never yet
	rate    float64 // the capacity, a second
	open    bool    // not yet converged
	ticks   bool    // slices end, as they do while open
	longest int64
	any     bool

	sliceCount [sliceCount]int64
	at         int
	seen       int64 // served when the last slice ended
}

const (
	slice      = int64(100 * time.Millisecond)
	sliceCount = 100
	near       = 0.95
)

// change begins the time that a change has, and reports whether slices have to
// end from now on.
func (b *back) change(now, served int64, rate float64) (start bool) {
	b.close(now)
	if !b.ticks {
		b.seen, start = served, true
	}
	b.changed, b.rate, b.open, b.any, b.ticks = now, rate, true, true, true
	return start
}

// close ends the time that a change has.
func (b *back) close(now int64) {
	if b.open {
		b.longest = max(b.longest, now-b.changed)
	}
	b.open = false
}

// tick ends a slice, and reports whether there is to be another.
func (b *back) tick(now, served int64) (again bool) {
	b.sliceCount[b.at] = served - b.seen
	b.at, b.seen = (b.at+1)%sliceCount, served
	from := now - sliceCount*slice
	if from < b.changed {
		return true
	}
	var sum int64
	for _, n := range b.sliceCount {
		sum += n
	}
	if float64(sum) >= near*b.rate*float64(sliceCount*slice)/1e9 {
		b.longest = max(b.longest, from-b.changed)
		b.open, b.ticks = false, false
	}
	return b.ticks
}

// worst is the measure, were the run to end now.
func (b *back) worst(now int64) pace.Opt[float64] {
	if !b.any {
		return pace.Opt[float64]{}
	}
	longest := b.longest
	if b.open {
		longest = max(longest, now-b.changed)
	}
	return pace.Some(time.Duration(longest).Seconds())
}
