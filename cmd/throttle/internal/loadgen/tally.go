package loadgen

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errFull   = errors.New("not sent: too many requests in flight")
	errBehind = errors.New("not sent: this machine cannot keep the schedule")
)

// seen is a request that has ended.
type seen struct {
	at, latency, late time.Duration
	verdict           Verdict
	err               error
}

// tally counts. It is safe for concurrent use.
type tally struct {
	begun, bad, failed atomic.Int64 // to stop by, without the lock

	mu        sync.Mutex
	counts    [verdicts]int64
	within    time.Duration
	latency   histogram
	late      histogram
	parts     []part
	length    time.Duration            // of a part
	excused   int64                    // slow ones, for being sent late
	cancelled int64                    // with the load
	out       map[uint64]time.Duration // in flight: when they were due
	next      uint64                   // the number of the next request
	looked    time.Duration            // when it was last looked whether all is calm
	lastBad   time.Duration            // when the last bad request ended
	ended     time.Duration            // of the sending
	start     time.Time
	first     error
}

// part is a Part while it is counted.
type part struct {
	counts [verdicts]int64
	sum    time.Duration // of the latencies of those that were served
}

func newTally(l Load, timeout time.Duration) *tally {
	whole := l.Duration + l.ThenFor
	most := 2*(whole+timeout) + 2*slack // no latency is longer
	return &tally{
		start: time.Now(), ended: whole, within: l.Within,
		length: max(whole/time.Duration(l.Parts), 1), parts: make([]part, l.Parts),
		latency: newHistogram(most), late: newHistogram(most), out: map[uint64]time.Duration{},
	}
}

// place counts a request that is about to be sent, and reports false if as many as
// most were before it, which is no bound if zero.
func (t *tally) place(most int64) bool {
	n := t.begun.Add(1)
	return most <= 0 || n <= most
}

// begin numbers a request that is sent.
func (t *tally) begin(at time.Duration) (id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	t.out[t.next] = at
	return t.next
}

// forget takes a request that was cancelled out of the counts.
func (t *tally) forget(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancelled++
	delete(t.out, id)
}

// over reports whether a bound of a load on requests, bad or failed ones is reached.
func (t *tally) over(l Load) bool {
	return reached(&t.begun, l.Requests) || reached(&t.bad, l.Bad) || reached(&t.failed, l.Failures)
}

// reached reports whether a count is at a bound; zero is none.
func reached(n *atomic.Int64, most int64) bool { return most > 0 && n.Load() >= most }

// end notes that the sending ends before its time.
func (t *tally) end(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = min(t.ended, at)
}

// took is how long the sending lasted.
func (t *tally) took() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// calm reports whether nothing bad has been seen for so long, and nothing is out for
// longer than within, or for so long if within is zero.
func (t *tally) calm(now, long, within time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now-t.looked < glance || now-t.lastBad < long {
		return false
	}
	t.looked = now
	if within <= 0 {
		within = long
	}
	for _, at := range t.out {
		if now-at > within {
			return false
		}
	}
	return true
}

// drop counts a request that is not sent.
func (t *tally) drop(at time.Duration, why error) {
	t.begun.Add(1)
	t.note(0, seen{at: at, verdict: Dropped, err: why})
}

// note counts a request that has ended.
func (t *tally) note(id uint64, s seen) {
	if s.verdict != Good {
		t.bad.Add(1)
	}
	if s.verdict == Refused || s.verdict == Failed || s.verdict == TimedOut {
		t.failed.Add(1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.out, id)
	p := t.part(s.at)
	t.counts[s.verdict]++
	p.counts[s.verdict]++
	if t.first == nil {
		t.first = s.err
	}
	if s.verdict == Slow && s.latency-s.late <= t.within {
		t.excused++
	}
	if s.verdict != Good {
		t.lastBad = time.Since(t.start)
	}
	if s.verdict <= Slow {
		t.latency.add(s.latency)
		p.sum += s.latency
	}
	if s.verdict != Dropped {
		t.late.add(s.late)
	}
}

// part is where a request counts that was due at an offset.
func (t *tally) part(at time.Duration) *part {
	return &t.parts[min(int(at/t.length), len(t.parts)-1)]
}
