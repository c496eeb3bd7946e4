package pace

import "math"

// first bounds the requests in flight until the limit shows. Hundreds of workers that wake
// together must not all be refused when they meet it. But a slow answer, a stream or a hanging
// connection is no refusal, and must not hold up the others for long. So as many may be in flight
// as were served, or as the hints allow; beyond those 1, 2, 4 and 8, doubling every 0.35 s, and
// then doubling every 2 s. A round trip that ended takes half of that back, as some are always in flight.
type first struct {
	served  float64 // requests served before the first row
	began   float64 // when the first of those in flight started
	roundAt float64 // when the last round trip ended: one that started since the one before was answered
	endedAt float64 // when a request last ended
	idle    float64 // seconds in which none was in flight, until the rate began to pace
}

const (
	doubling      = 0.35         // seconds for a flight to double,
	earlyFlight   = 7.0          // while at most so many are beyond those served;
	early         = 3 * doubling // seconds, for so many
	laterDoubling = 2.0          // seconds from there on,
	roundBack     = 0.5          // less this part of the time until a round trip ended
	sampleOf      = 10.0         // requests, or seconds, of a full sample before the first refusal
	firstRate     = 1.0          // requests a second, if the very first answer is a refusal
	mostFew       = 4.0          // a rate that calls bound is taken for so many times itself at most
)

// fewCalls returns how many times the rate until s could have been higher, had calls not been so
// few that none was in flight for some of the time.
func (f *first) fewCalls(s float64) float64 { return 1 / max(1-f.idle/max(s, 0.05), 1/mostFew) }

// next returns the earliest start of another request beside flying others; the hints allow lead
// in flight. Where a policy of so many a second is stated, others may come to it at the same
// time: then a quarter of those served may be in flight, or what the policy serves in a round
// trip; the next waits for an answer, for patience or four round trips at most.
func (f *first) next(flying int, lead, policy, rtt float64) float64 {
	most, least, later := max(f.served, lead), 0.0, f.began+early
	if policy > 0 {
		most = max(f.served/4, lead)
		if float64(flying) > max(most, policy*rtt) {
			least = f.roundAt + max(patience, 4*rtt)
		}
	} else {
		later += roundBack * max(f.roundAt-later, 0)
	}
	switch beyond := float64(flying) - most; {
	case beyond <= 0:
		return least
	case beyond <= earlyFlight:
		return max(least, f.began+doubling*math.Log2(beyond+1))
	default:
		return max(least, later+laterDoubling*math.Log2((beyond+1)/(earlyFlight+1)))
	}
}

// measure counts requests served before the first refusal, in samples of ten requests or ten
// seconds, and longer than a second.
func (a *Adaptive) measure(s float64) {
	if long := s - a.rowAt; long > 1 && (a.accepted >= sampleOf || long > sampleOf) {
		a.unpacedRate = a.accepted / long
		a.rowAt, a.accepted = s, 0
	}
	a.accepted++
	a.first.served++
}

// measured returns the rate to start with: that of the last full sample, or half of what was
// served in this one, as it may have come from a burst. Where calls are few, it was they that
// bounded it, and not the limit.
func (a *Adaptive) measured(s, sent, served float64) float64 {
	rate := firstRate * a.weight()
	if served > 0 || a.unpacedRate > 0 {
		from := s
		if a.rowAt == 0 {
			from = sent // the first answers took a round trip
		}
		rate = max(a.unpacedRate, 0.5*served/max(from-a.rowAt, a.rtt/2, 0.05)) * a.first.fewCalls(s)
	}
	if c := a.level.binding(); c > 0 {
		if a.unpacedRate == 0 && a.accepted < sampleOf || a.first.fewCalls(s) > mostFew/2 {
			rate = max(rate, c/4)
		}
		rate = min(rate, c)
	}
	if part := a.share.agreed * a.weight(); part > 0 { // but no further than by leap: the server may be wrong
		rate = min(max(part, rate/leap), rate*leap)
	}
	return rate
}
