package find

import (
	"context"
	"fmt"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/knee"
	"github.com/throttle-go/throttle/cmd/throttle/internal/loadgen"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// target is what is loaded.
type target struct {
	loadgen.Target
	close func()
}

// connect returns the target, once one request shows that it can be loaded.
func (o *options) connect(ctx context.Context) (*target, error) {
	most := max(o.timeout, 10*time.Second)
	first, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if o.command != nil {
		verdict, err := o.command.Send(first)
		switch {
		case verdict == loadgen.Good || verdict == loadgen.Refused:
			return &target{o.command, func() {}}, nil
		case ctx.Err() != nil:
			return nil, exit.Failf("find: interrupted before %s had ended once", o.name())
		case first.Err() != nil:
			return nil, exit.Failf("find: %s: has not ended within %s", o.name(), words.Short(most))
		}
		return nil, exit.Failf("find: %s: %v", o.name(), err)
	}
	h, err := loadgen.NewHTTP(o.request)
	if err != nil {
		return nil, exit.Failf("find: %v", err)
	}
	if err := h.Probe(first); err != nil {
		h.Close()
		if ctx.Err() != nil {
			return nil, exit.Failf("find: interrupted before %s had answered once", o.name())
		}
		return nil, exit.Failf("find: %s: %v", o.name(), err)
	}
	return &target{h, h.Close}, nil
}

// hunt is one search.
type hunt struct {
	*options
	show   func(text string) // progress
	trials []trial
	first  error // of the first request that did not end well
	start  time.Time
	cut    knee.Spent // on a trial that was interrupted
}

// result is what was found, with all that was spent.
func (h *hunt) result() knee.Result {
	r := h.search.Result()
	r.Spent.Requests += h.cut.Requests
	r.Spent.Failures += h.cut.Failures
	r.Spent.Time += h.cut.Time
	return r
}

// trial is a trial that was run.
type trial struct {
	knee.Outcome
	at   time.Duration // since the search began
	seen loadgen.Result
}

// run runs trials until the search is over, or ctx ends.
func (h *hunt) run(ctx context.Context, t *target) {
	defer loadgen.RaiseThreads()()
	h.start = time.Now()
	g := &loadgen.Generator{Target: t.Target, InFlight: h.atOnce, Timeout: h.timeout}
	for {
		next, ok := h.search.Next()
		if !ok || ctx.Err() != nil {
			return
		}
		h.show(h.progress(next))
		at := time.Since(h.start)
		if !rest(ctx, next.Rest) {
			return
		}
		seen := g.Run(ctx, h.load(next))
		if h.first == nil {
			h.first = seen.First
		}
		if seen.Cut {
			h.cut = knee.Spent{Requests: int(seen.Sent() + seen.Cancelled), Failures: int(seen.Failed + seen.Refused), Time: next.Rest + seen.Elapsed}
			return
		}
		o := outcomeOf(next, seen, h.search.Objective.Latency)
		h.search.Add(o)
		h.trials = append(h.trials, trial{Outcome: o, at: at, seen: seen})
	}
}

// rest waits, and reports false if ctx ends first.
func rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// load is what a trial sends.
func (h *hunt) load(t knee.Trial) loadgen.Load {
	return loadgen.Load{
		Rate: t.Rate, Concurrency: t.Concurrency, Duration: t.Duration,
		Then: t.Then, ThenFor: t.ThenFor, Calm: t.Calm, Bad: int64(t.MostBad), Failures: int64(t.MostFailed), Parts: t.Parts,
		Even: h.even, Seed: h.seed + uint64(2*len(h.trials)), Within: h.search.Objective.Latency,
		Requests: int64(t.MostSent),
	}
}

// blameless reports whether the service is to blame for nearly all that was bad in a
// trial, although requests were sent late: they were bad beyond their own lateness, of
// which the bound on latency has more than enough.
func blameless(r loadgen.Result, bound time.Duration) bool {
	bad := r.Slow + r.Failed + r.Refused
	return bad >= 20 && bad > r.Sent()/20 && r.Excused <= bad/10 && r.Dropped == 0 && r.Late.P99 < bound/2
}

// outcomeOf is the outcome of a trial under a bound on latency. Lateness that cannot
// have made it bad is left out.
func outcomeOf(t knee.Trial, r loadgen.Result, bound time.Duration) knee.Outcome {
	if blameless(r, bound) {
		r.Late.P99 = 0
	}
	o := knee.Outcome{
		Trial: t, Sent: int(r.Sent()), Good: int(r.Good), Slow: int(r.Slow), Failed: int(r.Failed), Refused: int(r.Refused),
		Dropped: int(r.Dropped), Took: r.Took, Elapsed: t.Rest + r.Elapsed, Late: r.Late.P99,
		Mean: r.Latency.Mean, P50: r.Latency.P50, P90: r.Latency.P90, P99: r.Latency.P99,
		Drained: r.TimedOut == 0,
	}
	for _, p := range r.Parts {
		o.Parts = append(o.Parts, knee.Part{
			Sent: int(p.Sent()), Good: int(p.Good), Slow: int(p.Slow), Failed: int(p.Failed), Refused: int(p.Refused), Mean: p.Mean,
		})
	}
	return o
}

// level is what a trial offers, in words.
func level(t knee.Trial) string {
	if t.Concurrency > 0 {
		return fmt.Sprintf("%d in flight", t.Concurrency)
	}
	return fmt.Sprintf("%.4g/s", t.Rate)
}

// progress is a line about the next trial, and the one before.
func (h *hunt) progress(t knee.Trial) string {
	text := fmt.Sprintf("trial %d, %s: %s for %s", len(h.trials)+1, t.Kind, level(t), words.Lasting(t.Duration+t.ThenFor))
	if n := len(h.trials); n > 0 {
		last := h.trials[n-1]
		text += fmt.Sprintf("  (last: %s, p99 %s, %.3g %% bad)", level(last.Trial), brief(last.P99),
			100*float64(last.Failed+last.Refused)/float64(max(last.Sent, 1)))
	}
	return text
}
