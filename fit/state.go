package fit

import "math"

// params are those of a Model, in seconds since the origin of a trace.
type params struct {
	kind   Kind
	first  bool    // a FixedWindow from the first request
	n      float64 // Burst, Count or InFlight
	rate   float64 // TokenBucket
	period float64
	edge   float64 // at which some window begins
	others float64 // requests a second of other callers; zero if this one is alone
}

// long is the rate that is served for long, a second; zero if there is none.
func (p *params) long() float64 {
	if p.period > 0 {
		return p.n / p.period
	}
	return p.rate
}

// A state is what a server of some params has used of n, given what it served.
// It follows what was seen, so one answer that it does not explain spoils none
// of the later ones.
type state struct {
	p     *params
	used  float64 // TokenBucket, at the time at
	at    float64
	index float64 // of the window that counts cur
	start float64 // of a window from the first request
	late  float64 // by which it may have begun later
	cur   float64
	prev  float64
	runs  []event // a SlidingLog's history
	tail  int     // of runs, the first that may still count
	total float64
}

func begin(p *params, runs []event) state {
	return state{p: p, at: math.Inf(-1), index: math.Inf(-1), start: math.Inf(-1), runs: runs[:0]}
}

// window is the index of the window at t.
func (s *state) window(t float64) float64 { return math.Floor((t - s.p.edge) / s.p.period) }

// usedAt is what is used at t, which may be a little before the last run.
func (s *state) usedAt(t float64) float64 {
	p := s.p
	switch {
	case p.kind == TokenBucket:
		if s.used == 0 {
			return 0
		}
		return max(0, s.used-p.rate*(t-s.at))
	case p.kind == SlidingLog:
		return s.total - s.upTo(t-p.period)
	case p.first:
		switch {
		case t >= s.start+p.period:
			return 0
		case t < s.start:
			return s.prev
		}
		return s.cur
	}
	cur, prev, w := s.cur, s.prev, s.window(t)
	switch {
	case w > s.index+1:
		cur, prev = 0, 0
	case w == s.index+1:
		cur, prev = 0, s.cur
	case w < s.index:
		cur, prev = s.prev, 0
	}
	if p.kind == SlidingCounter {
		left := 1 - ((t-p.edge)/p.period - w)
		return cur + prev*left
	}
	return cur
}

// usedLast is what may still have been used at t, just before: a window from the first
// request may have begun later than known.
func (s *state) usedLast(t float64) float64 {
	if end := s.start + s.p.period; s.p.first && t >= end && t < end+s.late {
		return s.cur
	}
	return s.usedAt(t)
}

// upTo is how many were served up to t, of those that the history holds.
func (s *state) upTo(t float64) float64 {
	for s.tail < len(s.runs) && s.runs[s.tail].to <= t {
		s.tail++
	}
	for s.tail > 0 && s.runs[s.tail-1].to > t {
		s.tail--
	}
	if s.tail == len(s.runs) {
		return s.total
	}
	e := &s.runs[s.tail]
	if t <= e.from {
		return e.before
	}
	return e.before + e.n*(1-e.after(t))
}

// serve counts a run of n served evenly from one time to another, and returns
// the most that was used in it.
func (s *state) serve(from, to, n float64) (most float64) {
	p := s.p
	switch {
	case p.kind == TokenBucket:
		first := s.usedAt(from) + 1
		s.used, s.at = max(first-1+n-p.rate*(to-from), 1), to
		return max(first, s.used)
	case p.kind == SlidingLog:
		s.runs = append(s.runs, event{from: from, to: to, n: n, before: s.total})
		s.total += n
		return s.total - s.upTo(to-p.period)
	case p.first:
		return s.serveFirst(from, to, n)
	}
	return s.serveWindows(from, to, n)
}

// run is serve of an event, of which a log remembers each request's time.
func (s *state) run(e *event) (most float64) {
	if s.p.kind != SlidingLog {
		return s.serve(e.from, e.to, e.n)
	}
	s.runs = append(s.runs, event{from: e.from, to: e.to, n: e.n, before: s.total, times: e.times})
	s.total += e.n
	return s.total - s.upTo(e.to-s.p.period)
}

func (s *state) serveFirst(from, to, n float64) (most float64) {
	p := s.p
	if from >= s.start+p.period {
		s.prev, s.cur, s.start, s.late = s.cur, 0, from, 0
	}
	every := (to - from) / max(n-1, 1)
	for end := s.start + p.period; to >= end && to > from; end = s.start + p.period {
		next := max(1, min(math.Floor((to-end)/every)+1, n-1)) // the first of these begins it
		s.prev, n = s.cur+n-next, next
		s.cur, s.start, s.late = 0, to-(n-1)*every, s.late+every
		most, from = max(most, s.prev), s.start
		cycle := every * math.Ceil(p.period/every)
		if skip := math.Floor((to - from) / cycle); skip > 2 { // windows all alike
			s.start, s.late, n = s.start+skip*cycle, s.late+skip*every, n-skip*cycle/every
			from = s.start
		}
	}
	s.cur += n
	return max(most, s.cur)
}

func (s *state) serveWindows(from, to, n float64) (most float64) {
	p := s.p
	s.move(s.window(from))
	if last := s.window(to); last > s.index && to > from {
		if last > s.index+3 {
			from0 := p.edge + (last-1)*p.period
			n, from = n*(to-from0)/(to-from), from0
			s.move(last - 1)
		}
		for s.index < last {
			end := p.edge + (s.index+1)*p.period
			part := n * (end - from) / (to - from)
			s.cur += part
			most = max(most, s.usedAt(end-1e-9*p.period))
			n, from = n-part, end
			s.move(s.index + 1)
		}
	}
	s.cur += n
	return max(most, s.usedAt(to))
}

// move begins window w.
func (s *state) move(w float64) {
	switch {
	case w == s.index+1:
		s.prev, s.cur = s.cur, 0
	case w > s.index:
		s.prev, s.cur = 0, 0
	default:
		return
	}
	s.index = w
}

// full counts a refusal at t that is a surprise: others have used what this
// caller did not.
func (s *state) full(t, n float64) {
	p := s.p
	used := s.usedAt(t)
	switch {
	case p.kind == SlidingLog || used >= n:
		return
	case p.kind == TokenBucket:
		s.used, s.at = max(n-0.5, used), t
		return
	case !p.first:
		s.move(s.window(t))
	case t >= s.start+p.period:
		s.start, s.late, s.prev, s.cur = t, 0, s.cur, 0
	}
	s.cur += n - used
}
