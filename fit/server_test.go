package fit_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/limit"
)

// A server is a rate limiter drawn at random, with a network before it.
type server struct {
	truth  fit.Model
	rate   float64 // served for long, a second
	others float64 // requests a second of other callers
	clock  time.Duration
	delay  time.Duration // one way
	jitter time.Duration
	hold   time.Duration // service
	random *rand.Rand

	told   bool    // whether answers tell what remains
	left   float64 // what remained after the last
	limit  limit.Limit
	state  limit.State
	log    limit.Log
	inside int
	free   time.Time // of a queue
	next   time.Time // of the others
	odd    odd
}

// draw makes server number seed.
func draw(seed uint64) *server {
	r := rand.New(rand.NewPCG(seed, 7))
	s := &server{random: r}
	s.clock = time.Duration(r.Int64N(int64(4*time.Second))) - 2*time.Second
	s.delay = time.Duration(logUniform(r, 0.5, 10) * 1e6)
	s.jitter = time.Duration(float64(s.delay) * logUniform(r, 0.02, 0.5))
	s.hold = time.Duration(logUniform(r, 0.5, 10) * 1e6)
	s.rate = logUniform(r, 10.0/3600, 1000)
	s.drawKind()
	if r.IntN(4) == 0 && s.limit.Period > 0 {
		s.others = s.rate * logUniform(r, 0.01, 0.1)
	}
	return s
}

func logUniform(r *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, r.Float64())
}

func (s *server) drawKind() {
	r, m := s.random, &s.truth
	switch k := r.IntN(15); k {
	case 0:
		return
	case 1, 2:
		m.Kind, m.InFlight = fit.Concurrency, int(logUniform(r, 1, 100))
		s.hold = time.Duration(logUniform(r, 10, 300) * 1e6)
	case 3, 4:
		m.Kind, m.Rate, m.Burst = fit.Delay, s.rate, math.Floor(logUniform(r, 1, 20))
	case 5, 6, 7:
		m.Kind, m.Burst = fit.TokenBucket, math.Round(logUniform(r, 1, 500))
		s.limit = limit.Limit{Count: 1e6, Period: time.Duration(1e15 / s.rate), Burst: int64(m.Burst)}
		m.Rate = s.rate
	default:
		s.drawWindow(k)
	}
}

func (s *server) drawWindow(k int) {
	r, m := s.random, &s.truth
	period := []float64{1, 10, 60, 900, 3600}[r.IntN(5)]
	if r.IntN(2) == 0 {
		period = math.Round(logUniform(r, 1, 3600)*100) / 100
	}
	m.Count = math.Round(s.rate * period)
	if m.Count < 5 || m.Count > 3000 {
		s.rate = logUniform(r, 10.0/3600, 1000)
		s.drawWindow(k)
		return
	}
	m.Period = time.Duration(period * 1e9)
	s.rate = m.Count / period
	switch k {
	case 8, 9:
		m.Kind, s.limit.Kind = fit.FixedWindow, limit.FixedWindow
		m.Phase = ((-s.clock)%m.Period + m.Period) % m.Period
	case 10, 11:
		m.Kind, m.FromFirst, s.limit.Kind = fit.FixedWindow, true, limit.FirstHitWindow
	case 12, 13:
		m.Kind, s.limit.Kind = fit.SlidingLog, limit.SlidingLog
	default:
		m.Kind, s.limit.Kind = fit.SlidingCounter, limit.SlidingWindow
		m.Phase = ((-s.clock)%m.Period + m.Period) % m.Period
	}
	s.limit.Count, s.limit.Period = int64(m.Count), m.Period
}

// take asks the limiter at the caller's time now.
func (s *server) take(now time.Time) bool {
	at := now.Add(s.clock)
	if s.limit.Period <= 0 {
		return true
	}
	if s.odd.refuses(s, now, at) {
		return false
	}
	ask := limit.Ask{Limit: s.limit, N: 1}
	if s.limit.Kind == limit.SlidingLog {
		d := s.log.Take(at, ask)
		s.left = float64(d.Remaining)
		return d.OK
	}
	var d limit.Decision
	s.state, d = limit.Take(s.state, at, ask)
	s.left = float64(d.Remaining)
	return d.OK
}

// decide answers one request at now: ok, and after which time.
func (s *server) decide(now time.Time) (ok bool, after time.Duration) {
	if s.others > 0 {
		if s.next.IsZero() || now.Sub(s.next) > 24*time.Hour {
			s.next = now.Add(-min(2*s.limit.Period, time.Hour)) // they came before
			s.arrive()
		}
		for k := 0; s.next.Before(now) && k < 100_000; k++ {
			s.take(s.next)
			s.arrive()
		}
	}
	hold := time.Duration(float64(s.hold) * (1 + 0.1*s.random.Float64()))
	switch s.truth.Kind {
	case fit.Concurrency:
		if s.inside >= s.truth.InFlight {
			s.left = 0
			return false, 0
		}
		s.inside++
		s.left = float64(s.truth.InFlight - s.inside)
		return true, hold
	case fit.Delay:
		gap := time.Duration(1e9 / s.truth.Rate)
		s.free = later(s.free, now)
		wait := max(0, s.free.Sub(now)-time.Duration((s.truth.Burst-1)*float64(gap)))
		s.free = s.free.Add(gap)
		return true, wait + hold
	}
	if !s.take(now) {
		return false, s.odd.slow
	}
	s.inside++
	return true, hold
}

// arrive is when the next request of others comes.
func (s *server) arrive() {
	s.next = s.next.Add(time.Duration(s.random.ExpFloat64() / s.others * 1e9))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// happening is something at a time: a request arrives at the server, leaves it,
// or its answer arrives at the caller.
type happening struct {
	at   time.Time
	what byte // 'a'rrives, 'l'eaves, 'e'nds
	i    int
}

type queue []happening

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(happening)) }
func (q *queue) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

func (s *server) oneWay() time.Duration {
	if s.odd.stall > 0 && s.random.Float64() < s.odd.stall {
		return s.delay + time.Duration(s.random.Float64()*40e6)
	}
	return s.delay + time.Duration(s.random.Float64()*float64(s.jitter))
}

// run does one step in virtual time and returns its answers, and when the last
// of them came.
func (s *server) run(step fit.Step) (answers []fit.Answer, end time.Time) {
	var q queue
	now, flying, refused := step.At, 0, 0
	send := func() {
		for len(answers) < step.N && flying < step.AtOnce && refused < max(step.Refusals, 1) {
			at := later(now, step.At.Add(time.Duration(len(answers))*step.Every))
			heap.Push(&q, happening{at.Add(s.oneWay()), 'a', len(answers)})
			answers = append(answers, fit.Answer{Sent: at})
			flying++
			if at.After(now) { // not before its time: wait for it
				break
			}
		}
	}
	for send(); q.Len() > 0; send() {
		h := heap.Pop(&q).(happening)
		now = h.at
		a := &answers[h.i]
		switch h.what {
		case 'a':
			ok, after := s.decide(now)
			a.Remaining, a.HasRemaining = s.left, s.told && (s.limit.Period > 0 || s.truth.Kind == fit.Concurrency)
			s.odd.tell(a, ok)
			if a.Refused = !ok; ok {
				heap.Push(&q, happening{now.Add(after), 'l', h.i})
			} else {
				heap.Push(&q, happening{now.Add(after + s.oneWay()), 'e', h.i})
			}
		case 'l':
			s.inside--
			heap.Push(&q, happening{now.Add(s.oneWay()), 'e', h.i})
		case 'e':
			a.Ended = now
			flying--
			if a.Refused {
				refused++
			}
		}
	}
	return answers, now
}

// An outcome is what the planner and the estimator made of a server.
type outcome struct {
	*server
	fit.Result
	steps, sent, refused int
	took                 time.Duration
	answers              []fit.Answer
}

// identify runs the whole loop.
func identify(s *server, p fit.Plan) (o outcome) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s.random.Int64N(int64(7 * 24 * time.Hour))))
	now := begin
	o.server = s
	for o.steps < 90 {
		step, more := p.Next(now, o.answers)
		if !more {
			break
		}
		got, end := s.run(step)
		o.answers = append(o.answers, got...)
		now = end
		o.steps++
	}
	o.Result = fit.Fit(o.answers)
	o.sent, o.took = len(o.answers), now.Sub(begin)
	for _, a := range o.answers {
		if a.Refused {
			o.refused++
		}
	}
	return o
}

// kindDecided reports whether the kind is, if not its parameters.
func (o *outcome) kindDecided() bool {
	return o.Decided || strings.Contains(o.Why, "is known only to")
}

// right reports whether the kind was found, and its parameters within 5 %.
func (o *outcome) right() (kind, params bool) {
	got, want := o.Candidates[0].Model, o.truth
	if kind = got.Kind == want.Kind && got.FromFirst == want.FromFirst; !kind {
		return false, false
	}
	within := func(got, want, least float64) bool { return math.Abs(got-want) <= max(0.05*math.Abs(want), least) }
	switch want.Kind {
	case fit.TokenBucket, fit.Delay:
		rate := min(max(got.Rate, want.Rate-o.others), want.Rate) // what others leave is all that can be seen
		return true, within(got.Rate, rate, 0) && within(got.Burst, want.Burst, 0.5)
	case fit.Concurrency:
		return true, within(float64(got.InFlight), float64(want.InFlight), 0.5)
	case fit.Unlimited:
		return true, true
	}
	params = within(got.Count, want.Count, 0.5) && within(got.Period.Seconds(), want.Period.Seconds(), 0)
	if want.Kind == fit.FixedWindow && !want.FromFirst || want.Kind == fit.SlidingCounter {
		edge := o.Candidates[0].Edge.UnixNano() % int64(want.Period)
		off := math.Abs(math.Remainder(float64(edge-int64(want.Phase)), float64(want.Period)))
		params = params && off < 0.05*float64(want.Period)
	}
	return true, params
}
