package loadgen

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Counts are how requests ended.
type Counts struct {
	// Offered is how many were due: those sent and those dropped.
	Offered                                  int64
	Good, Refused, Failed, TimedOut, Dropped int64
}

// Bad is how many did not end well; refusals are not among them.
func (c Counts) Bad() int64 { return c.Failed + c.TimedOut + c.Dropped }

// Times are the quantiles of durations. Zero of none.
type Times struct {
	Count                         int64
	Mean                          time.Duration
	P50, P90, P95, P99, P999, Max time.Duration
}

// Interval is a part of a load: the requests whose intended start is in it.
type Interval struct {
	// Start is its offset, Length how long it is.
	Start, Length time.Duration
	Counts
	// Latency is that of the good and the timed out.
	Latency Times
}

// Result is what a Load saw.
type Result struct {
	Rate        float64
	Concurrency int
	// Elapsed is for how long requests started.
	Elapsed time.Duration
	Counts
	// Latency counts from the intended start, of the requests that were served and
	// of those that timed out, these with the time that they had.
	Latency Times
	// Late is how long after its intended start a request was sent: what this
	// machine adds to every latency.
	Late Times
	// Drain is how long after the last start the last answer came.
	Drain time.Duration
	// Intervals are the parts of the load, in order.
	Intervals []Interval
	// Cut is set if the load was cancelled before its end.
	Cut bool
	// First is the error of the first request that did not end well. Nil if all
	// did.
	First error
}

// Goodput is how many requests a second were served, zero of no time.
func (r *Result) Goodput() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Good) / r.Elapsed.Seconds()
}

// seen is a request that has ended.
type seen struct {
	at, latency, late time.Duration
	verdict           Verdict
	err               error
}

// tally counts. It is safe for concurrent use.
type tally struct {
	begun, bad atomic.Int64 // to stop by, without the lock

	mu        sync.Mutex
	counts    [verdicts]int64
	latency   histogram
	late      histogram
	intervals []interval
	length    time.Duration // of an interval
	first     error
}

// interval is an Interval while it is counted.
type interval struct {
	counts  [verdicts]int64
	latency histogram
}

func newTally(l Load) *tally {
	t := &tally{length: max(l.Duration/time.Duration(l.Intervals), 1), intervals: make([]interval, l.Intervals)}
	most := 2*(l.Duration+l.Timeout) + 2*slack // beyond, all is as long as that
	t.latency, t.late = newHistogram(most, 3), newHistogram(most, 3)
	for i := range t.intervals {
		t.intervals[i].latency = newHistogram(most, 2)
	}
	return t
}

// begin counts a request that is sent.
func (t *tally) begin() { t.begun.Add(1) }

// cancelled takes back a request that was cancelled.
func (t *tally) cancelled() { t.begun.Add(-1) }

// over reports whether a bound on requests or failures is reached; zero is none.
func (t *tally) over(requests, failures int64) bool {
	return requests > 0 && t.begun.Load() >= requests || failures > 0 && t.bad.Load() >= failures
}

// errDropped is that of a request that was never sent.
var errDropped = errors.New("not sent: too many requests in flight")

// drop counts a request that is not sent.
func (t *tally) drop(at time.Duration) {
	t.begun.Add(1)
	t.note(seen{at: at, verdict: Dropped, err: errDropped})
}

// note counts a request that has ended.
func (t *tally) note(s seen) {
	if s.verdict > Refused {
		t.bad.Add(1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	part := &t.intervals[min(int(s.at/t.length), len(t.intervals)-1)]
	t.counts[s.verdict]++
	part.counts[s.verdict]++
	if t.first == nil {
		t.first = s.err
	}
	if s.verdict == Good || s.verdict == TimedOut {
		t.latency.add(s.latency)
		part.latency.add(s.latency)
	}
	if s.verdict != Dropped {
		t.late.add(s.late)
	}
}

// result is all that was counted.
func (t *tally) result() Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Result{Counts: countsOf(t.counts), Latency: t.latency.times(), Late: t.late.times(), First: t.first}
	for i := range t.intervals {
		part := &t.intervals[i]
		r.Intervals = append(r.Intervals, Interval{
			Start: time.Duration(i) * t.length, Length: t.length,
			Counts: countsOf(part.counts), Latency: part.latency.times(),
		})
	}
	return r
}

func countsOf(n [verdicts]int64) Counts {
	c := Counts{Good: n[Good], Refused: n[Refused], Failed: n[Failed], TimedOut: n[TimedOut], Dropped: n[Dropped]}
	c.Offered = c.Good + c.Refused + c.Bad()
	return c
}

// histogram is an HDR histogram of microseconds with an exact mean. It takes the
// same memory however much it counts.
type histogram struct {
	*hdrhistogram.Histogram
	most int64
	sum  float64
}

func newHistogram(most time.Duration, digits int) histogram {
	m := max(most.Microseconds(), 2)
	return histogram{Histogram: hdrhistogram.New(1, m, digits), most: m}
}

// add counts a duration; one beyond the range counts as the longest.
func (h *histogram) add(d time.Duration) {
	v := min(max(d.Microseconds(), 0), h.most)
	h.sum += float64(v)
	_ = h.RecordValue(v) // within the range
}

func (h *histogram) times() Times {
	n := h.TotalCount()
	if n == 0 {
		return Times{}
	}
	at := func(percent float64) time.Duration {
		return time.Duration(h.ValueAtPercentile(percent)) * time.Microsecond
	}
	return Times{
		Count: n, Mean: time.Duration(h.sum / float64(n) * float64(time.Microsecond)),
		P50: at(50), P90: at(90), P95: at(95), P99: at(99), P999: at(99.9), Max: at(100),
	}
}
