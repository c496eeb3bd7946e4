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
	"math"
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
	// Sampled is how many decisions stand for one that is counted, once a pane has many,
	// and Sparsely where it has still more.
	Sampled  = 16
	Sparsely = 128

	exactly  = 1 << 18 // decisions that a pane counts one by one, and then as many of one in 16
	batch    = 256     // decisions of a set that are added to those at once
	maxRules = 4096
	maxText  = 55 // bytes of a key that is kept as it is
	measures = 3
)

// By selects a measure: which decisions about a key are counted.
type By uint8

const (
	// All are decisions.
	All By = iota
	// Refused are decisions against the key.
	Refused
	// Near are passes after which more than 80 % of the limit are used.
	Near
)

// Sketch counts decisions by key. The zero value is ready; it takes its memory,
// 3.7 MB, at first use. Keys of up to 55 bytes are in it as they are, which is
// faster than a digest. It is safe for concurrent use, with a lock for each set. It
// must not be copied after first use.
type Sketch struct {
	once sync.Once
	sets *[measures][Sets]set
	// progress has for each measure the number of the latest pane, and behind it, in 32
	// bits, how many decisions it has counted: about, as sets add a batch at a time.
	progress [measures]atomic.Uint64
	rules    names // of long keys
}

// A set is Ways counters, now and in the pane before.
type set struct {
	mu    sync.Mutex
	heads [2]head // with the lock in one line of cache
	_     [8]byte // so that it is, in each set
	panes [2]pane
}

// head is what a set has counted in one pane of time.
type head struct {
	number int64  // of the pane
	sum    uint64 // of all that was counted
	steps  uint32
	weight uint32 // the largest
}

// pane has the counters of one pane of time. One is free if its count is zero.
type pane struct {
	hash  [Ways]uint64
	count [Ways]uint32 // at most so many
	over  [Ways]uint32 // of which so many may be of other keys
	text  [Ways]text
}

// text is a key in place, without a pointer for the garbage collector: its length,
// and the bytes. A long key is its digest and the number of its rule.
type text struct {
	n     uint8 // isLong for a long key
	bytes [maxText]byte
}

const isLong = 255

// set keeps a key.
func (t *text) set(key string, rules *names) {
	if len(key) <= maxText {
		t.n = uint8(copy(t.bytes[:], key))
		return
	}
	t.n = isLong
	var buffer [512]byte // longer ones allocate
	sum := sha256.Sum256(append(buffer[:0], key...))
	copy(t.bytes[:8], sum[:])
	binary.BigEndian.PutUint16(t.bytes[8:], rules.number(key))
}

// PaneAt returns the number of the pane of a time.
func PaneAt(t time.Time) int64 { return t.UnixNano() / int64(Pane) }

// Since returns the beginning of what a Top at a time counts.
func Since(t time.Time) time.Time { return time.Unix(0, (PaneAt(t)-1)*int64(Pane)) }

// Every returns how many decisions stand for one that is to be counted by a measure in
// a pane, with that weight: 1 until about 262,144 were counted by it, then 16 until as
// many more were, some 4.2 million decisions later, and 128 from then on.
func (s *Sketch) Every(pane int64, by By) uint32 {
	is := s.progress[by].Load()
	switch n := is & (1<<32 - 1); {
	case int64(is>>32) != pane || n < exactly:
		return 1
	case n < 2*exactly:
		return Sampled
	}
	return Sparsely
}

// counted notes that a pane has counted a batch by a measure.
func (s *Sketch) counted(pane int64, by By) {
	for {
		is := s.progress[by].Load()
		next := uint64(pane)<<32 | batch
		switch now := int64(is >> 32); {
		case now > pane || now == pane && is&(1<<32-1) >= 2*exactly:
			return
		case now == pane:
			next = is + batch
		}
		if s.progress[by].CompareAndSwap(is, next) {
			return
		}
	}
}

// Add counts weight for a key in a pane. Key is that of package rules, RULE/N/KEY;
// hash is of key, and must not be foreseeable by callers: with a seed of this
// process. It allocates nothing. Panes may come late; those before the last two
// count in the latest.
func (s *Sketch) Add(at int64, by By, hash uint64, weight uint32, key string) {
	s.once.Do(s.setUp)
	in := &s.sets[by][hash>>32%Sets]
	in.mu.Lock()
	which := in.to(at)
	h, p := &in.heads[which], &in.panes[which]
	i, found := p.find(hash)
	if !found {
		p.hash[i], p.over[i] = hash, p.count[i]
		p.text[i].set(key, &s.rules)
	}
	p.count[i] = plus(p.count[i], weight)
	h.sum += uint64(weight)
	h.steps++
	h.weight = max(h.weight, weight)
	whole := h.steps%batch == 0
	in.mu.Unlock()
	if whole {
		s.counted(at, by)
	}
}

// to returns which of the two panes to count in.
func (s *set) to(at int64) int64 {
	is := at & 1
	if newest := max(s.heads[0].number, s.heads[1].number); at < newest-1 {
		return newest & 1
	}
	if s.heads[is].number != at {
		s.heads[is], s.panes[is] = head{number: at}, pane{}
	}
	return is
}

func (s *Sketch) setUp() { s.sets = new([measures][Sets]set) }

// find returns the counter of hash, or the one that it is to take: the smallest.
func (p *pane) find(hash uint64) (i int, found bool) {
	for i := range p.hash {
		if p.hash[i] == hash && p.count[i] > 0 {
			return i, true
		}
	}
	return p.smallest(), false
}

// smallest returns the counter with the smallest count. It compares counts with their
// numbers behind them, which needs no branch that a processor could foresee wrongly.
func (p *pane) smallest() int {
	least := uint64(math.MaxUint64)
	for i, n := range p.count {
		least = min(least, uint64(n)*Ways+uint64(i))
	}
	return int(least % Ways)
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
