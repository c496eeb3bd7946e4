// Package ticks has the measurements of the admin role, one a second: decisions by
// reason and by rule, the latency that they added, and the state of the parts. It
// keeps the latest ten minutes. It reads no clock.
package ticks

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
)

const (
	// Kept is how many ticks a Ring keeps.
	Kept = 600
	// MostRules bounds the rules of a tick: those that decided most in its second.
	MostRules = 100
)

// A Tick states what happened in a second, or since the tick before.
type Tick struct {
	// ID numbers ticks: the Unix time in seconds, or one more than the ID before
	// where the clock was set back.
	ID int64     `json:"id"`
	At time.Time `json:"at"`
	// Seconds since the tick before.
	Seconds float64 `json:"seconds"`
	// Passed, Refused and Shadow are decisions, the last by shadow rules and
	// limits that would have refused.
	Count
	// Reasons are decisions by reason, those above zero.
	Reasons map[string]int64 `json:"reasons,omitempty"`
	Rules   map[string]Count `json:"rules,omitempty"`
	// P50 and P99 are the latency added by decisions, in seconds. Null if there
	// were none, or it is not measured.
	P50 *float64 `json:"p50"`
	P99 *float64 `json:"p99"`
	State
}

// Count counts decisions.
type Count struct {
	Passed  int64 `json:"passed"`
	Refused int64 `json:"refused"`
	Shadow  int64 `json:"shadow"`
}

// State is that of the parts.
type State struct {
	Version string `json:"version"`
	// Age is the seconds since a source of rules was last confirmed.
	Age  float64 `json:"age"`
	Kill bool    `json:"kill"`
	// Store is memory, closed, away or slow.
	Store string `json:"store"`
	// Fallback counts the decisions without the store since the start.
	Fallback int64 `json:"decided_without_store"`
	Draining bool  `json:"draining"`
	// Stamp changes with all that the page shows besides numbers.
	Stamp string `json:"stamp"`
}

// Passes reports whether decisions of a reason pass.
func Passes(reason string) bool {
	switch reason {
	case "unlimited", "within", "allowed", "killed", "away":
		return true
	}
	return false
}

// Totals are counts and latencies since the start.
type Totals struct {
	Counts  map[admit.Counted]int64
	Latency Latency
}

// Next returns what happened from one sum to the next, without ID and State.
func Next(before, now Totals, from, to time.Time) Tick {
	t := Tick{At: to.UTC(), Seconds: to.Sub(from).Seconds(), Reasons: map[string]int64{}, Rules: map[string]Count{}}
	for what, n := range now.Counts {
		if n -= before.Counts[what]; n <= 0 {
			continue
		}
		t.Reasons[what.Reason] += n
		c := one(what.Reason, n)
		t.Passed, t.Refused, t.Shadow = t.Passed+c.Passed, t.Refused+c.Refused, t.Shadow+c.Shadow
		if what.Rule != "" {
			r := t.Rules[what.Rule]
			t.Rules[what.Rule] = Count{r.Passed + c.Passed, r.Refused + c.Refused, r.Shadow + c.Shadow}
		}
	}
	t.Rules = busiest(t.Rules)
	l := now.Latency.Since(before.Latency)
	t.P50, t.P99 = l.Quantile(0.5), l.Quantile(0.99)
	return t
}

// one is n decisions of a reason.
func one(reason string, n int64) Count {
	switch {
	case reason == "shadow":
		return Count{Shadow: n}
	case reason == "shadow-error" || reason == "refund-error":
		return Count{} // these are no decisions
	case Passes(reason):
		return Count{Passed: n}
	}
	return Count{Refused: n}
}

// busiest are the rules that decided most.
func busiest(all map[string]Count) map[string]Count {
	if len(all) <= MostRules {
		return all
	}
	sum := func(name string) int64 { return all[name].Passed + all[name].Refused + all[name].Shadow }
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(sum(b), sum(a)), cmp.Compare(a, b))
	})
	for _, name := range names[MostRules:] {
		delete(all, name)
	}
	return all
}

// Latency is a histogram: Counts[i] are the decisions above Bounds[i-1] and at most
// Bounds[i] seconds; the last one has no bound. The zero value has none.
type Latency struct {
	Bounds []float64
	Counts []uint64
	before uint64 // the latest n of Add
}

// Add adds n decisions of at most bound seconds, of a cumulative histogram: those
// below the bounds before are in n again. The bounds ascend, up to infinity.
func (l *Latency) Add(bound float64, n uint64) {
	i, known := slices.BinarySearch(l.Bounds, bound)
	if !known && !math.IsInf(bound, 1) {
		l.Bounds = slices.Insert(l.Bounds, i, bound)
	}
	for len(l.Counts) <= len(l.Bounds) {
		l.Counts = append(l.Counts, 0)
	}
	l.Counts[i] += n - min(l.before, n)
	if l.before = n; math.IsInf(bound, 1) {
		l.before = 0 // the next histogram begins
	}
}

// Since returns what came after an earlier state.
func (l Latency) Since(before Latency) Latency {
	counts := slices.Clone(l.Counts)
	for i := range min(len(counts), len(before.Counts)) {
		counts[i] -= min(before.Counts[i], counts[i])
	}
	return Latency{Bounds: l.Bounds, Counts: counts}
}

// Quantile returns the latency in seconds that a share p of the decisions did not
// exceed, between the bounds in proportion; that above the last bound counts as
// it. Nil if there are none.
func (l Latency) Quantile(p float64) *float64 {
	sum := l.sum()
	if sum == 0 || len(l.Bounds) == 0 {
		return nil
	}
	rank, below := p*float64(sum), 0.0
	for i, n := range l.Counts {
		if i >= len(l.Bounds) {
			break
		}
		if n > 0 && below+float64(n) >= rank {
			low := 0.0
			if i > 0 {
				low = l.Bounds[i-1]
			}
			at := low + (l.Bounds[i]-low)*(rank-below)/float64(n)
			return &at
		}
		below += float64(n)
	}
	last := l.Bounds[len(l.Bounds)-1]
	return &last
}

func (l Latency) sum() (n uint64) {
	for _, one := range l.Counts {
		n += one
	}
	return n
}

// Ring keeps the latest ticks. The zero value is ready. It is safe for concurrent
// use.
type Ring struct {
	mu   sync.Mutex
	all  []Tick // in their order
	last int64
}

// Add numbers a tick by its time, keeps it, and returns it.
func (r *Ring) Add(t Tick) Tick {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.ID = max(r.last+1, t.At.Unix())
	r.last = t.ID
	if len(r.all) >= Kept {
		r.all = slices.Delete(r.all, 0, len(r.all)-Kept+1)
	}
	r.all = append(r.all, t)
	return t
}

// Latest returns the latest n ticks, or as many as there are, in their order.
func (r *Ring) Latest(n int) []Tick {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all[max(len(r.all)-n, 0):])
}

// After returns the ticks after an ID that are still kept, in their order.
func (r *Ring) After(id int64) []Tick {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := slices.BinarySearchFunc(r.all, id, func(t Tick, id int64) int { return cmp.Compare(t.ID, id) })
	if found {
		i++
	}
	return slices.Clone(r.all[i:])
}
