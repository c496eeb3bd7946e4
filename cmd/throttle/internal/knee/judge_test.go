package knee

import (
	"math"
	"testing"
	"time"
)

// flat is a trial with like parts.
func flat(rate float64, n, slow, failed int) Outcome {
	o := Outcome{Trial: Trial{Rate: rate, Duration: 20 * time.Second, Parts: 20}, Took: 20 * time.Second}
	for range 20 {
		p := Part{Sent: n, Slow: slow, Failed: failed, Good: n - slow - failed, Mean: 10 * time.Millisecond}
		o.Parts = append(o.Parts, p)
		o.Sent, o.Slow, o.Failed, o.Good = o.Sent+p.Sent, o.Slow+p.Slow, o.Failed+p.Failed, o.Good+p.Good
	}
	return o
}

func TestMet(t *testing.T) {
	o := Objective{Latency: 100 * time.Millisecond}.withDefaults()
	growing := flat(100, 100, 0, 0)
	for i := range growing.Parts {
		growing.Parts[i].Mean += time.Duration(i) * 200 * time.Millisecond
	}
	warm := flat(100, 100, 0, 0)
	warm.Parts[0].Slow, warm.Parts[0].Good = 90, 10
	clustered, spread := flat(100, 100, 0, 0), flat(100, 100, 2, 0)
	clustered.Parts[10].Slow, clustered.Parts[10].Good = 40, 60
	dropped := flat(100, 100, 0, 0)
	dropped.Dropped = 100
	for _, c := range []struct {
		name      string
		out       Outcome
		low, high float64
	}{
		{"nothing sent", Outcome{}, 0.5, 0.5},
		{"all good", flat(100, 100, 0, 0), 0.7, 1},
		{"twice as many slow as may be", spread, 0, 0.02},
		{"as many slow in one part", clustered, 0.02, 0.5},
		{"failures", flat(100, 100, 0, 1), 0, 0.01},
		{"latency that grows", growing, 0, 0.01},
		{"slow only while it warms up", warm, 0.7, 1},
		{"dropped by the generator", dropped, 0, 0.01},
		{"few requests say little", flat(1, 2, 0, 0), 0.45, 0.7},
	} {
		if got := o.met(c.out, 1); got < c.low || got > c.high {
			t.Errorf("%s: met with probability %.3f, want %v to %v", c.name, got, c.low, c.high)
		}
	}
	if wary := o.met(flat(100, 1000, 0, 0), 50); wary > o.met(flat(100, 1000, 0, 0), 1) {
		t.Errorf("a clean trial says %.3f beside clustered ones, want less than by itself", wary)
	}
	none := Objective{Latency: time.Second, Errors: -1}.withDefaults()
	if got := none.met(flat(100, 100, 0, 1), 1); got != 0 {
		t.Errorf("errors where none may be: met %v, want 0", got)
	}
}

// TestMetIsCalibrated: where the true share is drawn from around the bound, the
// objective is met as often as is said, or somewhat more often: it errs towards a
// lower knee.
func TestMetIsCalibrated(t *testing.T) {
	random := service{}.start(3).random
	var said, was, n [10]float64
	for range 4000 {
		share := 0.01 * math.Exp(2*random.Float64()-1)
		slow := 0
		for range 2000 {
			if random.Float64() < share {
				slow++
			}
		}
		p := within(float64(slow), 2000, 0.01)
		i := min(int(p*10), 9)
		if said[i], n[i] = said[i]+p, n[i]+1; share <= 0.01 {
			was[i]++
		}
	}
	for i := range n {
		if d := (was[i] - said[i]) / n[i]; n[i] > 100 && (d < -0.05 || d > 0.25) {
			t.Errorf("said %.2f on average, was %.2f, of %v", said[i]/n[i], was[i]/n[i], n[i])
		}
	}
}

func TestGammaBelow(t *testing.T) {
	for _, c := range []struct{ a, x, want float64 }{
		{1, 1, 1 - math.Exp(-1)},
		{0.5, 0.5, math.Erf(math.Sqrt(0.5))},
		{0.5, 8, math.Erf(math.Sqrt(8))},
		{2, 3, 1 - 4*math.Exp(-3)},
		{3, 0, 0},
		{1, 40, 1},
	} {
		if got := gammaBelow(c.a, c.x); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("P(%v, %v) = %v, want %v", c.a, c.x, got, c.want)
		}
	}
	for _, a := range []float64{100, 1e4, 1e6} { // the median is near a - 1/3
		if got := gammaBelow(a, a-1.0/3); math.Abs(got-0.5) > 0.01 {
			t.Errorf("P(%v, a-1/3) = %v, want about 0.5", a, got)
		}
	}
}

func TestBelief(t *testing.T) {
	b := between(100, 200)
	if k := b.interval(); k.Low < 80 || k.High > 250 || k.At < 120 || k.At > 165 {
		t.Errorf("before any trial %+v, want about the bracket", k)
	}
	for range 6 { // all say that the bracket was wrong by far
		b.update(b.quantile(0.5), 0.99)
	}
	if k := b.interval(); k.At < 200 {
		t.Errorf("after trials that were all good %+v, want above 200", k)
	}
	b = between(100, 200)
	b.update(150, 0.01) // one that met a pause
	for range 4 {
		b.update(150, 0.9)
	}
	if k := b.interval(); k.Low < 150 {
		t.Errorf("one bad trial of five at 150: %+v, want above 150", k)
	}
}

func TestTrusted(t *testing.T) {
	o := Objective{Latency: 100 * time.Millisecond}
	late, few := flat(100, 100, 0, 0), flat(1000, 20, 0, 0)
	late.Late = 11 * time.Millisecond
	if !o.trusted(flat(100, 100, 0, 0)) || o.trusted(late) || o.trusted(few) {
		t.Error("want to trust a generator that keeps its schedule, and none that is late or sends too few")
	}
}
