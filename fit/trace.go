package fit

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// mostEvents is about how many events a trace has: more answers are merged into
// runs.
const mostEvents = 160

// A trace is what was seen in the order of the decisions, in seconds since the
// origin. Runs of answers served close together are one event.
type trace struct {
	origin  time.Time
	events  []event
	from    int     // of events, the first that costs something
	end     float64 // of the last answer
	latency float64 // median
	jitter  float64
	low     float64 // what no request is below: the network's
	least   float64 // what no served request is below: with the service's
	used    int     // answers
	served  int
	refused int
	atOnce  int  // the most in flight
	told    bool // some answer told what remains
	limit   float64
	merged  bool   // some answers to runs
	seen    []seen // for latencies
}

// An event is a run of n requests served, or one that was refused (n zero).
type event struct {
	from, to float64 // of the decisions, as best known
	lo, hi   float64 // between which the last was decided
	n        float64
	before   float64   // served in all events before
	slack    float64   // requests whose order with this one is not known
	inside   float64   // in flight: served, at least; refused, at most
	told     float64   // what remains after it; NaN if not told
	room     float64   // where told: those surely in flight and what remains, the count of a concurrency limit
	leaving  float64   // where told: how many more may be in flight
	vague    float64   // where told: requests whose order with this one is not known
	retry    float64   // seconds until it serves or resets; zero if not told
	times    []float64 // of each of a merged run; nil where they are even
}

// seen is one answer.
type seen struct {
	sent, ended, at float64
	refused         bool
	inside, leaving float64
	told            float64
	retry           float64
	limit           float64
}

// readTrace sorts and merges the answers.
func readTrace(answers []Answer) *trace {
	tr := &trace{}
	good := make([]Answer, 0, min(len(answers), MaxAnswers))
	for _, a := range answers {
		if !a.Ignored && !a.Ended.Before(a.Sent) && !a.Sent.IsZero() {
			good = append(good, a)
		}
	}
	slices.SortStableFunc(good, func(a, b Answer) int { return a.Sent.Compare(b.Sent) })
	if len(good) > MaxAnswers {
		good = good[len(good)-MaxAnswers:]
	}
	if len(good) == 0 {
		return tr
	}
	tr.origin, tr.used = good[0].Sent, len(good)
	for _, a := range good {
		tr.seen = append(tr.seen, readSeen(a, tr.origin))
	}
	tr.measure()
	tr.order()
	tr.merge()
	return tr
}

func readSeen(a Answer, origin time.Time) seen {
	s := seen{
		sent: a.Sent.Sub(origin).Seconds(), ended: a.Ended.Sub(origin).Seconds(),
		refused: a.Refused, told: math.NaN(), retry: max(a.RetryAfter.Seconds(), 0),
	}
	if s.retry == 0 {
		s.retry = max(a.Reset.Seconds(), 0)
	}
	if a.HasRemaining && a.Remaining >= 0 && a.Remaining < 1e12 {
		s.told = a.Remaining
	}
	if a.Limit > 0 && a.Limit < 1e12 {
		s.limit = a.Limit
	}
	return s
}

// measure finds the usual latency and its spread, and places each decision: half
// a usual latency after the request was sent, as that is what requests in flight
// have in common.
func (tr *trace) measure() {
	tr.latencies()
	tr.believe()
	for i := range tr.seen {
		s := &tr.seen[i]
		s.at = min(s.sent+tr.low/2, s.ended)
		if s.refused { // after all that may have been before it
			s.at = min(s.at+2*tr.jitter, max(s.at, s.ended))
			tr.refused++
		} else {
			tr.served++
		}
		if s.told == s.told {
			tr.told = true
		}
		tr.limit = max(tr.limit, s.limit)
	}
}

// believe leaves out what remains where each answer tells the same: it says nothing of what
// was used, and may be of something else.
func (tr *trace) believe() {
	least, most := math.Inf(1), math.Inf(-1)
	for _, s := range tr.seen {
		if s.told == s.told {
			least, most = min(least, s.told), max(most, s.told)
		}
	}
	for i := range tr.seen {
		if least == most {
			tr.seen[i].told = math.NaN()
		}
	}
}

// latencies finds the usual and the lowest latency, and their spread.
func (tr *trace) latencies() {
	var by [2][]float64 // latencies of the served and of the refused
	for _, s := range tr.seen {
		k := 0
		if s.refused {
			k = 1
		}
		by[k] = append(by[k], s.ended-s.sent)
		tr.end = max(tr.end, s.ended)
	}
	tr.low = math.Inf(1)
	for k, all := range by {
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		x := all[len(all)/20]
		if x < tr.low { // the quicker of them do not wait inside
			tr.low, tr.jitter = x, (all[len(all)*9/10]-x)/2
		}
		if k == 0 {
			tr.least = x
		}
		if k == 0 || len(by[0]) == 0 {
			tr.latency = all[len(all)/2]
		}
	}
}

// shortest is the shortest period that is told from a concurrency limit, in seconds.
func (tr *trace) shortest() float64 { return max(0.01, 2*tr.latency, 4*tr.jitter) }

// fastest is the highest rate that was tried, and some more.
func (tr *trace) fastest() float64 {
	return 4 * float64(tr.atOnce) / max(tr.latency, 1e-4)
}

// order sorts by decision, of those at one instant the served first, and counts
// how many were in flight with each.
func (tr *trace) order() {
	slices.SortStableFunc(tr.seen, func(a, b seen) int {
		if c := cmp.Compare(a.at, b.at); c != 0 || a.refused == b.refused {
			return c
		}
		if a.refused {
			return 1
		}
		return -1
	})
	tr.count()
}

// count counts how many were in flight with each.
func (tr *trace) count() {
	var ends []float64 // of the served in flight, a heap would be no faster: at most a few hundred
	for i := range tr.seen {
		s := &tr.seen[i]
		ends = slices.DeleteFunc(ends, func(e float64) bool { return e <= s.sent })
		tr.atOnce = max(tr.atOnce, len(ends)+1)
		if s.refused {
			s.inside = tr.perhaps(s, ends)
			continue
		}
		covered := 0.0
		for _, e := range ends { // surely still inside when this one was let in
			if e-tr.low/2-4*tr.jitter >= s.at {
				covered++
			}
		}
		s.inside, s.leaving = covered, float64(len(ends))-covered
		if len(ends) < 1024 {
			ends = append(ends, s.ended)
		}
	}
}

// perhaps counts those of the served in flight, which end at ends, that may still be
// inside when s is refused: an answer leaves the service a network's latency before it
// and a request come, whatever the parts of the two ways.
func (tr *trace) perhaps(s *seen, ends []float64) (n float64) {
	for _, e := range ends {
		if e-tr.low+4*tr.jitter >= s.sent {
			n++
		}
	}
	return n
}

// merge makes events of the answers.
func (tr *trace) merge() {
	gap := tr.gap()
	longest := float64(max(8, len(tr.seen)/64))
	before, late := 0.0, 0.0
	for i, s := range tr.seen {
		e := event{from: s.at, to: s.at, n: 1, before: before, inside: s.inside, told: s.told, retry: s.retry}
		e.lo, e.hi = max(s.sent, s.at-3*tr.jitter), min(s.ended, s.at+tr.jitter)
		if late := s.ended - s.sent - tr.usual(s.refused); late > 4*tr.jitter {
			e.hi = max(e.hi, min(s.ended, s.at+late)) // it may have waited for its decision
		}
		if s.refused {
			e.lo -= late
			e.n, e.slack = 0, tr.around(i, e.hi)
			tr.refusal(e)
			continue
		}
		if s.told == s.told {
			e.room, e.leaving, e.vague = s.inside+1+s.told, s.leaving, tr.around(i, e.hi)+tr.ahead(i, e.lo-3*tr.jitter)
		}
		before++
		late = max(e.hi-s.at-tr.jitter, 0)
		if k := len(tr.events) - 1; k >= 0 {
			last := &tr.events[k]
			if last.n > 0 && last.n < longest && s.at-last.to <= min(gap, tr.rest(last)) {
				last.to, last.lo, last.hi, last.told, last.room, last.leaving, last.vague = s.at, e.lo, max(last.hi, e.hi), e.told, e.room, e.leaving, e.vague
				last.n++
				tr.merged = true
				last.inside = max(last.inside, s.inside)
				continue
			}
		}
		tr.events = append(tr.events, e)
	}
	tr.crop()
	tr.date()
}

// crop leaves the latest events. What was served before them explains refusals among
// them, so the last of that stays, and costs nothing.
func (tr *trace) crop() {
	var before []event
	for i := len(tr.events) - 2*mostEvents - 1; i >= 0 && len(before) < 2*mostEvents; i-- {
		if e := tr.events[i]; e.n > 0 {
			e.told = math.NaN()
			before = append(before, e)
		}
	}
	slices.Reverse(before)
	tr.from = len(before)
	tr.events = append(before, tr.events[max(0, len(tr.events)-2*mostEvents):]...)
}

// date gives the merged runs the time of each of their requests: a log of thousands gives
// back as unevenly as they were sent.
func (tr *trace) date() {
	var times []float64
	for _, s := range tr.seen {
		if !s.refused {
			times = append(times, s.at)
		}
	}
	for i := range tr.events {
		if e := &tr.events[i]; e.n > 1 {
			e.times = times[int(e.before) : int(e.before)+int(e.n)]
		}
	}
}

// usual is what the quicker answers take.
func (tr *trace) usual(refused bool) float64 {
	if refused {
		return tr.low
	}
	return tr.least
}

// rest is the longest that a request may come after a run and still be one of it: runs
// are served about evenly.
func (tr *trace) rest(e *event) float64 {
	if e.n < 2 {
		return math.Inf(1)
	}
	return max(tr.latency, 16*(e.to-e.from)/(e.n-1))
}

// refusal adds a refusal. Of many in a row it keeps the first, the last, and
// those between that lie well apart: those in flight together say the same.
func (tr *trace) refusal(e event) {
	k := len(tr.events)
	run := k
	for run > 0 && tr.events[run-1].n == 0 && k-run < 64 {
		run--
	}
	if k-run >= 2 && e.to-tr.events[k-2].to < max(tr.latency, 0.05*(e.to-tr.events[run].to)) {
		tr.events[k-1] = e
		return
	}
	tr.events = append(tr.events, e)
}

// around is how many were served just after answer i, up to the time at: they
// may have been decided before it.
func (tr *trace) around(i int, at float64) (n float64) {
	for _, s := range tr.seen[i+1:] {
		if s.at > at {
			break
		}
		if !s.refused {
			n++
		}
	}
	return n
}

// ahead is how many were served just before answer i, from the time at on: they may have
// been decided after it.
func (tr *trace) ahead(i int, at float64) (n float64) {
	for i--; i >= 0 && tr.seen[i].at >= at; i-- {
		if !tr.seen[i].refused {
			n++
		}
	}
	return n
}

// gap is the longest gap between two served answers that are merged.
func (tr *trace) gap() float64 {
	var gaps []float64
	for i := 1; i < len(tr.seen); i++ {
		if a, b := tr.seen[i-1], tr.seen[i]; !a.refused && !b.refused {
			gaps = append(gaps, b.at-a.at)
		}
	}
	if len(gaps) <= mostEvents/2 {
		return -1
	}
	slices.Sort(gaps)
	return gaps[len(gaps)-mostEvents/2]
}
