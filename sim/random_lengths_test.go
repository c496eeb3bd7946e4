package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// missed plays run to its end, and reports whether in a window after the second a process
// was served nothing and another something.
func missed(run *Run, window time.Duration) (one bool, r Result) {
	var now time.Duration
	served := make([]int, len(run.procs))
	run.Watch = func(x Point) {
		if at := x.At / window; at != now {
			none, some := false, false
			for i, n := range served {
				none, some, served[i] = none || n == 0, some || n > 0, 0
			}
			one = one || now > 1 && none && some
			now = at
		}
		if !x.Sent && x.Verdict == pace.Served {
			served[x.Process]++
		}
	}
	for !run.Step(1_000_000) {
	}
	return one, run.Result()
}

// TestWindowsOfAnyLengthAtRandom draws windows of a second to a day, and logs, whose clients
// call without end until each could have been served 300 times: in how many is
// 0.95 of what the bound serves used, blind 0.85, at most 5 % refused, 10 %, Jain's index at
// least 0.95, 0.90, and no window missed by one that holds four requests for each? Four in
// ten hold fewer than four, of which few hold the other bars.
func TestWindowsOfAnyLengthAtRandom(t *testing.T) {
	p, err := ParsePolicy("adaptive-informed")
	if err != nil {
		t.Fatal(err)
	}
	kinds := []limit.Kind{limit.FixedWindow, limit.SlidingLog, limit.SlidingWindow, limit.SlidingSlots, limit.FirstHitWindow}
	lengths := []float64{1, 5, 10, 30, 60, 300, 900, 3600, 86400}
	var few, enough tally
	for seed := range uint64(400) {
		d := dice{rand.New(rand.NewPCG(seed, 23))}
		length, processes, latency := lengths[d.IntN(len(lengths))], int(d.log(1, 31)), d.log(1e-3, 10)
		l := limit.Limit{Kind: kinds[d.IntN(len(kinds))], Count: int64(d.log(1, 5000)), Period: time.Duration(length) * time.Second}
		rate := float64(l.Count) / length
		long, workers := max(300*float64(processes)/rate, 5*length), int(d.log(1, 21))+int(2*rate*latency/float64(processes))
		if long*rate > 12_000 || workers > 300 {
			continue
		}
		s := d.server(l, latency)
		s.Clients, s.Duration = []Group{{Processes: processes, Workers: workers}}, time.Duration(long*1e9)
		used, refused, fair := 0.95, 0.05, 0.95
		if !s.informed() {
			used, refused, fair = 0.85, 0.10, 0.90
		}
		one, r := missed(New(s, p, 1), l.Period)
		_, bound := missed(Bound(s, 1), l.Period)
		held := float64(r.Served) >= used*float64(bound.Served) && float64(r.Throttled) <= refused*float64(r.Sent) && r.Jain.V >= fair
		if l.Count < int64(4*processes) {
			few.add(s.informed(), held)
		} else {
			enough.add(s.informed(), held && (!one || latency > length/4))
		}
	}
	enough.check(t, 0.28, 0.37)
	few.check(t, 0.03, 0.09)
}
