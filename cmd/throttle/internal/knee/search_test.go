package knee

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// find runs a search against a service.
func find(s *Search, v *service) Result {
	for {
		t, ok := s.Next()
		if !ok {
			return s.Result()
		}
		s.Add(v.run(t, s.Objective))
	}
}

// sweep is the slow exhaustive search: rates in steps of 2.5 % of capacity up to
// 1.1 times it, each on a fresh service for at least 60 s and 10,000 requests. It
// returns the middle of the step at which they stop meeting the objective.
func sweep(v service, o Objective, capacity float64) (knee float64, requests int) {
	o = o.withDefaults()
	met := make([]bool, 44)
	for i := range met {
		rate := capacity * float64(i+1) / 40
		d := duration(max(60, 10_000/rate))
		out := v.start(uint64(1000+i)).run(Trial{Rate: rate, Duration: d, Parts: 1}, o)
		requests += out.Sent
		met[i] = float64(out.Slow) <= (1-o.Quantile)*float64(out.Good+out.Slow) &&
			float64(out.Failed+out.Refused) <= o.Errors*float64(out.Sent)
	}
	// The step that contradicts the fewest of them: near the knee chance decides.
	least := len(met) + 1
	for k := range len(met) + 1 {
		against := 0
		for i := range met {
			if met[i] != (i < k) {
				against++
			}
		}
		if against < least {
			least, knee = against, capacity*(float64(k)+0.5)/40
		}
	}
	return knee, requests
}

type testCase struct {
	name     string
	service  service
	bound    time.Duration
	capacity float64 // about
	recovers Verdict
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

var cases = []testCase{
	{"2 workers", service{workers: 2, work: 0.020, spread: -1}, ms(250), 100, Recovers},
	{"4 workers", service{workers: 4, work: 0.020, spread: -1, network: 0.001}, ms(250), 200, Recovers},
	{"8 workers, log-normal", service{workers: 8, work: 0.020, spread: 0.7}, ms(250), 400, Recovers},
	{"16 workers, constant", service{workers: 16, work: 0.010}, ms(100), 1600, Recovers},
	{"32 workers", service{workers: 32, work: 0.050, spread: -1}, ms(400), 640, Recovers},
	{"64 workers", service{workers: 64, work: 0.050, spread: -1}, ms(300), 1280, Recovers},
	{"16 workers, a queue of 32", service{workers: 16, work: 0.020, spread: -1, queue: 32}, ms(250), 800, Recovers},
	{"16 workers, slower with load", service{workers: 16, work: 0.020, spread: 0.3, grow: 1}, ms(150), 400, Recovers},
	{"8 workers, thrash, slow", service{workers: 8, work: 0.010, spread: -1, thrashAt: 200, thrash: 1.15}, ms(250), 800, Slow},
	{"8 workers, thrash, metastable", service{workers: 8, work: 0.010, spread: -1, thrashAt: 200, thrash: 3}, ms(250), 800, Metastable},
	{"32 workers, thrash, metastable", service{workers: 32, work: 0.020, spread: 0.5, thrashAt: 400, thrash: 2}, ms(200), 1600, Metastable},
	{"16 workers, pauses", service{workers: 16, work: 0.010, spread: -1, pause: 0.060, pauseEvery: 3}, ms(150), 1570, Recovers},
	{"F 1 worker, slow", service{workers: 1, work: 0.2, spread: -1}, ms(1500), 5, Recovers},
	{"F rare pauses", service{workers: 8, work: 0.020, spread: 0.5, pause: 0.4, pauseEvery: 60}, ms(250), 392, Recovers},
	{"F heavy tail", service{workers: 8, work: 0.020, spread: 1.5}, ms(400), 400, Recovers},
	{"F tight", service{workers: 8, work: 0.020, spread: -1}, ms(100), 400, Recovers},
	{"F 1 worker fast", service{workers: 1, work: 0.002, spread: -1}, ms(50), 500, Recovers},
	{"8 workers, pauses", service{workers: 8, work: 0.020, spread: 0.5, pause: 0.1, pauseEvery: 5}, ms(250), 392, Recovers},
}

func TestPrototype(t *testing.T) {
	if os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip()
	}
	for _, c := range cases {
		if !strings.Contains(c.name, os.Getenv("CASE")) {
			continue
		}
		truth, n := sweep(c.service, Objective{Latency: c.bound}, c.capacity)
		hits, cover, verdicts := 0, 0, 0
		var worst, spent, trials float64
		const runs = 10
		bad := ""
		for seed := range uint64(runs) {
			s := &Search{Objective: Objective{Latency: c.bound}}
			r := find(s, c.service.start(seed))
			off := r.Knee.At/truth - 1
			if math.Abs(off) <= 0.1 {
				hits++
			}
			if math.Abs(off) > math.Abs(worst) {
				worst = off
			}
			if r.Knee.Low <= truth+c.capacity/80 && r.Knee.High >= truth-c.capacity/80 {
				cover++
			}
			if r.Recovery.Verdict == c.recovers {
				verdicts++
			} else {
				bad += fmt.Sprintf(" %v %v", r.Stop, r.Recovery.Verdict)
			}
			spent += float64(r.Spent.Requests) / float64(n) / runs
			trials += float64(r.Spent.Trials) / runs
		}
		fmt.Printf("%-32s knee %6.1f hits %d cover %d recovery %d worst %+.3f spent %.3f trials %.1f%s\n", c.name, truth, hits, cover, verdicts, worst, spent, trials, bad)
	}
}
