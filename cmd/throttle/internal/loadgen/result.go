package loadgen

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Counts are how requests ended. A request that timed out is among Failed too.
type Counts struct {
	Good, Slow, Refused, Failed, TimedOut, Dropped int64
}

// Sent is how many were sent and have ended.
func (c Counts) Sent() int64 { return c.Good + c.Slow + c.Refused + c.Failed }

// Times are the mean and quantiles of durations. Zero of none.
type Times struct {
	Mean, P50, P90, P99, P999, Max time.Duration
}

// Part is a part of a load: the requests that were due in it.
type Part struct {
	Counts
	// Mean is the mean latency of the good and the slow.
	Mean time.Duration
}

// Result has the counts and latencies of a load. A request counts by when it was due.
type Result struct {
	Counts
	// Took is for how long requests started, and Elapsed is Took with the time until
	// the last answer.
	Took, Elapsed time.Duration
	// Latency is that of the requests that were served, good and slow.
	Latency Times
	// Late are the delays of requests beyond when they were due: this machine adds
	// them to every latency.
	Late Times
	// Excused counts the slow requests that would have been good, had they been sent
	// when they were due.
	Excused int64
	// Parts are the parts of the load, in order, without those after an early end.
	Parts []Part
	// Cut is set if the load was cancelled before its end. Cancelled counts the
	// requests that were in flight then, which are in no other count.
	Cut       bool
	Cancelled int64
	// First is the error of the first request that did not end well. Nil if all
	// did.
	First error
}

// result is all that was counted.
func (t *tally) result(took time.Duration) Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Result{Counts: countsOf(t.counts), Took: took, Latency: t.latency.times(), Late: t.late.times(), Excused: t.excused, Cancelled: t.cancelled, First: t.first}
	for i, p := range t.parts {
		if time.Duration(i)*t.length < took {
			r.Parts = append(r.Parts, p.part())
		}
	}
	return r
}

func (p part) part() Part {
	out := Part{Counts: countsOf(p.counts)}
	if n := out.Good + out.Slow; n > 0 {
		out.Mean = p.sum / time.Duration(n)
	}
	return out
}

func countsOf(n [verdicts]int64) Counts {
	return Counts{
		Good: n[Good], Slow: n[Slow], Refused: n[Refused],
		Failed: n[Failed] + n[TimedOut], TimedOut: n[TimedOut], Dropped: n[Dropped],
	}
}

// histogram is an HDR histogram of microseconds, to three digits, with an exact
// mean. It takes the same memory however much it counts.
type histogram struct {
	*hdrhistogram.Histogram
	most int64
	sum  float64
}

func newHistogram(most time.Duration) histogram {
	m := max(most.Microseconds(), 2)
	return histogram{Histogram: hdrhistogram.New(1, m, 3), most: m}
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
		Mean: time.Duration(h.sum / float64(n) * float64(time.Microsecond)),
		P50:  at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: at(100),
	}
}
