package take

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
)

const (
	mostCallers   = 1000
	mostBenchKeys = 1_000_000
	mostLength    = time.Hour
)

// bench is how a store is measured.
type bench struct {
	callers int
	keys    int
	length  time.Duration
}

func (b *bench) check() error {
	switch {
	case b.callers < 1 || b.callers > mostCallers:
		return usage.Errorf("take: -callers %d: must be from 1 to %d", b.callers, mostCallers)
	case b.keys < 1 || b.keys > mostBenchKeys:
		return usage.Errorf("take: -keys %d: must be from 1 to %d", b.keys, mostBenchKeys)
	case b.length <= 0 || b.length > mostLength:
		return usage.Errorf("take: -for %v: must be above zero, and at most %v", b.length, mostLength)
	}
	return nil
}

// benchResult is what came out, in version 1 of the form that 'throttle take
// -bench -json' prints. Fields may be added to it; those that are there stay.
type benchResult struct {
	Version   int     `json:"version"`
	Store     string  `json:"store"`
	Rule      string  `json:"rule"`
	Callers   int     `json:"callers"`
	Keys      int     `json:"keys"`
	Seconds   float64 `json:"seconds"`
	Decisions int64   `json:"decisions"`
	Rate      float64 `json:"decisions_per_s"`
	Allowed   int64   `json:"allowed"`
	Errors    int64   `json:"errors"`
	P50       float64 `json:"p50_s"`
	P99       float64 `json:"p99_s"`
	P999      float64 `json:"p999_s"`
	Allocs    float64 `json:"allocations_per_decision"`
	Bytes     float64 `json:"bytes_per_decision"`
}

// measure measures s.
func (t *taking) measure(ctx context.Context, s *stores.Named, stdout io.Writer) error {
	run := &benchRun{taking: t, store: s, keys: make([]string, t.bench.keys)}
	for i := range run.keys {
		run.keys[i] = t.ask.Key + "/" + strconv.Itoa(i)
	}
	m := run.all(ctx)
	if m.Decisions == 0 {
		if why := run.failed.Load(); why != nil {
			return exit.Failf("take: %s: %v", s.Name, *why)
		}
		return exit.Failf("take: %s: nothing was decided", s.Name)
	}
	if err := run.tell(stdout, m); err != nil {
		return err
	}
	if ctx.Err() != nil {
		took := time.Duration(m.Seconds * float64(time.Second))
		return exit.Failf("take: interrupted: %s of %v", took.Round(time.Millisecond), t.bench.length)
	}
	return nil
}

// tell writes what was measured.
func (r *benchRun) tell(w io.Writer, m *benchResult) error {
	if r.json {
		return json.NewEncoder(w).Encode(m)
	}
	if err := m.write(w); err != nil {
		return err
	}
	if why := r.failed.Load(); why != nil {
		_, err := fmt.Fprintf(w, "             the first: %s\n", words.OneLine((*why).Error()))
		return err
	}
	return nil
}

// benchRun is one measurement.
type benchRun struct {
	*taking
	store  *stores.Named
	keys   []string
	failed atomic.Pointer[error] // the first error
}

// all lets all callers ask until the time is over.
func (r *benchRun) all(ctx context.Context) *benchResult {
	ctx, cancel := context.WithTimeout(ctx, r.bench.length+r.timeout)
	defer cancel()
	callers := make([]*caller, r.bench.callers)
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i := range callers {
		c := &caller{rng: rand.New(rand.NewPCG(uint64(i), 1)), ask: [1]limit.Ask{r.ask}}
		callers[i] = c
		ready.Add(1)
		done.Go(func() {
			r.once(ctx, c) // so that it is connected
			ready.Done()
			<-begin
			r.loop(ctx, c)
		})
	}
	ready.Wait()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	close(begin)
	done.Wait()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	sum := &caller{}
	for _, c := range callers {
		sum.add(c)
	}
	return r.result(sum, took, after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc)
}

func (r *benchRun) result(sum *caller, took time.Duration, allocs, bytes uint64) *benchResult {
	n := float64(max(sum.decisions, 1))
	return &benchResult{
		Version: 1, Store: r.store.Name, Rule: r.ask.Limit.String(), Callers: r.bench.callers, Keys: r.bench.keys,
		Seconds: took.Seconds(), Decisions: sum.decisions, Rate: float64(sum.decisions) / took.Seconds(),
		Allowed: sum.allowed, Errors: sum.errors,
		P50: sum.quantile(0.5).Seconds(), P99: sum.quantile(0.99).Seconds(), P999: sum.quantile(0.999).Seconds(),
		Allocs: float64(allocs) / n, Bytes: float64(bytes) / n,
	}
}

// loop asks until the time is over. The end of one question is the beginning
// of the next, so the clock is read once for each.
func (r *benchRun) loop(ctx context.Context, c *caller) {
	last := time.Now()
	end := last.Add(r.bench.length)
	for last.Before(end) && ctx.Err() == nil {
		ok, err := r.once(ctx, c)
		now := time.Now()
		switch {
		case err != nil:
			c.errors++
		default:
			c.decisions++
			c.note(now.Sub(last))
			if ok {
				c.allowed++
			}
		}
		last = now
	}
}

// once asks about a key at random.
func (r *benchRun) once(ctx context.Context, c *caller) (ok bool, err error) {
	c.ask[0].Key = r.keys[c.rng.IntN(len(r.keys))]
	if ok, err = r.store.Take(ctx, c.ask[:], c.answer[:]); err != nil {
		why := err // only errors are worth an allocation
		r.failed.CompareAndSwap(nil, &why)
	}
	return ok, err
}

// A caller is one asking goroutine, and its measurements.
type caller struct {
	rng    *rand.Rand
	ask    [1]limit.Ask
	answer [1]limit.Decision

	decisions, allowed, errors int64
	times                      [timeSteps * 60]int64 // by step
}

// timeSteps is into how many timeSteps each doubling of a time is divided: they tell
// times apart to a sixty-fourth.
const timeSteps = 64

// stepOf is the step of a time: those below timeSteps nanoseconds are their own.
func stepOf(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-bits.Len64(timeSteps), 0)
	return shift*timeSteps + int(v>>shift)
}

// longest is the longest time of a step.
func longest(step int) time.Duration {
	shift := max(step/timeSteps-1, 0)
	return time.Duration((uint64(step-shift*timeSteps)+1)<<shift - 1)
}

func (c *caller) note(d time.Duration) { c.times[stepOf(d)]++ }

func (c *caller) add(o *caller) {
	c.decisions += o.decisions
	c.allowed += o.allowed
	c.errors += o.errors
	for i, n := range o.times {
		c.times[i] += n
	}
}

// quantile is the time within which a part q of the decisions came.
func (c *caller) quantile(q float64) time.Duration {
	left := int64(q * float64(c.decisions))
	for step, n := range c.times {
		if left -= n; left < 0 {
			return longest(step)
		}
	}
	return 0
}

// write writes the measurement as text.
func (m *benchResult) write(w io.Writer) error {
	d := func(seconds float64) string {
		return words.Short(roundTime(time.Duration(seconds * float64(time.Second))))
	}
	_, err := fmt.Fprintf(w, `store        %s
rule         %s, %d keys
callers      %d, for %s
decisions    %.0f a second, %.1f %% of them allowed
latency      p50 %s, p99 %s, p99.9 %s
allocations  %.1f a decision, of %.0f bytes
errors       %d
`,
		m.Store, m.Rule, m.Keys, m.Callers, d(m.Seconds), m.Rate, 100*float64(m.Allowed)/float64(m.Decisions),
		d(m.P50), d(m.P99), d(m.P999), m.Allocs, m.Bytes, m.Errors)
	return err
}

// roundTime is a time to three digits.
func roundTime(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
