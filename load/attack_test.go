package load_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/load"
)

// attack lets a law see samples that no server would send in this order: clocks that
// step, times of a nanosecond or of days, wrong counts, all ends, and a Max that is
// changed meanwhile. It returns the time at the end.
func attack(t *testing.T, name string, seed uint64, law load.Law, most *int, now time.Time) time.Time {
	random := rand.New(rand.NewPCG(seed, 1))
	long := func() time.Duration { return time.Duration(1) << random.IntN(58) }
	for i := range 3000 {
		switch random.IntN(40) {
		case 0:
			now = now.Add(long())
		case 1:
			now = now.Add(-long())
		case 2:
			*most = random.IntN(1000) - 10
		default:
			now = now.Add(time.Duration(random.IntN(10_000_000)))
		}
		s := load.Sample{Now: now, Took: time.Duration(random.IntN(50_000_000)), InFlight: law.Limit(), End: load.End(random.IntN(4))}
		switch random.IntN(20) {
		case 0:
			s.Took = long()
		case 1:
			s.Took = -long()
		case 2:
			s.InFlight = random.IntN(2000) - 100
		case 3:
			s.Now = now.Add(-long() / 1000)
		}
		law.Observe(s)
		highest := 10_000
		if *most > 0 {
			highest = *most
		}
		if n := law.Limit(); n < 1 || n > highest {
			t.Fatalf("%s, seed %d: limit %d after sample %d, %+v; want 1 to %d", name, seed, n, i, s, highest)
		}
	}
	return now
}

// Whatever a law has seen, its limit is within 1 and Max, and Adaptive learns what
// comes then.
func TestLawsUnderAttack(t *testing.T) {
	for seed := range uint64(40) {
		aimd, vegas, gradient, adaptive := new(load.AIMD), new(load.Vegas), &load.Gradient2{Min: 1}, new(load.Adaptive)
		attack(t, "AIMD", seed, aimd, &aimd.Max, t0)
		attack(t, "Vegas", seed, vegas, &vegas.Max, t0)
		attack(t, "Gradient2", seed, gradient, &gradient.Max, t0)
		s := site{law: adaptive, workers: 16, each: 10 * ms}
		s.now = attack(t, "Adaptive", seed, adaptive, &adaptive.Max, t0)
		adaptive.Max = 0
		s.run(30_000)
		from := s.now
		mean := s.run(5000)
		if rate := 5000 / s.now.Sub(from).Seconds(); rate < 0.9*1600 || mean > 20*ms {
			t.Errorf("Adaptive, seed %d: %.0f/s of 1600/s within %v, limit %d, some 20 s after an attack; want nine tenths within 20ms", seed, rate, mean, adaptive.Limit())
		}
	}
}

// A wall clock that is set back, or ahead, does not keep base from being measured every
// 10 s, nor a server that becomes slower again from being believed.
func TestAdaptiveClockSteps(t *testing.T) {
	for _, step := range []time.Duration{-24 * time.Hour, -time.Hour, 0, time.Hour} {
		s := site{law: new(load.Adaptive), workers: 16, each: 10 * ms, now: t0}
		s.run(20_000)
		s.each = 30 * ms
		s.run(20_000)
		s.now, s.free, s.ends = s.now.Add(step), nil, nil
		probes, before := 0, s.law.Limit()
		for from := s.now; s.now.Sub(from) < 2*time.Minute; before = s.law.Limit() {
			if s.run(1); 4*s.law.Limit() <= 3*before {
				probes++
			}
		}
		if probes < 8 || probes > 16 {
			t.Errorf("%d probes in two minutes after a step of %v, want about 12", probes, step)
		}
		s.each = 90 * ms
		from := s.now
		s.run(2000)
		if rate, full := 2000/s.now.Sub(from).Seconds(), 16/s.each.Seconds(); rate < 0.7*full {
			t.Errorf("after a step of %v: %.0f/s of %.0f/s once the server became slower, want 0.7", step, rate, full)
		}
	}
}

// Virtual time may begin anywhere: at the zero time, before 1970, or beyond 2262, which
// nanoseconds do not count to.
func TestAdaptiveBeginsAnywhere(t *testing.T) {
	for _, from := range []time.Time{{}, time.Unix(-15, 0), time.Unix(0, 0), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)} {
		s := site{law: new(load.Adaptive), workers: 16, each: 10 * ms, now: from}
		s.run(20_000)
		began := s.now
		s.run(20_000)
		if rate := 20_000 / s.now.Sub(began).Seconds(); rate < 0.9*1600 {
			t.Errorf("from %v on: %.0f/s of 1600/s, limit %d; want nine tenths", from, rate, s.law.Limit())
		}
	}
}
