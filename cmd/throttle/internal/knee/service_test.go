package knee

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// service is a simulated worker pool with one queue, first come, first served. It
// does the work for callers that have gone, as most do.
type service struct {
	workers int
	work    float64 // seconds, the mean of one request
	spread  float64 // sigma of a log-normal; below zero: exponential; 0: constant
	network float64 // seconds on the way, there and back
	queue   int     // how many wait; beyond, refused. If zero, 1,000,000
	// grow makes work slower with load: by so much when all workers are busy.
	grow float64
	// With more than thrashAt in the queue, work takes thrash times as long: caches
	// miss, locks are contended, retries come.
	thrashAt          int
	thrash            float64
	pause, pauseEvery float64 // seconds
	timeout           float64 // of callers; if zero, 5 s

	random  *rand.Rand
	now     float64
	line    []*call
	running doneHeap
}

type call struct {
	due, done float64 // done zero: not yet
	refused   bool
}

type doneHeap []running

type running struct {
	at float64
	c  *call
}

func (h doneHeap) Len() int           { return len(h) }
func (h doneHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h doneHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *doneHeap) Push(x any)        { *h = append(*h, x.(running)) }
func (h *doneHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (v service) start(seed uint64) *service {
	v.random = rand.New(rand.NewPCG(seed, 1))
	if v.queue == 0 {
		v.queue = 1_000_000
	}
	if v.timeout == 0 {
		v.timeout = 5
	}
	v.now = v.random.Float64() * max(v.pauseEvery, 1)
	return &v
}

// takes is how long the work on the next request takes.
func (v *service) takes() float64 {
	w := v.work
	switch {
	case v.spread < 0:
		w *= v.random.ExpFloat64()
	case v.spread > 0:
		w *= math.Exp(v.spread*v.random.NormFloat64() - v.spread*v.spread/2)
	}
	busy := float64(len(v.running)) / float64(v.workers)
	w *= 1 + v.grow*busy*busy
	if v.thrashAt > 0 && len(v.line) > v.thrashAt {
		w *= v.thrash
	}
	return w
}

// ends is when work that begins now ends, as it stands still in pauses.
func (v *service) ends(work float64) float64 {
	at := v.now
	for v.pause > 0 {
		start := math.Floor(at/v.pauseEvery) * v.pauseEvery // of the pause in this period
		if at < start+v.pause {
			at = start + v.pause
		}
		next := start + v.pauseEvery
		if at+work <= next {
			break
		}
		work -= next - at
		at = next
	}
	return at + work
}

// begin puts workers to work.
func (v *service) begin() {
	for len(v.running) < v.workers && len(v.line) > 0 {
		c := v.line[0]
		v.line = v.line[1:]
		heap.Push(&v.running, running{v.ends(v.takes()), c})
	}
}

// until plays until a time.
func (v *service) until(at float64, done func(*call)) {
	for len(v.running) > 0 && v.running[0].at <= at {
		r := heap.Pop(&v.running).(running)
		v.now = r.at
		r.c.done = r.at + v.network
		if done != nil {
			done(r.c)
		}
		v.begin()
	}
	v.now = max(v.now, at)
}

func (v *service) arrive(c *call) {
	if len(v.line) >= v.queue {
		c.done, c.refused = v.now+v.network, true
		return
	}
	v.line = append(v.line, c)
	v.begin()
}

// sample is what became of a request of a trial.
type sample struct {
	due, took float64
	kind      byte // g, s, f, r
}

func (v *service) sample(c *call, from float64, o Objective) sample {
	s := sample{due: c.due - from, took: c.done - c.due, kind: 'g'}
	switch {
	case c.refused:
		s.kind = 'r'
	case c.done == 0 || s.took > v.timeout:
		s.took, s.kind = v.timeout, 'f'
	case o.Latency > 0 && s.took > o.Latency.Seconds():
		s.kind = 's'
	}
	return s
}

// run runs a trial as a load generator would.
func (v *service) run(t Trial, o Objective) Outcome {
	started := v.now
	v.until(v.now+t.Rest.Seconds(), nil)
	from := v.now
	var calls []*call
	var took float64
	if t.Concurrency > 0 {
		calls, took = v.closed(t, from, o)
	} else {
		calls, took = v.open(t, from, o)
	}
	last := from + took
	for _, c := range calls { // the drain
		if c.done == 0 {
			v.until(max(v.now, min(last+v.timeout, v.now+0.01)), nil)
			for c.done == 0 && v.now < c.due+v.timeout {
				v.until(v.now+0.01, nil)
			}
		}
	}
	samples := make([]sample, len(calls))
	for i, c := range calls {
		samples[i] = v.sample(c, from, o)
	}
	out := outcome(t, samples, took)
	out.Elapsed = duration(v.now - started)
	return out
}

// open sends as a Poisson process.
func (v *service) open(t Trial, from float64, o Objective) (calls []*call, took float64) {
	first, all := t.Duration.Seconds(), (t.Duration + t.ThenFor).Seconds()
	bad, failed, lastBad, judged := 0, 0, 0.0, 0
	for at := 0.0; ; {
		rate := t.Rate
		if at >= first {
			rate = t.Then
		}
		if rate <= 0 {
			return calls, min(at, all)
		}
		next := at + v.random.ExpFloat64()/rate
		if at < first && next > first {
			if at = first; t.Then > 0 {
				continue
			}
			return calls, first
		}
		if at = next; at > all {
			return calls, all
		}
		v.until(from+at, nil)
		for ; judged < len(calls) && (calls[judged].done > 0 && calls[judged].done <= v.now || v.now > calls[judged].due+v.timeout); judged++ {
			kind := v.sample(calls[judged], from, o).kind
			if kind != 'g' {
				bad++
				lastBad = at
			}
			if kind == 'f' || kind == 'r' {
				failed++
			}
		}
		if len(calls) >= t.MostSent && t.MostSent > 0 || t.MostBad > 0 && bad >= t.MostBad || t.MostFailed > 0 && failed >= t.MostFailed || t.Calm > 0 && at-max(lastBad, first) > t.Calm.Seconds() {
			return calls, at
		}
		c := &call{due: from + at}
		calls = append(calls, c)
		v.arrive(c)
	}
}

// closed keeps requests in flight. Then does the same at its level.
func (v *service) closed(t Trial, from float64, o Objective) (calls []*call, took float64) {
	end := from + (t.Duration + t.ThenFor).Seconds()
	level := func() int {
		if v.now-from >= t.Duration.Seconds() {
			return int(t.Then)
		}
		return t.Concurrency
	}
	out, bad, failed := 0, 0, 0
	more := func() bool {
		return v.now < end && (t.MostBad == 0 || bad < t.MostBad) && (t.MostFailed == 0 || failed < t.MostFailed) && (t.MostSent == 0 || len(calls) < t.MostSent)
	}
	send := func() {
		for out < level() && more() {
			c := &call{due: v.now}
			calls = append(calls, c)
			if v.arrive(c); c.refused {
				bad, failed = bad+1, failed+1
				v.now += v.network + 0.001 // a client that is refused tries again a little later
				continue
			}
			out++
		}
	}
	for send(); more(); send() {
		if len(v.running) == 0 {
			break
		}
		v.until(min(v.running[0].at, end), func(c *call) {
			out--
			switch v.sample(c, from, o).kind {
			case 's':
				bad++
			case 'f', 'r':
				bad, failed = bad+1, failed+1
			}
		})
	}
	return calls, min(v.now, end) - from
}

// outcome is what samples come to.
func outcome(t Trial, samples []sample, took float64) Outcome {
	o := Outcome{Trial: t, Took: duration(took), Drained: true}
	length := (t.Duration + t.ThenFor).Seconds() / float64(t.Parts)
	o.Parts = make([]Part, min(t.Parts, int(math.Ceil(took/length-1e-9))))
	sums := make([]float64, len(o.Parts))
	var all []float64
	for _, s := range samples {
		i := min(int(s.due/length), len(o.Parts)-1)
		p := &o.Parts[i]
		o.Sent, p.Sent = o.Sent+1, p.Sent+1
		switch s.kind {
		case 'g':
			o.Good, p.Good = o.Good+1, p.Good+1
		case 's':
			o.Slow, p.Slow = o.Slow+1, p.Slow+1
		case 'f':
			o.Failed, p.Failed = o.Failed+1, p.Failed+1
			o.Drained = false
		case 'r':
			o.Refused, p.Refused = o.Refused+1, p.Refused+1
		}
		if s.kind == 'g' || s.kind == 's' {
			all = append(all, s.took)
			sums[i] += s.took
		}
	}
	for i := range o.Parts {
		if n := o.Parts[i].Good + o.Parts[i].Slow; n > 0 {
			o.Parts[i].Mean = duration(sums[i] / float64(n))
		}
	}
	if len(all) == 0 {
		return o
	}
	slices.Sort(all)
	o.Mean = duration(mean(all))
	at := func(q float64) time.Duration { return duration(all[int(q*float64(len(all)-1))]) }
	o.P50, o.P90, o.P99 = at(0.5), at(0.9), at(0.99)
	return o
}
