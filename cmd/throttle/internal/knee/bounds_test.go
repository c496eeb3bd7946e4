package knee

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
	"time"
)

var fast = service{workers: 8, work: 0.01, spread: 0.5}

func TestStop(t *testing.T) {
	bound := Objective{Latency: ms(250)}
	for _, c := range []struct {
		name    string
		search  Search
		service service
		want    Stop
	}{
		{"the bound is below the work", Search{Objective: Objective{Latency: ms(5)}}, fast, Never},
		{"more than may be offered", Search{Objective: bound, Bounds: Bounds{Most: 300}}, fast, NoMore},
		{"requests", Search{Objective: bound, Bounds: Bounds{Requests: 5000}}, fast, TooManySent},
		{"time", Search{Objective: bound, Bounds: Bounds{Time: 20 * time.Second}}, fast, TooLong},
		{"no time for the first trial", Search{Objective: bound, Bounds: Bounds{Time: 2 * time.Second}}, fast, TooLong},
		{"failures", Search{Objective: bound, Bounds: Bounds{Failures: 20}}, service{workers: 8, work: 0.01, queue: 1}, TooManyFailed},
		{
			"requests that are refused at once",
			Search{Objective: bound, Concurrency: true, Bounds: Bounds{Requests: 20_000, Failures: 20_000}},
			service{workers: 8, work: 0.01, queue: 4},
			TooManySent,
		},
		{"a service that goes down", Search{Objective: bound}, service{workers: 8, work: 0.01, thrashAt: 50, thrash: 1000}, Down},
		{"found", Search{Objective: bound, Bounds: Bounds{Recovery: -1}}, fast, Found},
		{"no bound on latency", Search{Bounds: Bounds{Recovery: -1}}, fast, Found},
	} {
		r := find(&c.search, c.service.start(1))
		b := c.search.bounds
		if c.want == TooLong && b.Time < 3*time.Second && r.Spent.Trials != 0 {
			t.Errorf("%s: %d trials, want none", c.name, r.Spent.Trials)
		}
		if r.Stop != c.want {
			t.Errorf("%s: stopped for %q with %+v, want %q", c.name, r.Stop, r.Knee, c.want)
		}
		inFlight := c.service.workers + c.service.queue
		if r.Spent.Requests > b.Requests || r.Spent.Time > b.Time+time.Minute || r.Spent.Failures > b.Failures+inFlight {
			t.Errorf("%s: spent %+v, want within %+v", c.name, r.Spent, b)
		}
	}
}

func TestAtLeast(t *testing.T) {
	r := find(&Search{Objective: Objective{Latency: ms(250)}, Bounds: Bounds{Most: 300}}, fast.start(1))
	if !r.AtLeast || r.Knee != (Interval{300, 300, 300}) || r.Recovery.Verdict != Recovers || r.Recovery.Pushed != 300 {
		t.Errorf("%+v, want a knee of at least 300, and a service that recovers from that", r)
	}
}

// TestMost: an interval does not go beyond what may be offered.
func TestMost(t *testing.T) {
	s := Search{Objective: Objective{Latency: ms(250)}, Bounds: Bounds{Most: 810, Recovery: -1}}
	if r := find(&s, fast.start(1)); r.Knee.High > 810 || r.Knee.At < 700 {
		t.Errorf("%+v, want a knee of about 800, and at most 810", r.Knee)
	}
}

// TestLateGenerator: what a generator cannot send is no verdict on the service.
func TestLateGenerator(t *testing.T) {
	s := &Search{Objective: Objective{Latency: ms(250)}}
	v := service{workers: 64, work: 0.01}.start(1)
	for {
		trial, ok := s.Next()
		if !ok {
			break
		}
		o := v.run(trial, s.Objective)
		if trial.Rate > 500 { // 30 ms late, and more: what is sent seems slow
			o.Late = 300 * time.Millisecond
			o.Slow, o.Good = o.Good, 0
			for i := range o.Parts {
				o.Parts[i].Slow, o.Parts[i].Good = o.Parts[i].Good, 0
			}
		}
		s.Add(o)
	}
	r := s.Result()
	if r.Stop != TooLate || !r.AtLeast || r.Knee.At != 320 || !strings.Contains(r.Doubt, "late at the 99th percentile") {
		t.Errorf("knee %+v, stopped for %q, doubt %q; want at least 320, for the generator", r.Knee, r.Stop, r.Doubt)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		search Search
		want   string
	}{
		{Search{}, ""},
		{Search{Concurrency: true, Objective: Objective{Errors: -1}}, ""},
		{Search{Objective: Objective{Latency: -1}}, "latency -1ns"},
		{Search{Objective: Objective{Quantile: 1}}, "quantile 1"},
		{Search{Objective: Objective{Errors: math.NaN()}}, "errors NaN"},
		{Search{Bounds: Bounds{Start: 10, Most: 5}}, "first level 10"},
		{Search{Bounds: Bounds{Most: math.Inf(1)}}, "highest level +Inf"},
		{Search{Bounds: Bounds{Requests: -1}}, "bounds of -1 requests"},
	} {
		err := c.search.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.search.Bounds, err, c.want)
		}
		if _, ok := c.search.Next(); ok != (c.want == "") {
			t.Errorf("%q: a trial: %t", c.want, ok)
		}
	}
}

// TestNextWaits: Next gives the same trial until Add, and Add without one does
// nothing.
func TestNextWaits(t *testing.T) {
	var s Search
	s.Add(Outcome{Sent: 5})
	a, _ := s.Next()
	b, _ := s.Next()
	if a != b || a.Kind != Climb || a.Rate != 10 || s.Result().Spent != (Spent{}) {
		t.Errorf("first %+v, then %+v, after %+v", a, b, s.Result().Spent)
	}
}

// FuzzSearch adds outcomes of any kind: the search ends within its bounds, offers
// nothing above the highest level, and has no figure that is not a number.
func FuzzSearch(f *testing.F) {
	f.Add([]byte{0}, uint16(0), false)
	f.Add([]byte{255, 0, 255, 7, 1, 200, 100, 3, 9}, uint16(999), true)
	f.Add([]byte("good good bad good bad bad"), uint16(77), false)
	f.Fuzz(func(t *testing.T, said []byte, most uint16, concurrency bool) {
		s := Search{Concurrency: concurrency, Objective: Objective{Latency: ms(100)}, Bounds: Bounds{Most: 1 + float64(most)}}
		for n := 0; ; n++ {
			trial, ok := s.Next()
			if !ok {
				break
			}
			if n > 500 {
				t.Fatalf("%d trials, the next %+v", n, trial)
			}
			level := max(trial.Rate, float64(trial.Concurrency))
			if !(level > 0) || max(level, trial.Then) > s.Bounds.Most || trial.Duration <= 0 || trial.Parts < 1 || trial.Parts > 64 ||
				trial.MostSent < 1 || trial.MostFailed < 1 || trial.MostBad < 0 || trial.Rest < 0 {
				t.Fatalf("trial %d is %+v, at most %v", n, trial, s.Bounds.Most)
			}
			s.Add(anything(said, n, trial))
		}
		r := s.Result()
		figures := []float64{r.Knee.Low, r.Knee.At, r.Knee.High, r.Capacity, r.InFlight, r.Recovery.Kept, r.Recovery.Back, r.Recovery.Pushed}
		for _, p := range r.Curve {
			figures = append(figures, p.Level, p.Offered, p.Served, p.Goodput, p.Errors, p.Met)
		}
		for _, x := range figures {
			if !(x >= 0) || math.IsInf(x, 0) {
				t.Fatalf("%v in %+v", x, r)
			}
		}
		if k := r.Knee; r.Stop == "" || k.Low > k.At || k.At > k.High || k.High > s.Bounds.Most {
			t.Fatalf("stopped for %q with %+v, at most %v", r.Stop, k, s.Bounds.Most)
		}
		if rule := r.Rule(0); rule.Concurrency < 0 || rule.Limit.Count < 0 || r.Knee.At > 0 && rule.Concurrency == 0 {
			t.Fatalf("rule %+v of %+v", rule, r.Knee)
		}
	})
}

// anything is an outcome made of bytes; most often a plausible one.
func anything(said []byte, n int, trial Trial) Outcome {
	at := func(i int) int {
		if len(said) == 0 {
			return 0
		}
		return int(said[(n*7+i)%len(said)])
	}
	sent := int(max(trial.Rate, float64(trial.Concurrency)) * trial.Duration.Seconds())
	bad := sent * at(0) / 255
	o := Outcome{
		Trial: trial, Took: trial.Duration, Elapsed: trial.Duration, Sent: sent, Good: sent - bad,
		Mean: ms(at(1)), P50: ms(at(1)), P99: ms(at(2)), Late: time.Duration(at(3)/16) * time.Millisecond, Drained: at(4)&1 == 0,
	}
	switch at(5) % 4 {
	case 0:
		o.Slow = bad
	case 1:
		o.Failed = bad
	case 2:
		o.Refused, o.Dropped = bad, at(6)
	default: // nonsense
		o.Sent, o.Good = int(int64(binary.LittleEndian.Uint64([]byte{byte(at(0)), 0, 0, 0, 0, byte(at(1)), 0, byte(at(2))}))), -at(3)
		o.Took, o.Mean = time.Duration(-at(4)), time.Duration(math.MaxInt64)
	}
	for i := range at(6) % 70 {
		o.Parts = append(o.Parts, Part{Sent: o.Sent / 20, Good: o.Good / 20, Slow: o.Slow / 20, Failed: o.Failed / 20, Mean: ms(at(i))})
	}
	return o
}
