package knee

import "testing"

// some are n parts of 100 requests with so many bad.
func some(n, bad int) (parts []Part) {
	for range n {
		parts = append(parts, Part{Sent: 100, Good: 100 - bad, Failed: bad})
	}
	return parts
}

func join(all ...[]Part) (parts []Part) {
	for _, p := range all {
		parts = append(parts, p...)
	}
	return parts
}

func TestWellFrom(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts []Part
		want  int
	}{
		{"well at once", some(20, 0), 0},
		{"well after twelve", join(some(12, 90), some(20, 0)), 12},
		{"never", some(40, 50), -1},
		{"well too shortly to know", join(some(30, 50), some(4, 0)), -1},
		{"a pause now and then", join(some(12, 90), some(9, 0), some(1, 20), some(9, 0), some(1, 20), some(3, 0)), 12},
		{"bad every other part", join(some(1, 0), some(1, 50), some(1, 0), some(1, 50), some(1, 0), some(1, 50), some(1, 0), some(1, 50),
			some(1, 0), some(1, 50)), -1},
	} {
		if got := wellFrom(c.parts); got != c.want {
			t.Errorf("%s: well from part %d, want %d", c.name, got, c.want)
		}
	}
}

func TestImproves(t *testing.T) {
	falling := some(30, 0)
	for i := range falling {
		falling[i].Mean = ms(3000 - 90*i)
	}
	answered := some(30, 0) // all slow, and from the middle on none fails
	for i := range answered {
		answered[i] = Part{Sent: 100, Slow: 40, Failed: 60, Mean: ms(4000)}
		if i >= 15 {
			answered[i].Slow, answered[i].Failed = 100, 0
		}
	}
	if !improves(answered) {
		t.Error("want a service that answers again, if late, to improve")
	}
	if improves(some(30, 90)) || !improves(falling) || !improves(join(some(20, 90), some(10, 40))) {
		t.Error("want what falls in latency or in errors to improve, and nothing else")
	}
}

// TestRecovery: how long it takes is what a queue of that length takes to drain.
func TestRecovery(t *testing.T) {
	c := cases[3] // 1600 a second, constant
	r := find(&Search{Objective: Objective{Latency: c.bound}}, c.service.start(1)).Recovery
	left := r.Pushed*r.For.Seconds() - 1600*r.For.Seconds()
	want := left / (1600 - r.Back)
	if r.Verdict != Recovers || r.After.Seconds() < 0.8*want-1 || r.After.Seconds() > 1.2*want+1 || r.Kept > 0.3 {
		t.Errorf("%+v, want to recover after about %.1f s, and a goodput that collapses while it is pushed", r, want)
	}
	r = find(&Search{Objective: Objective{Latency: cases[9].bound}}, cases[9].service.start(1)).Recovery
	if r.Verdict != Metastable || r.After < 25*1e9 {
		t.Errorf("%+v, want a metastable service", r)
	}
}

// TestFailuresOfRecovery: the overload and the watch after it, too, end at the bound on
// failures.
func TestFailuresOfRecovery(t *testing.T) {
	v := service{workers: 8, work: 0.01, spread: -1, queue: 300, thrashAt: 100, thrash: 2}
	s := Search{Objective: Objective{Latency: ms(250)}, Bounds: Bounds{Failures: 2000}}
	r := find(&s, v.start(1))
	if r.Recovery.Verdict != Metastable || r.Spent.Failures < 2000 || r.Spent.Failures > 2000+v.queue+v.workers {
		t.Errorf("%+v, spent %+v, want a metastable service, and some 2,000 failures", r.Recovery, r.Spent)
	}
}

// TestRested: a service that thrashes is well again after a rest, if what it has
// to do then is done.
func TestRested(t *testing.T) {
	v := service{workers: 8, work: 0.01, spread: -1, thrashAt: 200, thrash: 1.35}
	r := find(&Search{Objective: Objective{Latency: ms(250)}}, v.start(1)).Recovery
	if r.Verdict != Metastable || !r.Rested {
		t.Errorf("%+v, want a metastable service that a rest helps", r)
	}
}

func TestSearchConcurrency(t *testing.T) {
	for _, c := range []testCase{cases[1]} {
		o := Objective{Latency: c.bound}.withDefaults()
		truth := 0
		for n := 1; n < 200; n++ {
			out := c.service.start(uint64(n)).run(Trial{Concurrency: n, Duration: 20e9, Parts: 1}, o)
			if float64(out.Slow) > 0.01*float64(out.Sent) || float64(out.Failed+out.Refused) > o.Errors*float64(out.Sent) {
				break
			}
			truth = n
		}
		r := find(&Search{Objective: o, Concurrency: true}, c.service.start(1))
		if d := r.Knee.At - float64(truth); d*d > max(1, 0.01*float64(truth*truth)) || r.InFlight != r.Knee.At || r.Spent.Requests > 1_000_000 {
			t.Errorf("%s: knee %+v, spent %+v, want %d at a time", c.name, r.Knee, r.Spent, truth)
		}
		if rule := r.Rule(0); rule.Concurrency != int(r.Knee.At*0.8) {
			t.Errorf("%s: rule %+v, want a fifth below %v", c.name, rule, r.Knee.At)
		}
	}
}
