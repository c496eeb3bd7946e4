package knee

import (
	"fmt"
	"math"
	"time"
)

// Objective states the latency and the errors that callers accept. The zero
// Objective has no bound on latency: the service has to keep up with the load,
// with at most 0.1 % of errors.
type Objective struct {
	// Latency is the bound on a quantile of latency. If zero, there is none.
	Latency time.Duration
	// Quantile is the share of the answered requests that must be within
	// Latency, above 0 and below 1. If zero, 0.99.
	Quantile float64
	// Errors is the largest share of requests that may fail or be refused, below
	// 1. If zero, 0.001; if below zero, none may.
	Errors float64
}

// Bounds stop a search, whatever it has found.
type Bounds struct {
	// Start is the rate or concurrency of the first trial, at least 0.01, or 1 at
	// a time. If zero, 10 requests a second, or 1 at a time.
	Start float64
	// Most is the highest rate or concurrency to offer, at most 10,000,000. If
	// zero, 100,000 a second, or 4,096 at a time.
	Most float64
	// Requests bounds the requests of all trials. If zero, 1,000,000.
	Requests int
	// Time bounds the duration of all trials, with their rests and drains. If
	// zero, 10 minutes.
	Time time.Duration
	// Failures bounds the requests that failed or were refused. If zero, a tenth
	// of Requests. A trial may go beyond by what was in flight as it ended.
	Failures int
	// Recovery is how long the service has to recover after an overload. If
	// zero, 30 s; if below zero, the service is not pushed past its knee.
	Recovery time.Duration
}

// Search looks for the knee. The zero Search looks for the highest rate with
// the zero Objective. Its fields must not change after the first Next. It is not
// safe for concurrent use.
type Search struct {
	Objective Objective
	Bounds    Bounds
	// Concurrency says to search for the highest concurrency instead of the
	// highest rate.
	Concurrency bool

	begun    bool
	bounds   Bounds
	phase    phase
	pending  Trial // of the last Next; zero before the first
	outcomes []Outcome
	spent    Spent
	stop     Stop
	why      string // of TooLate

	low, high float64 // the highest level that was good in the climb, the lowest that was bad
	level     float64 // of the next trial
	again     bool    // the trial is repeated
	belief    belief
	narrowed  int
	based     int // trials at low load
	settling  int // trials since the one that left work behind
	recovery  recovery
}

// phase is what a search does next.
type phase uint8

const (
	climbing phase = iota
	narrowing
	basing
	pushing
	resting
	over
)

const (
	mostNarrow  = 32  // trials of the bisection
	leastNarrow = 4   // before an interval is believed
	narrow      = 1.1 // high over low of an interval that is narrow enough
	mostSettle  = 6
	suspect     = 0.1  // a trial of the climb is bad if the objective is met with a lower probability
	reserved    = 0.25 // of the bounds, kept for the base, the push and the way back
	slowestStep = 64   // times below Start that the objective is looked for
)

// Check returns an error of one line if the search cannot be run as it is.
func (s *Search) Check() error {
	o, b := s.Objective.withDefaults(), s.Bounds.withDefaults(s.Concurrency)
	switch {
	case o.Latency < 0 || o.Latency > time.Hour:
		return fmt.Errorf("latency %v: must be from 0, for no bound, to 1h", o.Latency)
	case !(o.Quantile > 0 && o.Quantile < 1):
		return fmt.Errorf("quantile %v: must be above 0 and below 1, as 0.99", o.Quantile)
	case !(o.Errors < 1):
		return fmt.Errorf("errors %v: must be a share below 1, as 0.001", o.Errors)
	case s.Concurrency && (b.Start < 1 || b.Most < 1):
		return fmt.Errorf("levels from %v to %v in flight: must be at least 1", b.Start, b.Most)
	case !(b.Start >= 0.01) || b.Start > b.Most:
		return fmt.Errorf("first level %v: must be from 0.01 to the highest level of %v", b.Start, b.Most)
	case !(b.Most <= 1e7):
		return fmt.Errorf("highest level %v: must be at most 10,000,000", b.Most)
	case b.Requests < 0 || b.Failures < 0 || b.Time < 0:
		return fmt.Errorf("bounds of %d requests, %d failures and %v: must not be below zero", b.Requests, b.Failures, b.Time)
	}
	return nil
}

func (b Bounds) withDefaults(concurrency bool) Bounds {
	start, most := 10.0, 100_000.0
	if concurrency {
		start, most = 1, 4096
	}
	if b.Most == 0 {
		b.Most = most
	}
	if b.Start == 0 {
		b.Start = min(start, b.Most)
	}
	if b.Requests == 0 {
		b.Requests = 1_000_000
	}
	if b.Time == 0 {
		b.Time = 10 * time.Minute
	}
	if b.Failures == 0 {
		b.Failures = b.Requests/10 + 1
	}
	if b.Recovery == 0 {
		b.Recovery = 30 * time.Second
	}
	return b
}

func (s *Search) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.Objective = s.Objective.withDefaults()
	s.bounds = s.Bounds.withDefaults(s.Concurrency)
	s.level, s.high = s.bounds.Start, math.Inf(1)
	if s.Check() != nil {
		s.end(Undecided)
	}
}

func (s *Search) end(why Stop) { s.stop, s.phase = why, over }

// Next returns the trial to run next, the same one until Add; ok is false once
// the search is over.
func (s *Search) Next() (trial Trial, ok bool) {
	s.begin()
	if s.phase == over {
		return Trial{}, false
	}
	if s.pending != (Trial{}) {
		return s.pending, true
	}
	t := s.plan()
	if !s.affordable(&t) {
		return Trial{}, false
	}
	s.pending = t
	return t, true
}

// Add takes the outcome of the trial of the last Next. To interrupt a search, do
// not call Next again; Result says what is known.
func (s *Search) Add(o Outcome) {
	if s.pending == (Trial{}) {
		return
	}
	o.Trial, s.pending = s.pending, Trial{}
	o.sane()
	s.spent.Trials++
	s.spent.Requests += o.Sent
	s.spent.Failures += o.Failed + o.Refused
	s.spent.Time += max(o.Elapsed, o.Took+o.Trial.Rest)
	s.outcomes = append(s.outcomes, o)
	switch o.Trial.Kind {
	case Settle:
		s.settled(o)
	case Climb:
		s.climbed(o)
	case Narrow:
		s.narrowedBy(o)
	case Base:
		s.basedOn(o)
	default:
		s.returned(o)
	}
}

// sane makes figures that cannot be harmless.
func (o *Outcome) sane() {
	for _, n := range []*int{&o.Sent, &o.Good, &o.Slow, &o.Failed, &o.Refused, &o.Dropped} {
		*n = min(max(*n, 0), 1<<40)
	}
	for _, d := range []*time.Duration{&o.Took, &o.Elapsed, &o.Mean, &o.P50, &o.P90, &o.P99, &o.Late} {
		*d = min(max(*d, 0), 1000*time.Hour)
	}
	o.Parts = append([]Part(nil), o.Parts[:min(len(o.Parts), o.Trial.Parts)]...)
	for i := range o.Parts {
		p := &o.Parts[i]
		for _, n := range []*int{&p.Sent, &p.Good, &p.Slow, &p.Failed, &p.Refused} {
			*n = min(max(*n, 0), 1<<40)
		}
		p.Mean = min(max(p.Mean, 0), 1000*time.Hour)
	}
}

// climbed is slow start and doubling, until the objective fails.
func (s *Search) climbed(o Outcome) {
	met, level := s.Objective.met(o, 1), o.level()
	bad := met < suspect
	if bad && s.repeat(!o.badThroughout() || !s.Objective.trusted(o), o) {
		return
	}
	if bad && !s.Objective.trusted(o) {
		s.tooLate(o)
		return
	}
	s.again = false
	if !bad {
		s.low = level
	} else {
		s.high = level
		s.settleAfter(o)
	}
	switch {
	case s.low == 0 && (level <= s.bounds.Start/slowestStep || s.Concurrency && level <= 1):
		s.end(Never)
	case s.low == 0:
		s.level = s.floor(level / 4)
	case s.high > s.bounds.Most && level >= s.bounds.Most:
		s.stop = NoMore
		s.base()
	case math.IsInf(s.high, 1):
		s.level = min(level*2, s.bounds.Most)
	default:
		s.believe()
		s.bisect()
	}
}

// base begins the trials at low load, once the knee is known.
func (s *Search) base() {
	s.phase, s.based = basing, 0
	if s.interval().At == 0 {
		s.phase = over
	}
}

// basedOn takes a trial at low load.
func (s *Search) basedOn(o Outcome) {
	if s.based++; s.based == len(bases) {
		s.push()
	}
	s.settleAfter(o)
}

// badThroughout reports whether most of a trial was bad, as it is under an
// overload, and not only for a moment, as in a pause of the service.
func (o Outcome) badThroughout() bool {
	bad := 0
	for _, p := range o.Parts {
		if !p.well() {
			bad++
		}
	}
	return 2*bad >= len(o.Parts)
}

// repeat says to run a bad trial once more: the first one may have met a cold
// service, and any one chance, or a generator that was late.
func (s *Search) repeat(doubtful bool, o Outcome) bool {
	first := s.spent.Trials == 1
	if s.again || !first && !doubtful {
		s.again = false
		return false
	}
	s.again = true
	s.settleAfter(o)
	return true
}

// tooLate ends the search at what the generator can send.
func (s *Search) tooLate(o Outcome) {
	s.why = fmt.Sprintf("the generator sent %.4g of %.4g requests a second, %v late at the 99th percentile",
		float64(o.Sent)/max(o.Took.Seconds(), 1e-9), o.Trial.Rate, o.Late.Round(10*time.Microsecond))
	if s.low == 0 {
		s.end(TooLate)
		return
	}
	s.stop = TooLate
	s.base()
}

// narrowedBy takes a trial of the bisection.
func (s *Search) narrowedBy(o Outcome) {
	met := s.Objective.met(o, 1)
	if met < 0.5 && !s.Objective.trusted(o) {
		if s.repeat(true, o) {
			return
		}
		s.tooLate(o)
		return
	}
	s.again = false
	s.narrowed++
	s.believe()
	if met < 0.5 {
		s.settleAfter(o)
	}
	s.bisect()
}

// believe weighs all trials of the bisection, by what they say of each other.
func (s *Search) believe() {
	s.belief = between(s.low, s.high)
	spread := s.Objective.spread(s.outcomes)
	for _, o := range s.outcomes {
		if o.Trial.Kind == Narrow {
			s.belief.update(o.level(), s.Objective.met(o, spread))
		}
	}
}

// bisect chooses the level of the next trial, or ends the bisection.
func (s *Search) bisect() {
	k := s.belief.interval()
	small := k.High <= k.Low*narrow || s.Concurrency && math.Floor(k.High) <= math.Floor(k.Low)
	switch {
	case small && s.narrowed >= leastNarrow:
		s.stop = Found
		s.base()
	case s.narrowed >= mostNarrow:
		s.stop = Undecided
		s.base()
	default:
		s.phase, s.level = narrowing, min(s.floor(k.At), s.bounds.Most)
		if _, why := s.narrowLength(s.level); why != "" {
			s.stop = why
			s.base()
		}
	}
}

// floor is a level that can be offered.
func (s *Search) floor(level float64) float64 {
	if s.Concurrency {
		return max(1, math.Floor(level+1e-9))
	}
	return level
}

// level is what a trial offered.
func (o Outcome) level() float64 {
	if o.Trial.Concurrency > 0 {
		return float64(o.Trial.Concurrency)
	}
	return o.Trial.Rate
}
