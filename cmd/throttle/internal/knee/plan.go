package knee

import (
	"math"
	"time"
)

const (
	// longNarrow is the length of a trial of the bisection, in bounds on latency:
	// an overload of 5 % then breaks the objective within the trial.
	longNarrow = 40
	longClimb  = 4
	// slowSeen is how many slow requests a trial at the knee should see.
	slowSeen   = 50
	climbSeen  = 50 // requests of a trial of the climb, at least
	baseSeen   = 2000
	leastTrial = time.Second
	mostTrial  = 2 * time.Minute
	parts      = 20
)

// bases are the levels of the trials for the curve, in shares of the knee: of idle
// latency, and at the rate of the rule, which is to meet the objective.
var bases = [...]float64{1.0 / 3, 1 - DefaultHeadRoom}

// plan is the trial to run next.
func (s *Search) plan() Trial {
	switch {
	case s.settling > 0:
		level := s.floor(s.calm())
		t := s.trial(Settle, level, s.length(longClimb, climbSeen/2, level))
		t.Rest = 500 * time.Millisecond << min(s.settling-1, mostSettle)
		return t
	case s.phase == basing:
		level := s.floor(s.interval().At * bases[s.based])
		d := min(s.length(longClimb, baseSeen, level), s.bounds.Time/20, duration(0.05*float64(s.bounds.Requests)/s.rate(level)))
		return s.trial(Base, level, max(d, leastTrial))
	case s.phase == climbing:
		seen := climbSeen
		if s.level < s.bounds.Start {
			seen /= 2
		}
		t := s.trial(Climb, s.level, s.length(longClimb, seen, s.level))
		t.MostBad = s.mostBad(t, 20)
		return t
	case s.phase == narrowing:
		d, _ := s.narrowLength(s.level)
		t := s.trial(Narrow, s.level, d)
		t.MostBad = s.mostBad(t, 30)
		return t
	}
	return s.planRecovery()
}

// trial is one of a kind at a level.
func (s *Search) trial(k Kind, level float64, d time.Duration) Trial {
	t := Trial{Kind: k, Duration: d, Parts: parts}
	if s.Concurrency {
		t.Concurrency = int(math.Round(level))
	} else {
		t.Rate = level
	}
	return t
}

// length is so many bounds on latency, and long enough for so many requests.
func (s *Search) length(bounds, requests int, level float64) time.Duration {
	seconds := max(float64(bounds)*s.Objective.Latency.Seconds(), float64(requests)/s.rate(level))
	return min(max(duration(seconds), leastTrial), mostTrial)
}

// fullLength is how long a trial of the bisection is to be.
func (s *Search) fullLength(level float64) time.Duration {
	seen := slowSeen / (1 - s.Objective.Quantile)
	if s.Objective.Latency == 0 {
		seen = 1000
	}
	return s.length(longNarrow, int(min(seen, 1e6)), level)
}

// narrowLength is that length, or less so that a dozen of trials are within the
// bounds. Where not even so many quarters are left, why says which bound it is:
// shorter trials see what is good for a moment.
func (s *Search) narrowLength(level float64) (d time.Duration, why Stop) {
	full := s.fullLength(level)
	few := float64(max(4, 12-s.narrowed))
	sent := duration(((1-reserved)*float64(s.bounds.Requests) - float64(s.spent.Requests)) / few / s.rate(level))
	took := duration(((1-reserved)*s.bounds.Time.Seconds() - s.spent.Time.Seconds()) / few)
	switch least := full / 4; {
	case s.narrowed > 0 && sent < least:
		why = TooManySent
	case s.narrowed > 0 && took < least:
		why = TooLong
	}
	return max(min(full, sent, took), leastTrial), why
}

func duration(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), 1e9) * 1e9)
}

// rate is how many requests a second a level comes to. At a concurrency that is
// known only from trials.
func (s *Search) rate(level float64) float64 {
	if !s.Concurrency {
		return level
	}
	rate := level // a second each, before anything is known
	for _, o := range s.outcomes {
		if o.Took > 0 && o.Sent > 0 {
			rate = float64(o.Sent) / o.Took.Seconds() * level / max(o.level(), 1)
		}
	}
	return max(rate, 1e-3)
}

// mostBad is how many bad requests make a trial hopeless.
func (s *Search) mostBad(t Trial, least float64) int {
	share := max(0.1, 10*(1-s.Objective.Quantile), 10*s.Objective.Errors)
	if s.Objective.Latency == 0 {
		share = max(0.1, 10*s.Objective.Errors)
	}
	n := s.rate(s.level) * t.Duration.Seconds()
	left := s.bounds.Failures - s.spent.Failures
	return max(1, min(int(max(least, share*n)), left))
}

// affordable shortens a trial to what the bounds leave, or ends the search. A
// trial of less than half its length is not worth its requests.
func (s *Search) affordable(t *Trial) bool {
	requests, left := s.bounds.Requests-s.spent.Requests, s.bounds.Time-s.spent.Time-t.Rest
	if t.Kind != Push && t.Kind != Return { // the rest is for the recovery
		requests -= int(reserved / 2 * float64(s.bounds.Requests))
		left -= time.Duration(reserved / 2 * float64(s.bounds.Time))
	}
	level := t.Rate
	if s.Concurrency {
		level = float64(t.Concurrency)
	}
	most := duration(float64(requests) / s.rate(level))
	switch {
	case s.bounds.Failures <= s.spent.Failures:
		return s.exhausted(TooManyFailed)
	case left < t.Duration/2:
		return s.exhausted(TooLong)
	case most < t.Duration/2:
		return s.exhausted(TooManySent)
	}
	t.Duration = min(t.Duration, left, most)
	t.MostSent = max(requests, 1)
	t.MostFailed = s.bounds.Failures - s.spent.Failures
	if t.Then > 0 {
		return s.affordableThen(t, left-t.Duration, most-t.Duration)
	}
	return true
}

// affordableThen shortens the second half of a trial to what the bounds leave.
func (s *Search) affordableThen(t *Trial, left, most time.Duration) bool {
	t.ThenFor = min(t.ThenFor, left, duration(most.Seconds()*s.rate(s.recovery.Pushed)/s.rate(t.Then)))
	t.ThenFor -= t.ThenFor % t.Duration // so that no part belongs to both
	t.Parts = int((1 + t.ThenFor/t.Duration) * pushParts)
	if t.ThenFor < 2*t.Duration {
		return s.exhausted(TooLong)
	}
	return true
}

// exhausted ends the search at a bound. What was found before stays the reason.
func (s *Search) exhausted(why Stop) bool {
	if s.stop != "" {
		why = s.stop
	}
	s.end(why)
	return false
}
