package demo

import (
	"math"
	"slices"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/sim"
)

// result is what was measured, by the definitions of sim.Result, once all
// workers are through. The scenario has one limit, all of the time.
func (l *live) result(s sim.Scenario) sim.Result {
	r := sim.Result{Sent: l.sent.Load(), Served: l.served.Load(), Throttled: l.throttled.Load()}
	var finish, maxSleep time.Duration
	var waits []time.Duration
	var requests, ratios, servedBy []float64
	processes := make([]float64, len(l.bases))
	for _, w := range l.workers {
		finish = max(finish, w.last.Sub(l.begins))
		maxSleep = max(maxSleep, w.maxSleep)
		waits = append(waits, w.waits...)
		requests = append(requests, float64(w.sent))
		servedBy = append(servedBy, float64(w.served))
		processes[w.process] += float64(w.served)
		if w.sent > 0 {
			ratios = append(ratios, float64(w.throttled)/float64(w.sent))
		}
	}
	r.RetryRate = pace.Some(float64(r.Throttled) / float64(r.Sent))
	r.RetryRateWorkerMean = pace.Some(mean(ratios))
	r.MaxSleep = pace.Some(maxSleep.Seconds())
	r.StdevRequests = stdev(requests)
	r.Jain, r.JainWorkers = pace.Some(jain(processes)), pace.Some(jain(servedBy))
	limit, seconds := s.Server.Limit, finish.Seconds()
	available := float64(limit.Max()) + float64(limit.Count)*seconds/limit.Period.Seconds()
	r.Utilisation = pace.Some(float64(r.Served) / available)
	r.Throughput, r.Finish = pace.Some(float64(r.Served)/seconds), pace.Some(seconds)
	r.WaitP50, r.WaitP99 = quantile(waits, 0.5), quantile(waits, 0.99)
	r.Groups = []sim.GroupResult{{
		Policy: l.policy.Name, Sent: r.Sent, Served: r.Served, Throttled: r.Throttled, Share: pace.Some(1.0),
	}}
	return r
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// stdev is the sample standard deviation.
func stdev(x []float64) pace.Opt[float64] {
	if len(x) < 2 {
		return pace.Opt[float64]{}
	}
	m, squares := mean(x), 0.0
	for _, v := range x {
		squares += (v - m) * (v - m)
	}
	return pace.Some(math.Sqrt(squares / float64(len(x)-1)))
}

// jain is (Σx)²/(n Σx²), Jain's index of fairness.
func jain(x []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum, squares = sum+v, squares+v*v
	}
	return sum * sum / (float64(len(x)) * squares)
}

// quantile is what the share q of all is at or below, in seconds.
func quantile(x []time.Duration, q float64) pace.Opt[float64] {
	if len(x) == 0 {
		return pace.Opt[float64]{}
	}
	slices.Sort(x)
	rank := int(math.Ceil(q * float64(len(x))))
	return pace.Some(x[max(rank, 1)-1].Seconds())
}
