package sim

import (
	"math"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// said is what an answer will say.
type said struct {
	verdict pace.Verdict
	final   bool
	crowded bool // refused for too many at once
	plain   bool // a refusal may be a failure
	down    bool // it came to a part that is down
	all     told // as one that does not know the limits apart reads it
	each    []told
	refused []bool // which of the limits did
}

// told is what is said of one limit.
type told struct {
	signal.Signal
	full pace.Opt[time.Duration] // when all of it remains again, if it comes back steadily
}

// Report returns what a caller of that limit reports.
func (t *told) Report() pace.Report {
	r := t.Signal.Report()
	r.Hints.Full = t.full
	return r
}

func verdictOnly(v pace.Verdict) told { return told{Signal: signal.Signal{Verdict: v}} }

// reset makes room for n limits.
func (s *said) reset(n int) {
	if cap(s.each) < n {
		s.each, s.refused = make([]told, n), make([]bool, n)
	}
	s.each, s.refused = s.each[:n], s.refused[:n]
	s.final, s.crowded, s.down, s.refused[0] = false, false, false, false
	s.all = told{}
}

// mute leaves nothing but the verdict.
func (s *said) mute() {
	s.all = verdictOnly(s.verdict)
	if len(s.each) > 1 {
		for i := range s.each {
			s.each[i] = verdictOnly(s.verdict)
		}
	}
}

// of is what is said of a limit. That of a single one is all there is.
func (s *said) of(i int) *told {
	if len(s.each) == 1 {
		return &s.all
	}
	return &s.each[i]
}

// tell fills in what the answer to a request says of the limits.
func (v *server) tell(now int64, f *flight, binding int, ok bool) {
	said := &f.said
	said.all.Verdict = said.verdict
	if len(said.each) > 1 {
		for i := range said.each {
			said.each[i], said.refused[i] = verdictOnly(said.verdict), false
		}
	}
	if v.Blur.Missing > 0 && v.random.unit() < v.Blur.Missing {
		said.crowded = false
		return
	}
	if v.Hints != (Hints{}) && len(v.Gap) == 0 && !said.crowded {
		v.tellLimits(now, said, binding)
		v.tellShare(now, f)
	}
	said.crowded = said.crowded && v.Hints.Crowded
	if v.announced > 0 && !ok {
		said.all.After = pace.Some(signal.Seconds(v.announced))
	}
	believe(&said.all)
	if len(said.each) > 1 {
		for i := range said.each {
			believe(&said.each[i])
		}
	}
}

// believe leaves of what is told what a client believes of it.
func believe(t *told) {
	if t.After.OK || t.Reset.OK {
		t.Signal = t.Believed()
	}
	if t.full.OK { // a client reads it as a reset, and knows that it is none
		t.full = signal.Signal{Reset: t.full}.Believed().Reset
	}
}

// tellLimits says of each limit what it decided, and of the one that binds what
// is for all.
func (v *server) tellLimits(now int64, said *said, binding int) {
	shown := binding
	for i := range said.each {
		q := &v.quotas[i]
		d := &v.decisions[i]
		if v.Blur.Stale > 0 {
			d = v.seen(now, i)
		}
		said.refused[i] = !d.OK
		v.hint(said.of(i), q, d, i == 0 && v.capacity.rate == 0)
		if v.quotas[shown].Costs && !q.Costs {
			shown = i // a token quota is no request rate
		}
	}
	if len(said.each) > 1 {
		said.all = said.each[shown]
		said.all.Verdict, said.all.After = said.verdict, said.each[binding].After
	}
}

// seen is the decision of a quota as hints that are not fresh show it.
func (v *server) seen(now int64, i int) *limit.Decision {
	d, h := v.decisions[i], v.cells[i]
	if !h.wasAsked || now-h.toldAt >= int64(v.Blur.Stale) {
		h.told, h.toldAt, h.wasAsked = d, now, true
	}
	d.Remaining, d.ResetAfter = h.told.Remaining, h.told.ResetAfter
	return &d
}

// tellShare says what the fair part of the process is.
func (v *server) tellShare(now int64, f *flight) {
	if !v.Hints.Share || v.Limit.Unlimited() {
		return
	}
	r := random(f.worker.number)
	v.crowds.Add(when(now), r.next())
	f.said.all.Share = pace.Some(v.fair(v.crowds.Estimate(when(now))))
	f.said.of(0).Share = f.said.all.Share
}

// fair is the part of each process of so many, in requests a second: of what is
// counted for each by itself all, of the rest an even part.
func (v *server) fair(active float64) float64 {
	part := v.Service.rate() / v.speed / active
	one := v.crowd
	one.processes = 1
	for i := range v.quotas {
		q := &v.quotas[i]
		if q.Limit.Unlimited() {
			continue
		}
		n := one.requests(&q.Quota, perSecond(q.Limit, whole(q.Limit, v.Nodes).Count), q.mean)
		if q.By != ByProcess {
			n /= active
		}
		part = min(part, n)
	}
	return part
}

// hint adds what this server tells of a limit, in whole seconds as header fields
// do, except Full, which is in milliseconds. A dry one is never refilled: a token in 36 years stands for none at all, and
// is no policy either, as clients ignore windows of more than a year.
func (v *server) hint(s *told, q *quota, d *limit.Decision, dry bool) {
	if q.part.Unlimited() {
		return
	}
	again, reset := d.RetryAfter, d.ResetAfter
	if dry {
		again, reset = limit.Never, limit.Never
	}
	if v.Hints.Remaining {
		s.Remaining = pace.Some(d.Remaining)
	}
	if v.Hints.RetryAfter && !d.OK && again != limit.Never {
		s.After = pace.Some(signal.Seconds(again))
	}
	switch {
	case !v.Hints.Reset:
	case d.OK:
		s.Reset = pace.Some(signal.Seconds(reset))
	case again != limit.Never: // the sooner of the two, as our Handler says it
		s.Reset = pace.Some(signal.Seconds(again))
	}
	if v.Hints.Policy && !dry {
		policy := q.part
		if v.Nodes > 1 {
			policy = q.Limit
		}
		s.Limit, s.Window = pace.Some(policy.Count), pace.Some(policy.Period)
		if most := policy.Max(); policy.Kind == limit.TokenBucket && most != policy.Count { // as our Handler says it
			s.Burst = pace.Some(most)
		}
	}
	if v.Hints.Full && !dry && q.fills() {
		s.sayFull(reset, q.part.Max())
	}
}

// sayFull says when a bucket is full, and of how many unless its policy has been told: it is no
// policy, as it has no window.
func (t *told) sayFull(in time.Duration, size int64) {
	t.full = pace.Some(milliseconds(in))
	if !t.Limit.OK {
		t.Limit = pace.Some(size)
	}
}

// milliseconds is d rounded up to them.
func milliseconds(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// meter adds up what the server could have served: the level it began with and
// the integral of its rate; for windows, sliding ones too, the permits of all
// that have begun, the last one pro rata.
type meter struct {
	rate   float64 // a second
	since  int64
	sum    float64
	finite bool
}

func (m *meter) begin(v *server, s *Scenario) {
	q := &v.quotas[v.main]
	bound := s.Bound()
	if m.finite = !math.IsInf(bound, 1); !m.finite {
		return
	}
	if q.Limit.Kind == limit.TokenBucket && !q.Limit.Unlimited() {
		level := q.take(v.clock(0), &held{}, limit.Ask{}).Remaining
		if v.main == 0 {
			level = max(0, v.level-v.Queue/int64(max(v.Nodes, 1))) // places to wait are no tokens
		}
		m.sum = v.crowd.requests(&q.Quota, float64(level)*float64(max(v.Nodes, 1)), q.mean)
	}
	m.sum += v.crowd.requests(&q.Quota, v.begun(q), q.mean)
	m.rate = bound
}

// begun is how much of the window of the start is of the time before it, by the
// server's clock: it is not used yet.
func (v *server) begun(q *quota) float64 {
	if k := q.Limit.Kind; q.Limit.Unlimited() || k != limit.FixedWindow && k != limit.CalendarWindow {
		return 0
	}
	left := q.take(v.clock(0), &held{}, limit.Ask{N: 1}).ResetAfter
	return float64(whole(q.Limit, v.Nodes).Count) * (1 - float64(left)/float64(q.Limit.Period))
}

func perSecond(l limit.Limit, count int64) float64 {
	return float64(count) / l.Period.Seconds()
}

// change is called once the server has its new rate.
func (m *meter) change(v *server, now int64) {
	m.sum = m.available(now)
	m.since, m.rate = now, v.Service.rate()/v.speed
	for i := range v.quotas {
		q := &v.quotas[i]
		if !q.Limit.Unlimited() {
			m.rate = min(m.rate, v.crowd.requests(&q.Quota, perSecond(q.Limit, whole(q.Limit, v.Nodes).Count), q.mean))
		}
	}
}

// speed is called once the server has its new speed.
func (m *meter) speed(v *server, now int64) {
	if m.finite {
		m.change(v, now)
	}
}

// available is what could have been served until now.
func (m *meter) available(now int64) float64 {
	return m.sum + m.rate*time.Duration(now-m.since).Seconds()
}
