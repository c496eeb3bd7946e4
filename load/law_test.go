package load_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttle-go/throttle/load"
)

// site is a server of so many workers, first come, first served, that is as full
// as a law allows.
type site struct {
	law     load.Law
	workers int
	each    time.Duration
	more    time.Duration // that it takes for each other in flight
	misses  func() bool   // whether a request takes longer than that: 50 times; nil: none does
	now     time.Time
	free    []time.Time // when each worker is
	count   int
	ends    []sample // in the order in which they end
}

type sample struct{ sent, end time.Time }

// run lets requests start and end until n have ended, and returns how long they
// took on average.
func (s *site) run(n int) time.Duration {
	var sum time.Duration
	for range n {
		for len(s.ends) < s.law.Limit() {
			i := len(s.free)
			if i < s.workers {
				s.free = append(s.free, s.now)
			} else {
				i = 0
				for k := range s.free {
					if s.free[k].Before(s.free[i]) {
						i = k
					}
				}
			}
			if s.free[i].Before(s.now) {
				s.free[i] = s.now
			}
			s.count++
			_, part := math.Modf(float64(s.count) * 0.618)
			took := s.each + time.Duration(len(s.ends))*s.more
			if s.misses != nil && s.misses() {
				took *= 50
			}
			s.free[i] = s.free[i].Add(time.Duration(float64(took) * (0.8 + 0.4*part)))
			s.ends = append(s.ends, sample{s.now, s.free[i]})
			slices.SortStableFunc(s.ends, func(a, b sample) int { return a.end.Compare(b.end) })
		}
		e := s.ends[0]
		s.ends, s.now = s.ends[1:], e.end
		took := e.end.Sub(e.sent)
		sum += took
		s.law.Observe(load.Sample{Now: s.now, Took: took, InFlight: len(s.ends) + 1, End: load.Served})
	}
	return sum / time.Duration(n)
}

// Requests that take 50 times as long as others, as those that miss a cache, are in few
// windows and in few probes. A window without one does not show that base is lower, so
// it does not make a queue of the next one.
func TestAdaptiveCacheMisses(t *testing.T) {
	for _, part := range []int{10, 20, 50} {
		for seed := range uint64(2) {
			random := rand.New(rand.NewPCG(seed, 6))
			s := site{law: new(load.Adaptive), workers: 16, each: 2 * ms, now: t0, misses: func() bool { return random.IntN(part) == 0 }}
			s.run(20_000)
			from, each := s.now, 2*(1+49/float64(part)) // ms, on average
			mean := s.run(40_000)
			full := 16 / each * 1000
			rate := 40_000 / s.now.Sub(from).Seconds()
			t.Logf("one of %d misses: %.2f of %.0f/s, within %v on average", part, rate/full, full, mean)
			if most := time.Duration(4 * each * float64(ms)); rate < 0.85*full || mean > most {
				t.Errorf("seed %d, one of %d misses: %.0f/s of %.0f/s within %v on average, want 0.85 of it within %v", seed, part, rate, full, mean, most)
			}
		}
	}
}

// Adaptive finds how many a server works on, and follows its speed.
func TestAdaptive(t *testing.T) {
	s := site{law: new(load.Adaptive), workers: 64, each: 10 * ms, now: t0}
	for _, each := range []time.Duration{10 * ms, 100 * ms, 20 * ms} {
		s.each = each
		s.run(30_000)
		mean, limit := s.run(30_000), s.law.Limit()
		if mean > 13*each/10 || limit < 50 || limit > 90 {
			t.Errorf("64 workers of %v: limit %d, %v on average; want about 64, and less than a third of a queue", each, limit, mean)
		}
	}
}

// Where each takes longer for the others in flight, up to 10,000 a second, a
// Slowdown of s gets 1 - 1/s of those, at a latency of s to 2 s times base, as the
// answers by which it learns base are not alone in flight.
func TestAdaptiveSlowdown(t *testing.T) {
	for _, c := range []struct{ slowdown, least, most float64 }{
		{0, 0.4, 0.7}, {1, 0.4, 0.7}, {math.NaN(), 0.4, 0.7}, {4, 0.75, 0.94}, {6, 0.83, 0.96},
	} {
		s := site{law: &load.Adaptive{Slowdown: c.slowdown}, workers: 300, each: ms, more: ms / 10, now: t0}
		s.run(10_000)
		from := s.now
		mean := s.run(10_000)
		part := 10_000 / s.now.Sub(from).Seconds() / 10_000
		if part < c.least || part > c.most || c.slowdown > 1 && mean.Seconds() > 2.5e-3*c.slowdown {
			t.Errorf("Slowdown %v: %.2f of the throughput, %v on average; want %v to %v, and at most %.3gms", c.slowdown, part, mean, c.least, c.most, 2.5*c.slowdown)
		}
	}
}

// Time-outs bound what Slowdown allows for a minute, and no longer.
func TestAdaptiveSlowdownAfterTimeOuts(t *testing.T) {
	s := site{law: &load.Adaptive{Slowdown: 6}, workers: 300, each: ms, more: ms / 10, now: t0}
	part := func(after time.Duration) float64 {
		s.now, s.free, s.ends = s.now.Add(after), nil, nil
		s.run(10_000)
		from := s.now
		s.run(5000)
		return 5000 / s.now.Sub(from).Seconds() / 10_000
	}
	before := part(0)
	for range 100 {
		s.now = s.now.Add(ms)
		s.law.Observe(load.Sample{Now: s.now, Took: 8 * ms, InFlight: s.law.Limit(), End: load.Failed})
	}
	soon, late := part(0), part(time.Minute)
	if soon > 0.9*before || late < 0.97*before {
		t.Errorf("%.2f of the throughput, %.2f after time-outs and %.2f a minute later; want less, and then as much", before, soon, late)
	}
}

// A server that becomes slower is still looked at by the wall clock, every 20 s
// where a probe lasts long.
func TestAdaptiveProbesSlowServer(t *testing.T) {
	s := site{law: new(load.Adaptive), workers: 8, each: 10 * ms, now: t0}
	s.run(20_000)
	s.each = 100 * ms
	s.run(8000)
	probes, before := 0, s.law.Limit()
	for begun := s.now; s.now.Before(begun.Add(4 * time.Minute)); {
		s.run(1)
		n := s.law.Limit()
		if 4*n <= 3*before {
			probes++
		}
		before = n
	}
	if probes < 10 || probes > 30 {
		t.Errorf("%d probes in 4 minutes, want about 12", probes)
	}
}

// A clock too coarse for the first answers, which shows zero latencies, does not
// keep the limit from being learnt from the others.
func TestAdaptiveZeroLatency(t *testing.T) {
	s := site{law: new(load.Adaptive), workers: 64, each: 10 * ms, now: t0}
	for range 50 {
		s.law.Observe(load.Sample{Now: t0, InFlight: 10, End: load.Served})
	}
	s.run(50_000)
	if got := s.law.Limit(); got < 50 || got > 90 {
		t.Errorf("limit %d for 64 workers after answers in no time, want about 64", got)
	}
}

// A Max that is lowered while it runs binds at once, one that is raised lets the
// limit grow again.
func TestAdaptiveMaxChanges(t *testing.T) {
	law := new(load.Adaptive)
	s := site{law: law, workers: 64, each: 10 * ms, now: t0}
	s.run(50_000)
	before := law.Limit()
	if law.Max = 20; before <= 20 || law.Limit() != 20 {
		t.Errorf("limit %d, and %d once Max is 20, want 20", before, law.Limit())
	}
	s.run(1)
	if law.Max = 0; law.Limit() > 20 {
		t.Errorf("limit %d as soon as Max is raised, want growth in steps from 20", law.Limit())
	}
	law.Max = 20
	for range 5000 {
		if s.run(1); law.Limit() > 20 {
			t.Fatalf("limit %d with a Max of 20", law.Limit())
		}
	}
	law.Max = 0
	s.run(50_000)
	if got := law.Limit(); got < 50 {
		t.Errorf("limit %d once Max is raised, want %d or so", got, before)
	}
}

// Cuts by refusals count towards the three that make it look at base, however
// many there are in a window.
func TestAdaptiveProbesAfterCuts(t *testing.T) {
	s := site{law: new(load.Adaptive), workers: 64, each: 10 * ms, now: t0}
	s.run(70_000) // 11 s: the last probe was at this limit
	for range 4 {
		s.now = s.now.Add(ms)
		s.law.Observe(load.Sample{Now: s.now, Took: 1, InFlight: 64, End: load.Refused})
	}
	limit := s.law.Limit()
	for range 2 * limit {
		if s.run(1); s.law.Limit() <= limit*6/10 {
			return
		}
	}
	t.Errorf("no probe in two windows after four cuts: limit %d, and then %d", limit, s.law.Limit())
}

// What is cancelled, and what fails fast, teaches nothing; a refusal lowers the
// limit, once a round trip; time-outs halve it.
func TestAdaptiveEnds(t *testing.T) {
	s := site{law: new(load.Adaptive), workers: 64, each: 10 * ms, now: t0}
	s.run(20_000)
	at := s.law.Limit()
	end := func(took time.Duration, e load.End) int {
		s.law.Observe(load.Sample{Now: s.now, Took: took, InFlight: at, End: e})
		return s.law.Limit()
	}
	for range 1000 {
		if end(ms, load.Ignored) != at || end(time.Minute, load.Ignored) != at || end(ms, load.Failed) != at {
			t.Fatalf("limit %d after what teaches nothing, want %d", s.law.Limit(), at)
		}
	}
	s.now = s.now.Add(time.Second)
	refused := end(ms, load.Refused)
	if refused < at*8/10 || refused >= at || end(ms, load.Refused) != refused {
		t.Errorf("limit %d and %d after two refusals of one round trip, want a tenth less than %d, once", refused, s.law.Limit(), at)
	}
	s.now = s.now.Add(time.Second)
	for range at {
		end(600*ms, load.Failed)
	}
	if got := s.law.Limit(); got < refused/2-1 || got > refused/2 {
		t.Errorf("limit %d after a round trip of time-outs, want half of %d", got, refused)
	}
	for range 10 {
		s.now = s.now.Add(time.Second)
		for range at {
			end(600*ms, load.Failed)
		}
	}
	if got := s.law.Limit(); got != 1 {
		t.Errorf("limit %d after 11 round trips of time-outs, want 1", got)
	}
}

// Before the first answer a fast failure cannot be told from a time-out, so that
// both lower the limit, down to 1; it is back within a hundred answers.
func TestAdaptiveFailsAtStart(t *testing.T) {
	for _, took := range []time.Duration{ms / 2, 600 * ms} {
		s := site{law: new(load.Adaptive), workers: 64, each: 10 * ms, now: t0}
		for range 20 {
			s.now = s.now.Add(time.Second)
			s.law.Observe(load.Sample{Now: s.now, Took: took, InFlight: 5, End: load.Failed})
		}
		down := s.law.Limit()
		s.run(100)
		if got := s.law.Limit(); down != 1 || got < 10 {
			t.Errorf("limit %d after failures of %v, and %d after 100 answers; want 1, and 10 or more", down, took, got)
		}
	}
}

// While the server works off what was abandoned, answers are slow but come: the
// limit does not grow before they are as fast as before.
func TestAdaptivePaysOff(t *testing.T) {
	s := site{law: new(load.Adaptive), workers: 8, each: 10 * ms, now: t0}
	s.run(5000)
	for range 8 {
		s.now = s.now.Add(time.Second)
		for range 20 {
			s.law.Observe(load.Sample{Now: s.now, Took: 600 * ms, InFlight: 1, End: load.Failed})
		}
	}
	if got := s.law.Limit(); got != 1 {
		t.Fatalf("limit %d after time-outs for 8 s, want 1", got)
	}
	s.ends = nil
	for i := range s.free { // half a second of work for nobody
		s.free[i] = s.now.Add(500 * ms)
	}
	if took := s.run(1); took < 500*ms || s.law.Limit() != 1 {
		t.Errorf("limit %d after an answer that took %v, want 1", s.law.Limit(), took)
	}
	s.run(500)
	if got := s.law.Limit(); got < 7 {
		t.Errorf("limit %d once it is worked off, want 8 or so", got)
	}
}

// Where it is not what binds, it does not grow.
func TestAdaptiveIdle(t *testing.T) {
	var law load.Adaptive
	now := t0
	for range 10_000 {
		now = now.Add(10 * ms)
		law.Observe(load.Sample{Now: now, Took: 10 * ms, InFlight: 2, End: load.Served})
	}
	if got := law.Limit(); got > 10 {
		t.Errorf("limit %d with 2 in flight, want 10 at most", got)
	}
}

// Every law keeps within 1 and Max, whatever it observes.
func FuzzLaws(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03abcdefgh\xff\xfe"), uint8(20))
	f.Add([]byte{3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1}, uint8(0))
	f.Fuzz(func(t *testing.T, script []byte, most uint8) {
		m := int(most)
		laws := []load.Law{&load.Adaptive{Max: m}, &load.AIMD{Max: m}, &load.Vegas{Max: m}, &load.Gradient2{Min: 1, Max: m}}
		if m == 0 {
			m = 10_000
		}
		now := t0
		for _, b := range script {
			now = now.Add(time.Duration(b) * ms / 7)
			for _, law := range laws {
				for range 1 + b%13 {
					took := time.Duration(b%64) * time.Duration(b) * ms / 16
					law.Observe(load.Sample{Now: now, Took: took, InFlight: 1 + int(b)%law.Limit(), End: load.End(b % 4)})
					if n := law.Limit(); n < 1 || n > m {
						t.Fatalf("%T: limit %d, want 1 to %d", law, n, m)
					}
				}
			}
		}
	})
}

// The laws of others move as they are published.
func TestPublishedLaws(t *testing.T) {
	fast := load.Sample{Now: t0, Took: 10 * ms, InFlight: 50, End: load.Served}
	slow, failed := fast, fast
	slow.Took, failed.End = 1000*ms, load.Failed
	for _, c := range []struct {
		law         load.Law
		start       int
		first, next load.Sample
		after       int // the second
	}{
		{new(load.AIMD), 10, fast, fast, 12},
		{new(load.AIMD), 10, fast, failed, 9},                   // min(11-1, 11 · 0.9)
		{&load.AIMD{Timeout: 500 * ms}, 10, fast, slow, 9},      // as good as failed
		{new(load.Vegas), 20, fast, fast, 26},                   // no queue: 6 log10
		{new(load.Vegas), 20, fast, slow, 19},                   // a queue of 20: less 1
		{new(load.Vegas), 20, fast, failed, 19},                 // the same
		{new(load.Gradient2), 20, fast, fast, 21},               // 20 and twice 0.2 · 4
		{&load.Gradient2{Min: 1}, 20, fast, slow, 20},           // 20.8 · 0.8 + 0.2 · (20.8 · 0.757 + 4)
		{&load.Gradient2{Min: 20, Max: 20}, 20, fast, fast, 20}, // bounded
	} {
		if got := c.law.Limit(); got != c.start {
			t.Errorf("%T begins at %d, want %d", c.law, got, c.start)
		}
		c.law.Observe(c.first)
		c.law.Observe(c.next)
		if got := c.law.Limit(); got != c.after {
			t.Errorf("%T: %d after %v and %v of %v, want %d", c.law, got, c.first.Took, c.next.End, c.next.Took, c.after)
		}
	}
}
