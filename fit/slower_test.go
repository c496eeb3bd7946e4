package fit_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/fit"
)

// slower answers the first requests of each connection in a millisecond and all others in 48,
// as a server does whose answers wait for the acknowledgement of the ones before.
type slower struct {
	quick int
	sent  []int // by connection
}

// run carries out a step: each connection sends one request after the other.
func (s *slower) run(step fit.Step) (answers []fit.Answer) {
	s.sent = append(s.sent, make([]int, max(step.AtOnce-len(s.sent), 0))...)
	free := make([]time.Time, step.AtOnce)
	for i := range step.N {
		c := i % step.AtOnce
		sent := step.At.Add(time.Duration(i) * step.Every)
		if sent.Before(free[c]) {
			sent = free[c]
		}
		took := 48*time.Millisecond + time.Duration(i%7)*50*time.Microsecond
		if s.sent[c] < s.quick {
			took = 1200 * time.Microsecond
		}
		s.sent[c]++
		free[c] = sent.Add(took)
		answers = append(answers, fit.Answer{Sent: sent, Ended: free[c]})
	}
	return answers
}

// A service whose answers become slower, by as much each, is no queue: a Plan finds out by
// many requests at once, and without these nothing is decided.
func TestSlowerIsNoQueue(t *testing.T) {
	for _, quick := range []int{1, 2, 4, 9} {
		begin := time.Unix(1000, 0)
		one := slower{quick: quick}
		log := one.run(fit.Step{At: begin, N: quick + 12, AtOnce: 1})
		if r := fit.Fit(log); r.Decided {
			t.Errorf("%d quick answers: %v is decided by a log of one after the other", quick, r.Candidates[0].Model)
		}
		var answers []fit.Answer
		s, now := slower{quick: quick}, begin
		for steps := 0; ; steps++ {
			step, more := (fit.Plan{Requests: 2000, AtOnce: 32}).Next(now, answers)
			if !more || steps == 100 {
				break
			}
			answers = append(answers, s.run(step)...)
			for _, a := range answers {
				if a.Ended.After(now) {
					now = a.Ended
				}
			}
		}
		if r := fit.Fit(answers); r.Candidates[0].Kind != fit.Unlimited {
			t.Errorf("%d quick answers: %d requests found %v, decided %t; want no limit", quick, len(answers), r.Candidates[0].Model, r.Decided)
		}
	}
}

// A queue is known by waits that differ, or by answers that come soon after a rest.
func TestQueueIsDecided(t *testing.T) {
	for _, c := range []struct {
		name          string
		rest, decided bool
		atOnce        int
	}{{"one after the other", false, false, 1}, {"with rests", true, true, 1}, {"24 at once", false, true, 24}} {
		now := time.Unix(1000, 0)
		free := now
		var log []fit.Answer
		for i := range 24 {
			if c.rest && i%6 == 0 {
				now = now.Add(time.Second)
			}
			if free.Before(now) {
				free = now
			}
			ended := free.Add(time.Millisecond + time.Duration(i%7)*50*time.Microsecond)
			log = append(log, fit.Answer{Sent: now, Ended: ended})
			free = free.Add(50 * time.Millisecond)
			if c.atOnce == 1 {
				now = ended
			}
		}
		if r := fit.Fit(log); r.Candidates[0].Kind != fit.Delay || r.Decided != c.decided {
			t.Errorf("%s: %v, decided %t (%s); want a queue, decided %t", c.name, r.Candidates[0].Model, r.Decided, r.Why, c.decided)
		}
	}
}

// TestQueueInTime: a Plan sends a slow queue no more at once than it answers in time, and
// finds its rate; without a Timeout it would wait for answers that are given up.
func TestQueueInTime(t *testing.T) {
	const timeout = 10 * time.Second
	for _, rate := range []float64{0.15, 0.3, 0.598, 1.4, 5, 40} {
		now := time.Unix(1000, 0)
		free, every := now, time.Duration(float64(time.Second)/rate)
		var answers []fit.Answer
		for {
			step, more := (fit.Plan{Requests: 2000, Refusals: 60, Time: 5 * time.Minute, AtOnce: 32, Timeout: timeout}).Next(now, answers)
			if !more {
				break
			}
			lines := make([]time.Time, step.AtOnce) // when each may send its next
			for i := range step.N {
				line := &lines[i%step.AtOnce]
				sent := later(later(step.At, *line), step.At.Add(time.Duration(i)*step.Every))
				free = later(free, sent)
				*line = free.Add(time.Millisecond + time.Duration(i%7)*50*time.Microsecond)
				free = free.Add(every)
				if took := line.Sub(sent); took > timeout {
					t.Fatalf("%v a second: an answer takes %v, want at most %v: %+v", rate, took, timeout, step)
				}
				answers, now = append(answers, fit.Answer{Sent: sent, Ended: *line}), later(now, *line)
			}
		}
		r := fit.Fit(answers)
		if best := r.Candidates[0]; !r.Decided || best.Kind != fit.Delay || math.Abs(best.Rate/rate-1) > 0.02 {
			t.Errorf("%v a second: %v, decided %t (%s)", rate, best.Model, r.Decided, r.Why)
		}
	}
}

// queued are the answers of a queue of that rate: 24 requests one after the other, and four times as many at
// once after a rest. Its work takes low to twice that.
func queued(rate float64, low time.Duration, r *rand.Rand) (answers []fit.Answer) {
	now := time.Unix(1000, 0)
	free, every := now, time.Duration(float64(time.Second)/rate)
	send := func(at time.Time) time.Time {
		free = later(free, at)
		ended := free.Add(low + time.Duration(r.Float64()*float64(low)))
		free = free.Add(every)
		answers = append(answers, fit.Answer{Sent: at, Ended: ended})
		return ended
	}
	for range 24 {
		now = send(now)
	}
	for range 4 {
		start := now.Add(3 * every)
		for range 24 {
			now = later(now, send(start))
		}
	}
	return answers
}

// TestQueueInterval: the interval of a queue's rate has the rate in it, as often as it says.
func TestQueueInterval(t *testing.T) {
	for _, low := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		const servers = 60
		in := 0
		for seed := range uint64(servers) {
			r := rand.New(rand.NewPCG(seed, 11))
			rate := logUniform(r, 0.5, 50)
			best := fit.Fit(queued(rate, low, r)).Candidates[0]
			if best.Kind == fit.Delay && best.RateIn.Low <= rate && rate <= best.RateIn.High {
				in++
			}
		}
		if in < servers*9/10 {
			t.Errorf("work of %v: %d of %d rates are in their interval", low, in, servers)
		}
	}
}

// TestToldTheSame: of a queue that tells always the same to remain, as of something else, that is not believed.
func TestToldTheSame(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 12))
		rate := logUniform(r, 0.5, 50)
		answers := queued(rate, time.Millisecond, r)
		for i := range answers {
			answers[i].Remaining, answers[i].HasRemaining, answers[i].Limit = 1, true, 1
		}
		if r := fit.Fit(answers); !r.Decided || r.Candidates[0].Kind != fit.Delay {
			t.Errorf("%v a second: %v, decided %t (%s)", rate, r.Candidates[0].Model, r.Decided, r.Why)
		}
	}
}
