// Package sketch finds the keys that use a rate limiter most (heavy hitters), in
// bounded memory, whatever the keys are.
//
// The algorithm is Space-Saving (Metwally, Agrawal and El Abbadi, 2005) in sets:
// the hash of a key selects one of 512 sets of 16 counters, as in a
// set-associative cache, and a key without a counter takes over the smallest of
// its set, whose count it inherits as its error. So a step looks at two lines of
// cache, locks only a set, and needs neither a heap nor a list. Sketches are merged
// as Agarwal et al. (Mergeable Summaries, 2012) do it: a key that one of them
// does not have may have had as many as its smallest counter there.
//
// What is stated of each key is proved for each key, not an average: a lower and an
// upper bound, and a bound on every key that has no counter ([Top.Missed]).
package sketch

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Sets and Ways are the counters of each measure and pane.
	Sets = 512
	Ways = 16
	// Pane is the time that one pane counts. A Top is of the current and the
	// one before: of two to four minutes.
	Pane = 2 * time.Minute
	// Sampled is how many passes stand for one that is counted, once a set has
	// counted exactly this pane.
	Sampled = 16

	exactly  = 1024 // steps of a set in a pane before passes are sampled
	maxRules = 4096
	maxText  = 64 // bytes of a key in the clear
	measures = 3
)

// By is a measure: what is counted of a key.
type By uint8

const (
	// All are decisions.
	All By = iota
	// Refused are decisions against the key.
	Refused
	// Near are passes after which more than 80 % of the limit are used.
	Near
)

// Sketch counts decisions by key. The zero value is ready; it takes its memory at
// first use: 1.5 MiB, or at most 3 MiB where Show is set, as it then has half the
// sets. It is safe for concurrent use, with a lock for each set. It must not be
// copied after first use, nor its field changed.
type Sketch struct {
	// Show keeps keys of up to 64 bytes in the clear. If false, only digests.
	Show bool

	once sync.Once
	sets [measures][]set
	// sampling is the number of the latest pane in which passes are sampled.
	sampling atomic.Int64
	rules    names
}

// A set is Ways counters, now and in the pane before.
type set struct {
	mu    sync.Mutex
	panes [2]pane
}

// pane counts in one pane of time. A counter is free if its count is zero.
type pane struct {
	number int64
	sum    uint64 // of all that was counted
	steps  uint32
	weight uint32 // the largest
	hash   [Ways]uint64
	count  [Ways]uint32     // at most so many
	over   [Ways]uint32     // of which so many may be of other keys
	id     [Ways]uint64     // of the key
	rule   [Ways]uint16     // of the key, in names
	text   *[Ways]textBytes // nil unless shown
}

// textBytes is the text of a key behind its length, in place: no pointer for the
// garbage collector, and a bound on the memory.
type textBytes [maxText + 1]byte

// PaneAt returns the number of the pane of a time.
func PaneAt(t time.Time) int64 { return t.UnixNano() / int64(Pane) }

// Every returns how many passes stand for one that is to be counted, with that
// weight, in a pane: 1 until a set has counted 1,024 times in it, 16 from then on.
// Refusals are always counted, with weight 1.
func (s *Sketch) Every(pane int64) uint32 {
	if s.sampling.Load() == pane {
		return Sampled
	}
	return 1
}

// Add counts weight for a key in a pane. Key is that of package rules, RULE/N/KEY;
// hash is of key, and must not be foreseeable by callers: with a seed of this
// process. It allocates nothing. Panes may come late; those before the last two
// count in the latest.
func (s *Sketch) Add(pane int64, by By, hash uint64, weight uint32, key string) {
	s.once.Do(s.setUp)
	all := s.sets[by]
	in := &all[hash>>32%uint64(len(all))]
	in.mu.Lock()
	p := &in.panes[pane&1]
	if newest := max(p.number, in.panes[pane&1^1].number); pane < newest-1 {
		p = &in.panes[newest&1]
	} else if p.number != pane {
		p.restart(pane)
	}
	i, found := p.find(hash)
	if !found {
		p.take(i, hash)
	}
	p.count[i] = plus(p.count[i], weight)
	p.sum += uint64(weight)
	p.steps++
	p.weight = max(p.weight, weight)
	full := p.steps == exactly
	if !found {
		p.name(i, key, s.rules.number(key))
	}
	in.mu.Unlock()
	if full && by != Refused {
		s.sampling.Store(pane)
	}
}

func (s *Sketch) setUp() {
	n := Sets
	if s.Show {
		n /= 2
	}
	for by := range s.sets {
		s.sets[by] = make([]set, n)
		if !s.Show {
			continue
		}
		texts := make([][Ways]textBytes, 2*n)
		for i := range s.sets[by] {
			s.sets[by][i].panes[0].text, s.sets[by][i].panes[1].text = &texts[2*i], &texts[2*i+1]
		}
	}
}

// restart empties the pane for another time.
func (p *pane) restart(number int64) { *p = pane{number: number, text: p.text} }

// find returns the counter of hash, or the one that it is to take: the smallest.
func (p *pane) find(hash uint64) (i int, found bool) {
	for i := range p.hash {
		if p.hash[i] == hash && p.count[i] > 0 {
			return i, true
		}
	}
	return p.smallest(), false
}

func (p *pane) smallest() (i int) {
	for j := range p.count {
		if p.count[j] < p.count[i] {
			i = j
		}
	}
	return i
}

// take gives counter i to another key.
func (p *pane) take(i int, hash uint64) { p.hash[i], p.over[i] = hash, p.count[i] }

// name notes which key has counter i.
func (p *pane) name(i int, key string, rule uint16) {
	sum := sha256.Sum256([]byte(key))
	p.id[i], p.rule[i] = binary.BigEndian.Uint64(sum[:]), rule
	if p.text == nil {
		return
	}
	text := &p.text[i]
	if text[0] = 0; len(key) <= maxText {
		text[0] = byte(copy(text[1:], key))
	}
}

// missed is the most that a key without a counter can have had.
func (p *pane) missed() uint32 { return p.count[p.smallest()] }

// plus adds, up to the largest number.
func plus(a, b uint32) uint32 {
	if sum := a + b; sum >= a {
		return sum
	}
	return ^uint32(0)
}
