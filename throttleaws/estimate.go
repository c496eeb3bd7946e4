package throttleaws

import (
	"math"
	"sync"

	"github.com/throttle-go/throttle"
)

const (
	meanOver  = 16   // calls over which a mean is taken
	maxKeys   = 1000 // that costs are remembered of
	maxScopes = 21   // that are remembered of a key: DynamoDB has a table and 20 indexes
)

// book remembers what calls cost in each scope, relative to the scale of their
// ask. A scope that refused, without a consumption in the answer, is taken to
// cost the scale. Beyond maxKeys any key is forgotten. The zero book is empty; it
// is safe for concurrent use.
type book struct {
	mu    sync.Mutex // guards what follows
	means map[string]map[string]*mean
}

// mean is a running mean: of all numbers, and from the meanOver-th on a moving
// one.
type mean struct {
	v float64
	n int
}

func (m *mean) add(v float64) {
	m.n = min(m.n+1, meanOver)
	m.v += (v - m.v) / float64(m.n)
}

// of is the cost that m tells for a scale; zero if m is nil.
func (m *mean) of(scale int64) int64 {
	if m == nil {
		return 0
	}
	return int64(math.Round(m.v * float64(scale)))
}

// needs returns all that is asked for as the scopes that a call is subject to,
// with the estimated costs.
func (b *book) needs(all []ask) (needs []throttle.Need) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range all {
		means := b.means[a.key]
		// An index that is not there, where others are, is a local one.
		if m := means[a.scope]; m != nil || len(means) == 0 {
			needs = append(needs, throttle.Need{Scope: a.scope, Cost: max(a.known, m.of(a.scale))})
		}
		for scope, m := range means {
			if cost := m.of(a.scale); scope != a.scope && cost > 0 {
				needs = append(needs, throttle.Need{Scope: scope, Cost: cost})
			}
		}
	}
	return needs
}

// learn notes the costs of a call that asked for a. If detailed, they are of all
// tables and indexes.
func (b *book) learn(a ask, costs map[string]int64, detailed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for scope, cost := range costs {
		if m := b.mean(a.key, scope); m != nil {
			m.add(float64(cost) / float64(max(a.scale, 1)))
		}
	}
	for scope, m := range b.means[a.key] {
		if _, ok := costs[scope]; ok || !detailed {
			continue
		}
		if m.add(0); m.v < 0.01 { // not used, or hardly ever
			delete(b.means[a.key], scope)
		}
	}
}

// blame notes that calls such as a are subject to a scope that refused one.
func (b *book) blame(a ask, scope string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range [...]string{a.scope, scope} {
		if m := b.mean(a.key, of); m != nil && m.n == 0 {
			m.add(1)
		}
	}
}

// mean finds or makes the mean of a scope; nil: there are too many. Caller holds
// mu.
func (b *book) mean(key, scope string) *mean {
	scopes := b.means[key]
	if scopes == nil {
		if b.means == nil {
			b.means = map[string]map[string]*mean{}
		}
		for other := range b.means {
			if len(b.means) < maxKeys {
				break
			}
			delete(b.means, other)
		}
		scopes = map[string]*mean{}
		b.means[key] = scopes
	}
	m := scopes[scope]
	if m == nil && len(scopes) < maxScopes {
		m = new(mean)
		scopes[scope] = m
	}
	return m
}
