package peers

import (
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/internal/schedule"
)

// AIMD is additive increase, multiplicative decrease: a rate that is multiplied
// by Cut when throttled and grows by Step with each request served (Chiu and
// Jain, 1989). Requests are spaced evenly; retries take their turn like all
// others. Throttled answers to requests sent before the last cut belong to that
// cut and change nothing.
//
// It grows whether or not its rate is used, ignores hints, and does not
// remember which rate was too high. One AIMD is meant for all callers of one
// limit in a process.
type AIMD struct {
	// Initial is the first rate a second. If zero, 10.
	Initial float64
	// Cut multiplies the rate when throttled, below 1. If zero, 0.5.
	Cut float64
	// Step is added to the rate, a second, with each request served. If zero,
	// 0.01.
	Step float64
	// Min is the lowest rate a second. If zero, 1 a minute.
	Min float64
	// Max is the highest rate a second. If zero, there is none.
	Max float64

	rate     float64 // a second; zero before the first start
	interval float64 // nanoseconds, of this rate
	cut      time.Time
	line     schedule.Even
}

var (
	_ pace.Controller = (*AIMD)(nil)
	_ pace.Learner    = (*AIMD)(nil)
)

// fastestAIMD keeps the arithmetic finite.
const fastestAIMD = 1e12

// Wait returns the time until r may start, or the r.Place-th in line at this
// rate.
func (a *AIMD) Wait(now time.Time, r pace.Request) time.Duration {
	if a.rate == 0 { // nothing has started yet
		return schedule.Nanoseconds(float64(max(r.Place-1, 0)) * schedule.Interval(a.within(schedule.Or(a.Initial, 10))))
	}
	return a.line.Wait(now, r.Since, r.Place, a.interval, 1)
}

// Start takes a place in the schedule.
func (a *AIMD) Start(now time.Time, r pace.Request) {
	a.begin()
	a.line.Start(now, r.Since, a.interval, 1)
}

// Observe adjusts the rate and the next start.
func (a *AIMD) Observe(now time.Time, o pace.Outcome) (rest time.Duration) {
	switch {
	case o.Sent.IsZero(): // never sent
		a.line.Shift(-a.interval)
	case o.Verdict == pace.Served:
		a.set(a.rate + schedule.Or(a.Step, 0.01))
	case o.Verdict == pace.Throttled && !o.Sent.Before(a.cut):
		a.cut = now
		a.set(a.rate * min(schedule.Or(a.Cut, 0.5), 1))
	}
	return 0
}

// Learn adjusts the rate by feedback that belongs to no request.
func (a *AIMD) Learn(now time.Time, o pace.Outcome) {
	a.begin()
	a.Observe(now, o)
}

// begin sets the first rate, once.
func (a *AIMD) begin() {
	if a.rate == 0 {
		a.rate = a.within(schedule.Or(a.Initial, 10))
		a.interval = schedule.Interval(a.rate)
	}
}

// set changes the rate, and moves the next start to one new interval after the
// last.
func (a *AIMD) set(rate float64) {
	a.rate = a.within(rate)
	before := a.interval
	a.interval = schedule.Interval(a.rate)
	a.line.Shift(a.interval - before)
}

// within returns rate, held between Min and Max.
func (a *AIMD) within(rate float64) float64 {
	return min(max(rate, schedule.Or(a.Min, 1.0/60)), schedule.Or(a.Max, fastestAIMD), fastestAIMD)
}
