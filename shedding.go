package throttle

import (
	"context"
	"math"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// shedding decides who begins, waits and is refused, as a function of values:
// it has no clock and no lock.
type shedding struct {
	fixed, highest int // see Shedder
	maxWaiting     int
	maxWait        time.Duration

	found           gradient
	inFlight        int
	lines           [Classes]list[applicant]
	waiting, peak   int
	took            float64 // seconds that one takes, on average lately
	came            [Classes]meter
	passed, refused [Classes]int64
}

// applicant is one who wants to begin, waits, or is under way.
type applicant struct {
	place    node[applicant] // in the line of its class, while it waits
	class    int
	deadline time.Time // zero: none
	granted  bool
	began    time.Time
	why      *OwnerError   // of one that was refused while it waited
	turn     chan struct{} // holds one: granted, or refused
	number   uint64        // counts its uses; a Pass of another number is past
}

// poke wakes a up.
func (a *applicant) poke() {
	select {
	case a.turn <- struct{}{}:
	default: // it has been told
	}
}

// lately is how much one more weighs in what took is.
const lately = 0.05

// allowed is how many may be under way.
func (s *shedding) allowed() int {
	if s.fixed > 0 {
		return s.fixed
	}
	return s.found.allowed(s.highest)
}

// enter grants a, puts it in line, or says why not.
func (s *shedding) enter(now time.Time, a *applicant) *OwnerError {
	s.came[a.class].add(now)
	if s.inFlight < s.allowed() { // so nobody waits: see done
		s.grant(now, a)
		return nil
	}
	longest := s.longest()
	if a.deadline.IsZero() || a.deadline.Sub(now) > longest {
		a.deadline = now.Add(longest)
	}
	if wait := s.forecast(now, a.class); wait >= a.deadline.Sub(now) || longest <= 0 {
		return s.refuse(a, &OwnerError{Reason: context.DeadlineExceeded, Wait: wait})
	}
	if s.waiting >= s.maxWaiting && !s.pushOut(a.class) {
		return s.refuse(a, &OwnerError{Reason: ErrFull, Wait: s.forecast(now, a.class)})
	}
	s.lines[a.class].push(&a.place, a)
	s.waiting++
	s.peak = max(s.peak, s.waiting)
	return nil
}

// longest is the longest wait.
func (s *shedding) longest() time.Duration {
	if s.maxWait != 0 {
		return max(s.maxWait, 0)
	}
	ten := 10 * s.took / float64(s.allowed()) // seconds until ten are done
	return max(100*time.Millisecond, seconds(ten))
}

// forecast is how long a newcomer to a class will wait. The work of those ahead
// is done at the rate that is left by the higher classes (A. Cobham, Priority
// Assignment in Waiting Line Problems, 1954): zero if that is not known yet,
// pace.Never if they leave nothing.
func (s *shedding) forecast(now time.Time, class int) time.Duration {
	if s.took == 0 {
		return 0
	}
	ahead := 1 + s.lines[class].n
	left := float64(s.allowed()) / s.took // how many are done in a second
	for c := class + 1; c < Classes; c++ {
		ahead += s.lines[c].n
		left -= s.came[c].rate(now)
	}
	if left <= 0 {
		return pace.Never
	}
	return seconds(float64(ahead) / left)
}

// seconds is x seconds, at most pace.Never.
func seconds(x float64) time.Duration {
	if x >= pace.Never.Seconds() {
		return pace.Never
	}
	return time.Duration(x * float64(time.Second))
}

// pushOut makes room for one of a class, at the cost of a lower one.
func (s *shedding) pushOut(class int) bool {
	for c := range class {
		if last := s.lines[c].last; last != nil {
			s.drop(last.of, &OwnerError{Reason: ErrShed, Wait: pace.Never})
			return true
		}
	}
	return false
}

// drop refuses one that waits.
func (s *shedding) drop(a *applicant, why *OwnerError) {
	s.out(a)
	a.why = s.refuse(a, why)
	a.poke()
}

// leave takes out one that waits and whose time is over, or who gave up.
func (s *shedding) leave(a *applicant, late bool) {
	s.out(a)
	if late {
		s.refused[a.class]++
	}
}

func (s *shedding) out(a *applicant) {
	s.lines[a.class].remove(&a.place)
	s.waiting--
}

func (s *shedding) refuse(a *applicant, why *OwnerError) *OwnerError {
	s.refused[a.class]++
	return why
}

func (s *shedding) grant(now time.Time, a *applicant) {
	a.granted, a.began = true, now
	s.inFlight++
	s.passed[a.class]++
}

// done ends the work of a, and lets those begin for whom there is room.
func (s *shedding) done(now time.Time, a *applicant, teaches bool) {
	if took := now.Sub(a.began).Seconds(); teaches && took >= 0 {
		if s.took == 0 {
			s.took = took
		}
		s.took += lately * (took - s.took)
		if s.fixed <= 0 {
			s.found.observe(took, s.inFlight, s.highest)
		}
	}
	s.inFlight--
	for s.waiting > 0 && s.inFlight < s.allowed() {
		s.next(now)
	}
}

// next grants the first of the highest class in line, or refuses it if its time
// is over and it has not noticed yet.
func (s *shedding) next(now time.Time) {
	c := Classes - 1
	for s.lines[c].n == 0 {
		c--
	}
	a := s.lines[c].front()
	if !a.deadline.After(now) {
		s.drop(a, &OwnerError{Reason: context.DeadlineExceeded, Wait: pace.Never})
		return
	}
	s.out(a)
	s.grant(now, a)
	a.poke()
}

// meter is the rate at which something comes, over the last second: a sliding
// window of two counters.
type meter struct {
	second      int64 // Unix time
	now, before float64
}

func (m *meter) add(now time.Time) {
	m.turn(now)
	m.now++
}

// rate is how many a second.
func (m *meter) rate(now time.Time) float64 {
	m.turn(now)
	return m.now + m.before*(1-float64(now.Nanosecond())/1e9)
}

func (m *meter) turn(now time.Time) {
	switch t := now.Unix(); {
	case t == m.second+1:
		m.before, m.now, m.second = m.now, 0, t
	case t != m.second:
		*m = meter{second: t}
	}
}

// gradient finds how many may be under way.
type gradient struct {
	limit float64 // zero: not begun
	base  float64 // seconds that one takes when there is no queue; zero: unknown
	// of this window:
	sum     float64 // of the seconds taken
	n       int
	most    int     // under way
	windows int     // since the last probe
	before  float64 // limit at the last probe
}

const (
	gradientStart  = 20   // Netflix's initialLimit
	gradientSlack  = 1.25 // a mean so much above base is no queue yet
	gradientSmooth = 0.2  // Netflix's smoothing
	gradientProbe  = 100  // windows from probe to probe
	probePart      = 0.4  // of the limit may be under way during a probe: below 1/gradientSlack
	baseSmooth     = 0.5  // weight of a new look at base
)

// allowed is the limit of now.
func (g *gradient) allowed(highest int) int {
	limit := g.limit
	if limit == 0 {
		limit = gradientStart
	}
	if g.probing() {
		limit *= probePart
	}
	return max(1, int(min(limit, float64(highest))))
}

// probing is whether this window belongs to a probe: the first of its two windows
// ends with those who began before it.
func (g *gradient) probing() bool { return g.windows >= gradientProbe }

// observe learns from one that took so many seconds, when so many were under way.
func (g *gradient) observe(took float64, inFlight, highest int) {
	if g.limit == 0 {
		g.limit, g.windows = min(gradientStart, float64(highest)), gradientProbe
	}
	g.sum += took
	g.n++
	g.most = max(g.most, inFlight)
	window := 2 * g.allowed(highest)
	if g.windows == gradientProbe { // until all have ended that began before it, and more
		window = int(1.5 * g.limit)
	}
	if g.n < max(10, window) {
		return
	}
	g.turn(g.sum/float64(g.n), highest)
	g.sum, g.n, g.most = 0, 0, 0
}

// turn ends a window of that mean.
func (g *gradient) turn(mean float64, highest int) {
	g.windows++
	switch {
	case g.windows == gradientProbe+1: // the first of a probe says nothing
		return
	case g.windows == gradientProbe+2:
		g.windows, g.before = 0, g.limit
		g.learn(mean)
		return
	case float64(g.most) < g.limit/2: // no load: no reason to allow more, and no queue
		g.learn(mean)
		return
	case mean <= 0 || g.base == 0:
		return
	}
	// limit' = limit · base·slack/mean + √limit, the factor from ½ to 1
	factor := min(max(gradientSlack*g.base/mean, 0.5), 1)
	next := g.limit*factor + math.Sqrt(g.limit)
	g.limit += gradientSmooth * (next - g.limit)
	g.limit = min(max(g.limit, 1), float64(highest))
	if g.limit < 0.8*g.before || g.limit > 1.5*g.before { // how long do they take now?
		g.windows = gradientProbe
	}
}

// learn looks at base.
func (g *gradient) learn(mean float64) {
	if mean < g.base || mean > 2*g.base { // there was a queue when it was looked at last; or all is new
		g.base = mean
	}
	g.base += baseSmooth * (mean - g.base)
}
