package fit

import (
	"math"
	"slices"
	"time"
)

// Plan decides what to send next to identify a rate limiter with few refusals.
// The zero Plan is ready to use. It keeps no state: the answers so far are all
// that Next reads. It is safe for concurrent use.
type Plan struct {
	// Requests is the largest number of requests to send. If zero or below,
	// 20,000.
	Requests int
	// Refusals is about the largest number of refusals to cause; a step in flight
	// may exceed it by its AtOnce. If zero or below, 5 % of Requests, at least 10.
	Refusals int
	// Time is the longest time from the first request to the last, which a step
	// in flight may exceed by the time of its answers. If zero or below, a day.
	Time time.Duration
	// AtOnce is the largest number of requests in flight. If zero or below, 128.
	AtOnce int
	// Timeout is how long an answer may take. A server that delays is sent no more at once
	// than it answers in half of it. If zero or below, as many as AtOnce.
	Timeout time.Duration
}

// Step states the next requests to send: begin at At, send at most N requests, at least
// Every apart, at most AtOnce in flight, and send no more once Refusals of them
// were refused. Then wait for all answers and call Next again.
type Step struct {
	// At is when to begin, not before the now given to Next.
	At time.Time
	// N is the largest number of requests, at least 1.
	N int
	// Every is the time between two requests. If zero, as fast as AtOnce allows.
	Every time.Duration
	// AtOnce is the largest number in flight, at least 1.
	AtOnce int
	// Refusals ends the step after so many, at least 1.
	Refusals int
	// Why states the aim of the step in a few words.
	Why string
}

func (p Plan) filled() Plan {
	if p.Requests <= 0 {
		p.Requests = 20_000
	}
	if p.Refusals <= 0 {
		p.Refusals = max(p.Requests/20, 10)
	}
	if p.Time <= 0 {
		p.Time = 24 * time.Hour
	}
	if p.AtOnce <= 0 {
		p.AtOnce = 128
	}
	return p
}

// Next returns the next step at the time now, given the answers so far in any
// order. It returns false where Fit decides, six runs of served requests have ended
// in refusals, and no other kind may fit by chance; and where the budget ends.
func (p Plan) Next(now time.Time, answers []Answer) (step Step, more bool) {
	p = p.filled()
	if len(answers) == 0 {
		return Step{At: now, N: min(4, p.Requests), AtOnce: 1, Refusals: 1, Why: "the usual latency"}, true
	}
	tr := readTrace(answers)
	left := p.Requests - len(answers)
	if left <= 0 || tr.refused >= p.Refusals || now.Sub(tr.origin) > p.Time {
		return Step{}, false
	}
	step, more = p.next(tr, now, left)
	rest := p.Time - step.At.Sub(tr.origin)
	if !more || rest < 0 {
		return Step{}, false
	}
	if step.Every > 0 {
		step.N = min(step.N, 1+int(rest/step.Every))
	}
	return step, true
}

// next is the next step, which may begin too late.
func (p Plan) next(tr *trace, now time.Time, left int) (step Step, more bool) {
	if wait, ok := tr.poll(); ok {
		return Step{At: now.Add(seconds(wait)), N: 1, AtOnce: 1, Refusals: 1, Why: "the first to come back"}, true
	}
	all := tr.weighAll()
	if all[0].p.kind != Unlimited && why(tr, all, sure) == "" {
		if all[0].p.long() <= 0 || all[0].p.kind == Delay || !tr.doubted(all) {
			return p.again(tr, &all[0], now, left)
		}
	}
	if tr.refused == 0 || all[0].steady {
		return p.ramp(tr, all, now, left)
	}
	return p.hunt(tr, all, now, left)
}

// hunt looks for the step that tells the most.
func (p Plan) hunt(tr *trace, all []weighed, now time.Time, left int) (Step, bool) {
	begun := max(now.Sub(tr.origin).Seconds(), tr.end+0.06*tr.starved())
	h := hunt{
		tr: tr, gs: tr.guesses(all), now: begun, left: float64(left),
		until: p.Time.Seconds(), atOnce: float64(p.AtOnce), lead: all[0],
	}
	t, ok := h.best()
	if !ok {
		return Step{}, false
	}
	return t.step(tr.origin, now), true
}

// ramp sends twice as many as before, twice as many at once, until something is
// refused or delayed.
func (p Plan) ramp(tr *trace, all []weighed, now time.Time, left int) (Step, bool) {
	n := min(max(tr.served, 4), left)
	if tr.served > p.Requests*3/5 {
		return Step{}, false
	}
	if all[0].p.kind == Delay {
		return p.queue(tr, &all[0], now, left), true
	}
	atOnce := min(max(tr.served/8, 1), p.AtOnce)
	return Step{At: now, N: n, AtOnce: atOnce, Refusals: 1, Why: "the order of magnitude"}, true
}

// poll is how long to wait for the next try where nothing sent since the first
// refusal was served: as long again as refusals have lasted.
func (tr *trace) poll() (wait float64, ok bool) {
	refused := math.Inf(1)
	for _, s := range tr.seen {
		if s.refused {
			refused = min(refused, s.ended)
		}
	}
	for _, s := range tr.seen {
		if !s.refused && s.sent >= refused {
			return 0, false
		}
	}
	return max(tr.latency, 0.7*(tr.end-refused)), tr.refused > 0
}

// starved is how long nothing was served, at the end; zero if the last was.
func (tr *trace) starved() float64 {
	for i := len(tr.events) - 1; i >= 0; i-- {
		if tr.events[i].n > 0 {
			return tr.events[len(tr.events)-1].to - tr.events[i].to
		}
	}
	return 0
}

// seconds is x as a Duration, bounded.
func seconds(x float64) time.Duration {
	return time.Duration(min(max(x, 0), 1e9) * 1e9)
}

func (t *trial) step(origin, now time.Time) Step {
	at, n := t.at, t.n
	if t.first > 0 {
		at, n = t.before, t.first
	}
	s := Step{At: origin.Add(seconds(at)), N: int(n), AtOnce: int(max(t.atOnce, 1)), Refusals: 1, Why: t.why}
	if s.At.Before(now) {
		s.At = now
	}
	if t.why == whyPaced {
		s.Every = seconds(t.every)
	}
	if t.why == whyAtOnce {
		s.Refusals = s.N
	}
	return s
}

const (
	whyDrain  = "when and how much comes back"
	whyPart   = "a part now, the rest across an edge"
	whyPaced  = "the rate that is served for long"
	whyAtOnce = "how many at once"
	whyAgain  = "the same once more"
)

// A hunt looks for the trial that tells the most for its cost.
type hunt struct {
	tr     *trace
	gs     []guess
	lead   weighed
	now    float64
	left   float64
	until  float64
	atOnce float64

	speed   float64 // seconds between requests sent as fast as is of use
	flight  float64 // requests in flight at that speed
	most    float64 // the largest count
	waits   []float64
	got     []float64
	bestT   trial
	bestUse float64
}

func (h *hunt) best() (trial, bool) {
	if len(h.gs) == 0 {
		return trial{}, false
	}
	h.prepare()
	h.drains()
	h.atOnceTrials()
	h.paced()
	h.parts()
	return h.bestT, h.bestUse > 1e-4
}

// prepare finds the speed to drain at, and the times at which guesses differ.
func (h *hunt) prepare() {
	rate := 0.0
	for i := range h.gs {
		g := &h.gs[i]
		h.most = max(h.most, g.p.n)
		if off := h.gs[0].cost - g.cost; off > -3 {
			rate = max(rate, g.p.long())
		}
		h.waits = append(h.waits, max(g.ready, h.now), max(g.idle, h.now))
	}
	latency := max(h.tr.latency, 1e-4)
	h.flight = min(max(math.Ceil(4*rate*latency), 1), h.atOnce)
	h.speed = latency / h.flight
	slices.Sort(h.waits)
	h.waits = between(h.waits, h.now, max(h.tr.jitter, latency/2))
}

// between are now, the times, and the middles of two neighbours, at most about
// fifty.
func between(times []float64, now, apart float64) (all []float64) {
	all = append(all, now)
	last := now
	for _, t := range times {
		if d := t - last; d > max(0.004*(t-now), apart) {
			all = append(all, (last+t)/2, t+max(0.01*(t-now), apart))
			last = t
		}
	}
	if len(times) > 0 {
		last := times[len(times)-1]
		all = append(all, last+max(0.02*(last-now), apart))
	}
	for len(all) > 60 {
		k := 0
		for i := 0; i < len(all); i += 2 {
			all[k], k = all[i], k+1
		}
		all = all[:k]
	}
	return all
}

func (h *hunt) drains() {
	for _, at := range h.waits {
		for _, n := range [...]float64{1, math.Ceil(1.2*h.most) + 4} {
			h.try(trial{at: at, n: n, every: h.speed, atOnce: h.flight, why: whyDrain})
		}
	}
}

// atOnceTrials send a batch with nothing in flight, to read a concurrency limit.
func (h *hunt) atOnceTrials() {
	for i := range h.gs {
		if g := &h.gs[i]; g.p.kind == Concurrency {
			for _, at := range [...]float64{h.now, h.waits[len(h.waits)-1]} {
				for _, n := range [...]float64{g.p.n, g.p.n + 1, 2*g.p.n + 1} {
					h.try(trial{at: at, n: min(n, h.atOnce), atOnce: min(n, h.atOnce), why: whyAtOnce})
				}
			}
		}
	}
}

// paced sends evenly at rates between those of the guesses.
func (h *hunt) paced() {
	rates := h.rates()
	last := 0.0
	for _, r := range rates {
		if r < last*1.01 {
			continue
		}
		for _, x := range [...]float64{(r + last) / 2, r * 1.1, r * 2} {
			every := max(1/x, h.tr.latency/h.atOnce)
			t := trial{at: h.now, every: every, atOnce: min(math.Ceil(2*h.tr.latency/every), h.atOnce), why: whyPaced}
			for _, t.n = range [...]float64{math.Ceil(h.most*2) + 16, min(30*h.most+30, h.left/4)} {
				h.try(t)
			}
		}
		last = r
	}
}

// rates are what the guesses serve for long, sorted.
func (h *hunt) rates() (rates []float64) {
	for i := range h.gs {
		p := &h.gs[i].p
		if r := p.long(); r > 0 {
			rates = append(rates, r)
		}
		if p.kind == Concurrency { // as many again before the first leaves
			rates = append(rates, p.n/max(h.tr.latency, 1e-4), 1.7*p.n/max(h.tr.latency, 1e-4))
		}
	}
	slices.Sort(rates)
	return rates
}

// parts send a part of the count and the rest later: so a window that began with
// the first request, or at an edge, is told from one that slides.
func (h *hunt) parts() {
	var kinds [8]bool
	for i := range h.gs {
		g := &h.gs[i]
		if g.p.period <= 0 || g.kind >= len(kinds) || kinds[g.kind] {
			continue
		}
		kinds[g.kind] = true
		for _, before := range [...]float64{h.now, h.now + 0.5*g.p.period, h.waits[len(h.waits)-1]} {
			for _, share := range [...]float64{0.25, 0.6, 0.75} {
				h.part(g.p.period, before, math.Max(1, math.Floor(share*g.p.n)))
			}
		}
	}
}

// part sends the first of a count at the time before, and the rest at several
// parts of a period later, once or twice.
func (h *hunt) part(period, before, first float64) {
	t := trial{first: first, before: before, n: math.Ceil(1.2*h.most) + 4, every: h.speed, atOnce: h.flight, why: whyPart}
	ended := before + 1.1*h.tr.latency + first*h.speed // all answers are in
	for _, k := range [...]float64{0.3, 0.55, 0.8, 0.97, 1.1, 1.5} {
		t.at, t.last = max(before+k*period, ended), 0
		h.try(t)
	}
	t.at = max(before+0.6*period, ended)
	t.last = max(before+1.12*period, t.at+1.1*h.tr.latency)
	h.try(t)
}

// try keeps t if it is of more use for its cost than the best so far.
func (h *hunt) try(t trial) {
	t.n, t.stay = min(t.n, h.left-t.first), h.tr.latency-h.tr.low
	t.spread = 2 * h.tr.jitter
	if t.n < 1 || max(t.at, t.last) > h.until {
		return
	}
	h.got = h.got[:0]
	sent, weight := 0.0, 0.0
	for i := range h.gs {
		x := h.gs[i].predict(&t)
		h.got = append(h.got, x)
		sent += h.gs[i].weight * max(x, 1)
		weight += h.gs[i].weight
	}
	sent = sent/weight + t.first
	elapsed := max(t.at, t.last) - h.now + sent*max(t.every, 1e-6)
	cost := 5 + t.atOnce/8 + sent/max(30, float64(h.tr.served)/4) + elapsed/max(1, h.tr.end/3)
	if use := h.told() / (weight * weight) / cost; use > h.bestUse {
		h.bestUse, h.bestT = use, t
	}
}

// told is how much a trial tells: the weight of the pairs of guesses that answer
// it differently.
func (h *hunt) told() (sum float64) {
	for i, x := range h.got {
		for j := range h.got[:i] {
			y := h.got[j]
			d := math.Abs(x-y) - 0.5
			if d <= 0 {
				continue
			}
			a, b := &h.gs[i], &h.gs[j]
			part := min(1, d/(1+0.03*max(x, y)))
			if a.kind == b.kind {
				part *= 0.5
			}
			sum += part * a.weight * b.weight
		}
	}
	return sum
}
