package knee

import (
	"math"
	"time"
)

const (
	pushed = 1.5 // times the knee and capacity, what the service is pushed to
	// rotten is the share of bad requests of a part that is not well; up to one
	// bad request never is.
	rotten = 0.05
	// times is how many times as long as the overload the service is watched
	// afterwards, and pushParts the parts of the overload.
	times, pushParts = 6, 8
	mostBadParts     = 8 // one in so many parts of a service that has recovered may be bad
	restLength       = 5 * time.Second
)

// recovery is the state of the trial past the knee and back.
type recovery struct{ Recovery }

// calm is a level at which the service surely has nothing to do.
func (s *Search) calm() float64 {
	if s.low > 0 {
		return s.low / 2
	}
	return s.level / 4
}

// settleAfter says to wait until the service is calm, if a bad trial may have
// left work behind.
func (s *Search) settleAfter(o Outcome) {
	if !o.Drained {
		s.settling = 1
	}
}

// settled takes a trial at low load. If the service stays bad, it is down.
func (s *Search) settled(o Outcome) {
	if o.well() {
		s.settling = 0
		return
	}
	if s.settling++; s.settling > mostSettle {
		s.recovery.Verdict, s.recovery.Back = Metastable, o.level()
		s.recovery.After = o.Elapsed
		s.end(Down)
	}
}

// well reports whether the later half of a trial is good.
func (o Outcome) well() bool {
	if len(o.Parts) == 0 {
		return part(o).well()
	}
	for _, p := range o.Parts[len(o.Parts)/2:] {
		if !p.well() {
			return false
		}
	}
	return true
}

// part is a trial as one part.
func part(o Outcome) Part { return Part{o.Sent, o.Good, o.Slow, o.Failed, o.Refused, o.Mean} }

func (p Part) bad() int { return p.Slow + p.Failed + p.Refused }

func (p Part) well() bool {
	return float64(p.bad()) <= max(1, rotten*float64(p.Sent))
}

// push begins the recovery, if there is to be one.
func (s *Search) push() {
	k := s.interval()
	if s.bounds.Recovery < 0 || k.At == 0 {
		s.phase = over
		return
	}
	s.phase = pushing
	capacity := k.At
	if !s.Concurrency {
		for _, o := range s.outcomes {
			capacity = max(capacity, o.served())
		}
	}
	s.recovery.Pushed = min(s.floor(capacity*pushed), s.bounds.Most)
	s.recovery.Back = min(s.floor(k.At*(1-DefaultHeadRoom)), s.recovery.Pushed)
}

// planRecovery is the trial past the knee and back, or one after a rest.
func (s *Search) planRecovery() Trial {
	r := &s.recovery
	if s.phase == resting {
		t := s.trial(Return, r.Back, s.length(longClimb, parts*10, r.Back))
		t.Rest = restLength
		return t
	}
	left := float64(s.bounds.Failures-s.spent.Failures) / 2
	d := min(s.bounds.Recovery/times, duration(left/s.rate(r.Pushed)))
	t := s.trial(Push, r.Pushed, max(d, leastTrial/2))
	t.Then, t.ThenFor, t.Parts = r.Back, t.Duration*times, (times+1)*pushParts
	t.Calm = 2 * t.Duration
	return t
}

// returned takes the trial past the knee and back, or the one after a rest.
func (s *Search) returned(o Outcome) {
	r := &s.recovery
	if s.phase == resting {
		r.Rested = o.well()
		s.phase = over
		return
	}
	s.phase = over
	r.For = min(o.Took, o.Trial.Duration)
	if len(o.Parts) < 2*pushParts {
		return // interrupted
	}
	back := o.Parts[pushParts:]
	part := duration(o.partLength())
	if i := wellFrom(back); i >= 0 {
		r.Verdict, r.After = Recovers, time.Duration(i)*part
		return
	}
	r.Verdict, r.After = Metastable, time.Duration(len(back))*part
	if improves(back) {
		r.Verdict = Slow
	}
	s.phase = resting
}

// wellFrom is the first of some parts from which on the service is well, with a
// bad part now and then, as of a pause; below zero if there is none.
func wellFrom(parts []Part) int {
	bad, first := 0, -1
	for i := len(parts) - 1; i >= 0; i-- {
		if !parts[i].well() {
			bad++
			continue
		}
		if n := len(parts) - i; n >= pushParts && bad*mostBadParts <= n {
			first = i
		}
	}
	return first
}

// improves reports whether parts are better towards their end: fewer bad requests, fewer without an answer, or a lower latency.
func improves(parts []Part) bool {
	var shares, failed, means []float64
	for _, p := range parts {
		sent := float64(max(p.Sent, 1))
		shares = append(shares, float64(p.bad())/sent)
		failed = append(failed, float64(p.Failed+p.Refused)/sent)
		if p.Good+p.Slow > 0 {
			means = append(means, p.Mean.Seconds())
		}
	}
	return falls(shares, 0.2) || falls(failed, 0.2) || falls(means, 0.1)
}

// falls reports whether figures are lower in their last third than in the first
// by a share of it, and lower than in the second by a quarter of that.
func falls(x []float64, by float64) bool {
	third := len(x) / 3
	if third == 0 {
		return false
	}
	first, second, last := mean(x[:third]), mean(x[third:2*third]), mean(x[2*third:])
	return last < (1-by)*first-1e-9 && last < (1-by/4)*second-1e-9
}

func mean(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// served is how many requests a second were answered, while the trial lasted
// and until its last answer.
func (o Outcome) served() float64 {
	return float64(o.Good+o.Slow) / max((o.Elapsed-o.Trial.Rest).Seconds(), o.Took.Seconds(), 1e-3)
}
