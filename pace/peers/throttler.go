package peers

import (
	"time"

	"github.com/throttle-go/throttle/pace"
)

// parts is the number of parts of a window.
const parts = 20

// count counts requests, and those among them that the server accepted.
type count struct{ requests, accepts int }

// window counts over the last 20 parts of a length, including the current one.
// Parts that are over are dropped only when the next request is counted, as in
// failsafe-go.
type window struct {
	part  time.Duration
	parts [parts]count
	sum   count
	head  int64 // number of the current part
}

// at advances to the part that t is in.
func (w *window) at(t time.Time) {
	head := max(t.UnixNano(), 0) / int64(w.part)
	for i := range min(parts, head-w.head) {
		p := &w.parts[(w.head+i+1)%parts]
		w.sum.requests -= p.requests
		w.sum.accepts -= p.accepts
		*p = count{}
	}
	w.head = max(w.head, head)
}

func (w *window) add(t time.Time, c count) {
	w.at(t)
	p := &w.parts[w.head%parts]
	p.requests += c.requests
	p.accepts += c.accepts
	w.sum.requests += c.requests
	w.sum.accepts += c.accepts
}

// Failsafe is the AdaptiveThrottler of github.com/failsafe-go/failsafe-go with
// its defaults: beyond 10 % failures in the last minute it rejects a share of
// the requests locally, at most 9 in 10. A rejected caller, locally or by the
// server, asks again after Pause. It is made for one worker, which a local
// rejection delays; workers that share the original share its count.
type Failsafe struct {
	seen window
}

// NewFailsafe returns a Failsafe that has counted nothing.
func NewFailsafe() *Failsafe { return &Failsafe{window{part: time.Minute / parts}} }

var _ pace.Controller = (*Failsafe)(nil)

// RejectionRate returns the share of requests that it rejects now.
func (f *Failsafe) RejectionRate() float64 {
	n := float64(f.seen.sum.requests)
	excess := max(0, n-float64(f.seen.sum.accepts)/0.9)
	return min(excess/(n+1), 0.9)
}

// Wait returns the time until r first asks and is not rejected.
func (f *Failsafe) Wait(now time.Time, r pace.Request) time.Duration {
	rate := f.RejectionRate()
	if r.Place > 0 { // it is not known which draws will pass
		return unknown(rate)
	}
	asks := 0
	for rate > 0 && asks < maxAsks && rate >= r.Luck.Unit(asks) {
		asks++
	}
	return r.Since.Add(time.Duration(asks) * Pause).Sub(now)
}

// maxAsks bounds the search; the probability of more, 0.9^1000, is next to nothing.
const maxAsks = 1000

// unknown returns the forecast at a rejection rate.
func unknown(rate float64) time.Duration {
	if rate > 0 {
		return pace.Never
	}
	return 0
}

// Start does nothing: local rejections are not counted.
func (f *Failsafe) Start(time.Time, pace.Request) {}

// Observe counts the outcome. Like the original it counts any error as a failure.
func (f *Failsafe) Observe(now time.Time, o pace.Outcome) (rest time.Duration) {
	return observe(&f.seen, now, o, count{1, 0}, count{1, 1})
}

// observe counts an outcome and returns how long a refused caller pauses.
func observe(w *window, now time.Time, o pace.Outcome, bad, good count) (rest time.Duration) {
	switch {
	case o.Sent.IsZero() || o.Verdict == pace.Ignored:
		return 0
	case refused(o):
		w.add(now, bad)
		return Pause
	}
	w.add(now, good)
	return 0
}

// SRE is client-side throttling as in "Site Reliability Engineering" (Beyer,
// Jones, Petoff, Murphy, 2016), chapter 21, Handling Overload: of the requests
// of the last two minutes, rejected locally or not, it rejects
//
//	max(0, (requests - 2 × accepts) / (requests + 1))
//
// A rejected caller, locally or by the server, asks again after Pause. It is
// made for one worker, which a local rejection delays.
type SRE struct {
	seen window
}

// NewSRE returns an SRE that has counted nothing.
func NewSRE() *SRE { return &SRE{window{part: 2 * time.Minute / parts}} }

var _ pace.Controller = (*SRE)(nil)

// RejectionRate returns the share of requests that it rejects now.
func (s *SRE) RejectionRate() float64 { return s.seen.sum.overload() }

func (c count) overload() float64 {
	return max(0, float64(c.requests-2*c.accepts)/float64(c.requests+1))
}

// ask lets r ask, from Since on, until it is not rejected. The rejections are
// counted in w.
func (w *window) ask(r pace.Request) (passes time.Time) {
	t := r.Since
	for k := range maxAsks {
		w.at(t)
		if w.sum.overload() <= r.Luck.Unit(k) {
			break
		}
		w.add(t, count{1, 0})
		t = t.Add(Pause)
	}
	return t
}

// Wait returns the time until r first asks and is not rejected.
func (s *SRE) Wait(now time.Time, r pace.Request) time.Duration {
	if r.Place > 0 {
		return unknown(s.RejectionRate())
	}
	trial := s.seen
	return trial.ask(r).Sub(now)
}

// Start counts r and its local rejections.
func (s *SRE) Start(now time.Time, r pace.Request) {
	s.seen.ask(r)
	s.seen.add(now, count{1, 0})
}

// Observe counts whether the server accepted. One that failed for another
// reason was accepted.
func (s *SRE) Observe(now time.Time, o pace.Outcome) (rest time.Duration) {
	if o.Verdict == pace.Failed {
		s.seen.add(now, count{0, 1})
		return Pause
	}
	return observe(&s.seen, now, o, count{}, count{0, 1})
}
