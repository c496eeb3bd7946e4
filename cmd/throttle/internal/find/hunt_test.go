package find

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/knee"
	"github.com/throttle-go/throttle/cmd/throttle/internal/loadgen"
	"github.com/throttle-go/throttle/internal/bubble"
)

// pool is a service of some workers with one queue. Work of callers that have gone is
// dropped.
type pool struct {
	places chan struct{}
	takes  time.Duration // of a request, on average; half as much to half as much again
	most   int           // that are inside; more are refused. Zero: as many as come

	mu      sync.Mutex
	random  *rand.Rand
	waiting int
	sent    int
}

func newPool(workers int, takes time.Duration) *pool {
	return &pool{places: make(chan struct{}, workers), takes: takes, random: rand.New(rand.NewPCG(1, 1))}
}

// enter queues a request, and draws how long it takes.
func (p *pool) enter() (work time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	if p.most > 0 && p.waiting >= p.most {
		return 0, false
	}
	p.waiting++
	return time.Duration((0.5 + p.random.Float64()) * float64(p.takes)), true
}

func (p *pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
}

func (p *pool) Send(ctx context.Context) (loadgen.Verdict, error) {
	work, ok := p.enter()
	if !ok {
		return loadgen.Refused, nil
	}
	defer p.leave()
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return loadgen.Failed, ctx.Err()
	}
	defer func() { <-p.places }()
	timer := time.NewTimer(work)
	defer timer.Stop()
	select {
	case <-timer.C:
		return loadgen.Good, nil
	case <-ctx.Done():
		return loadgen.Failed, ctx.Err()
	}
}

// search runs a search in virtual time.
func search(t *testing.T, p *pool, args ...string) *findings {
	t.Helper()
	o, err := optionsOf(append(args, "--", "true"))
	if err != nil {
		t.Fatal(err)
	}
	h := &hunt{options: o, show: func(string) {}}
	h.run(t.Context(), &target{p, func() {}})
	return &findings{hunt: h, Result: h.result()}
}

// TestKnownKnees: pools whose capacity is known. The knee of a pool with a bound of
// many service times is close to it.
func TestKnownKnees(t *testing.T) {
	for _, test := range []struct {
		name      string
		workers   int
		takes     time.Duration
		most      int
		args      []string
		low, high float64
		verdict   knee.Verdict
	}{
		{"2 workers of 20 ms, 100/s", 2, 20 * ms, 0, []string{"-p99", "200ms"}, 80, 103, knee.Recovers},
		{"a bound on the queue", 8, 40 * ms, 12, []string{"-p99", "400ms", "-errors", "1%"}, 115, 205, knee.Recovers},
	} {
		bubble.Test(t, func(t *testing.T) {
			p := newPool(test.workers, test.takes) // channels belong to the bubble
			p.most = test.most
			f := search(t, p, append(test.args, "-from", "40", "-recovery", "5s", "-requests", "60000")...)
			if f.Stop != knee.Found || !(f.Knee.At >= test.low && f.Knee.At <= test.high) || f.Recovery.Verdict != test.verdict || f.Doubt != "" {
				t.Errorf("%s: %s, knee %+v, %+v, %q, want found, from %v to %v, %s", test.name, f.Stop, f.Knee, f.Recovery, f.Doubt, test.low, test.high, test.verdict)
			}
			if f.Spent.Requests != p.sent || p.sent > 60000 {
				t.Errorf("%s: says %d requests, sent %d", test.name, f.Spent.Requests, p.sent)
			}
		})
	}
}

// TestConcurrency: a pool of 8 whose requests take 25 to 75 ms each, and whose callers
// wait for 115 ms, bears more in flight than it has workers: one waits for each, at most.
func TestConcurrency(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := search(t, newPool(8, 50*ms), "-p99", "115ms", "-concurrency", "-recovery", "0", "-requests", "20000")
		if f.Stop != knee.Found && f.Stop != knee.TooManySent || !(f.Knee.At >= 11 && f.Knee.At <= 17) {
			t.Errorf("%s, knee %+v, want from 11 to 17", f.Stop, f.Knee)
		}
	})
}

// TestSpentOfInterrupted: requests of the trial that an interrupt ends were sent, too.
func TestSpentOfInterrupted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o, err := optionsOf([]string{"-from", "20", "--", "true"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*ms)
		defer cancel()
		p := newPool(1, 200*ms)
		h := &hunt{options: o, show: func(string) {}}
		h.run(ctx, &target{p, func() {}})
		if spent := h.result().Spent; p.sent < 10 || spent.Requests != p.sent || spent.Trials != 0 || spent.Time != 1500*ms {
			t.Errorf("spent %+v, want the %d requests that were sent, in 1.5s", spent, p.sent)
		}
	})
}

// TestBoundsOfSearch: it ends by each bound, and says so.
func TestBoundsOfSearch(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration
		args  []string
		want  knee.Stop
		most  int // requests
	}{
		{20 * ms, []string{"-requests", "500"}, knee.TooManySent, 500},
		{ms, []string{"-requests", "500", "-concurrency"}, knee.TooManySent, 500},
		{20 * ms, []string{"-for", "20s"}, knee.TooLong, 10_000},
		{20 * ms, []string{"-most", "50", "-recovery", "0"}, knee.NoMore, 60_000},
		{20 * ms, []string{"-p99", "1ms", "-timeout", "1s"}, knee.Never, 10_000},
	} {
		bubble.Test(t, func(t *testing.T) {
			p := newPool(2, test.takes)
			f := search(t, p, append([]string{"-p99", "200ms", "-from", "2"}, test.args...)...)
			if f.Stop != test.want || p.sent > test.most {
				t.Errorf("%q: %s after %d requests, want %s, at most %d", test.args, f.Stop, p.sent, test.want, test.most)
			}
		})
	}
}

const ms = time.Millisecond

// TestBlame: a trial is bad by the service's fault if its requests are slow beyond
// what they were sent late.
func TestBlame(t *testing.T) {
	late := loadgen.Times{P99: 50 * ms}
	for _, test := range []struct {
		name string
		r    loadgen.Result
		want time.Duration // Late of the outcome
	}{
		{"good", loadgen.Result{Counts: loadgen.Counts{Good: 1000}, Late: late}, 50 * ms},
		{"overloaded", loadgen.Result{Counts: loadgen.Counts{Good: 500, Slow: 500}, Late: late, Excused: 50}, 0},
		{"failing", loadgen.Result{Counts: loadgen.Counts{Good: 500, Failed: 500}, Late: late}, 0},
		{"slow for being late", loadgen.Result{Counts: loadgen.Counts{Good: 500, Slow: 500}, Late: late, Excused: 51}, 50 * ms},
		{"few slow", loadgen.Result{Counts: loadgen.Counts{Good: 980, Slow: 20}, Late: late}, 50 * ms},
		{"dropped", loadgen.Result{Counts: loadgen.Counts{Good: 500, Slow: 500, Dropped: 1}, Late: late}, 50 * ms},
		{"far too late", loadgen.Result{Counts: loadgen.Counts{Good: 500, Slow: 500}, Late: loadgen.Times{P99: 125 * ms}}, 125 * ms},
	} {
		if got := outcomeOf(knee.Trial{}, test.r, 250*ms).Late; got != test.want {
			t.Errorf("%s: late by %v, want %v", test.name, got, test.want)
		}
	}
}
