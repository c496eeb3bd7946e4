package sim

import (
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// server decides with package limit and says what package signal reads.
type server struct {
	Server
	limit  limit.Limit
	state  limit.State
	log    limit.Log // instead of state, of a SlidingLog
	crowd  limit.Cardinality
	random *random

	asked    int64 // requests that arrived
	last     int64 // when the one before arrived
	served   int64 // to anyone
	level    int64 // what was left after the last decision
	capacity meter
	scaled   int64 // served when the auto-scaler last looked
	// announced is what refusals say to wait; zero: what the limit makes of it.
	announced time.Duration
}

// dry is the period of a bucket that never refills: as long as package limit
// can tell all its tokens apart, at most a token in 36 years. Check holds it to
// be longer than the run.
func dry(burst int64) time.Duration {
	const most = int64(36 * 365 * 24 * time.Hour / time.Microsecond)
	return time.Duration(min(most, 1<<58/max(burst, 1))) * time.Microsecond
}

func newServer(s Server, r *random) *server {
	v := &server{Server: s, limit: s.Limit, random: r}
	v.limit = refill(s.Limit, s.Limit.Count, s.Limit.Period)
	if start := s.Start; start.OK && v.limit.Kind == limit.TokenBucket && !v.limit.Unlimited() {
		missing := max(v.limit.Burst-start.V, 0)
		v.take(0, limit.Ask{Limit: v.limit, N: missing, Debt: true})
	}
	v.level = v.take(0, limit.Ask{Limit: v.limit}).Remaining
	v.capacity.begin(v.limit, s.Limit.Count, v.level)
	return v
}

// take asks the limit.
func (v *server) take(now int64, a limit.Ask) (d limit.Decision) {
	if a.Limit.Kind == limit.SlidingLog {
		return v.log.Take(when(now), a)
	}
	v.state, d = limit.Take(v.state, when(now), a)
	return d
}

// refill is l at another rate, with the same burst.
func refill(l limit.Limit, count int64, period time.Duration) limit.Limit {
	if l.Unlimited() {
		return l
	}
	if l.Burst == 0 {
		l.Burst = l.Count
	}
	l.Count, l.Period = count, period
	if count == 0 && l.Kind == limit.TokenBucket {
		l.Count, l.Period = 1, dry(l.Burst)
	}
	return l
}

// change sets another rate; what was used stays used.
func (v *server) change(now int64, c Change) {
	next := refill(v.limit, c.Count, c.Period)
	v.state = limit.Change(v.state, when(now), v.limit, next)
	v.limit, v.announced = next, c.RetryAfter
	v.capacity.change(now, next, c.Count)
}

// rescale is the capacity that the auto-scaler wants, a second.
func (v *server) rescale() int64 {
	a := v.Scale
	rate := float64(v.served-v.scaled) / a.Every.Seconds() / a.Target
	v.scaled = v.served
	return min(max(int64(rate), a.Min), a.Max)
}

// answer decides on one request of a process, and returns what the client will read.
func (v *server) answer(now int64, process int) signal.Signal {
	v.asked++
	d := limit.Decision{OK: true}
	if len(v.Gap) > 0 {
		d.OK = v.apart(now)
	} else {
		d = v.take(now, limit.Ask{Limit: v.limit, N: 1})
		v.level = d.Remaining
	}
	v.last = now
	s := signal.Signal{Verdict: pace.Throttled}
	switch {
	case d.OK && v.Errors > 0 && v.random.unit() < v.Errors:
		s.Verdict = pace.Failed
	case d.OK:
		s.Verdict = pace.Served
		v.served++
	}
	if v.announced > 0 && !d.OK {
		s.After = pace.Some(signal.Seconds(v.announced))
	}
	if v.Hints != (Hints{}) {
		v.hint(&s, d)
		if v.Hints.Share && !v.limit.Unlimited() {
			r := random(process)
			v.crowd.Add(when(now), r.next())
			s.Share = pace.Some(v.capacity.rate / v.crowd.Estimate(when(now)))
		}
	}
	return s.Believed()
}

// apart reports whether the request before is longer ago than the gap.
func (v *server) apart(now int64) bool {
	least := time.Duration(0)
	for _, g := range v.Gap {
		if v.asked >= g.From {
			least = g.Least
		}
	}
	return v.asked == 1 || now-v.last > int64(least)
}

// hint adds what this server tells, in whole seconds as header fields do.
func (v *server) hint(s *signal.Signal, d limit.Decision) {
	if v.limit.Unlimited() {
		return
	}
	if v.capacity.rate == 0 { // a token in 36 years stands for none at all
		d.RetryAfter, d.ResetAfter = limit.Never, limit.Never
	}
	if v.Hints.Remaining {
		s.Remaining = pace.Some(d.Remaining)
	}
	if v.Hints.RetryAfter && !s.After.OK && !d.OK && d.RetryAfter != limit.Never {
		s.After = pace.Some(signal.Seconds(d.RetryAfter))
	}
	switch {
	case !v.Hints.Reset:
	case d.OK:
		s.Reset = pace.Some(signal.Seconds(d.ResetAfter))
	case d.RetryAfter != limit.Never: // the sooner of the two, as our Handler says it
		s.Reset = pace.Some(signal.Seconds(d.RetryAfter))
	}
	if v.Hints.Policy {
		s.Limit, s.Window = pace.Some(v.limit.Count), pace.Some(v.limit.Period)
	}
}

// meter adds up what the server could have served: the level it began with and
// the integral of its rate; for windows, which begin with the run, sliding ones
// too, the permits of all that have begun, the last one pro rata.
type meter struct {
	rate   float64 // a second
	since  int64
	sum    float64
	finite bool
}

func (m *meter) begin(l limit.Limit, count, level int64) {
	m.finite = !l.Unlimited()
	if !m.finite {
		return
	}
	if l.Kind == limit.TokenBucket {
		m.sum = float64(level)
	}
	m.rate = perSecond(l, count)
}

func perSecond(l limit.Limit, count int64) float64 {
	return float64(count) / l.Period.Seconds()
}

func (m *meter) change(now int64, l limit.Limit, count int64) {
	m.sum = m.available(now)
	m.since, m.rate = now, perSecond(l, count)
}

// available is what could have been served until now.
func (m *meter) available(now int64) float64 {
	return m.sum + m.rate*time.Duration(now-m.since).Seconds()
}
