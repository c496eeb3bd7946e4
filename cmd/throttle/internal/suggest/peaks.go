// Package suggest proposes rate limits from traffic of the past: such limits by key
// that no more than a given share of the honest callers would be refused, on another
// day of the same traffic too. It reads no clock and draws no random number.
package suggest

import (
	"math/bits"
	"time"
)

// Periods are those for which a limit is proposed, the shortest first.
var Periods = [...]time.Duration{10 * time.Second, time.Minute, time.Hour, 24 * time.Hour}

const (
	periods = len(Periods)
	// slots is how many parts a period is counted in. Any window of the length of a
	// period is within one part more, so what those hold together is at least what the
	// window holds, and at most by one part too much.
	slots = 5
	// mostKeys bounds the keys that are remembered, 150 bytes each.
	mostKeys = 1 << 18
)

// Peaks remembers, of each key, how many requests at most it made in any window of each
// of the Periods. Beyond 262,144 keys it keeps every second one, chosen by its hash,
// then every fourth and so on: their shares stay those of all. The zero value has seen
// none. It is not safe for concurrent use.
type Peaks struct {
	start, last time.Time
	index       map[uint64]uint32
	keys        []peak
	halvings    int
	most        int // keys; zero: mostKeys
}

// peak is what one key has done.
type peak struct {
	hash   uint64
	counts [periods][slots + 1]uint32 // by the number of the part, modulo slots+1
	part   [periods]uint32            // the latest
	most   [periods]uint32
}

// Add counts a request of the key of a hash, which must be spread evenly over 64 bits.
// A time before the latest counts as that.
func (p *Peaks) Add(hash uint64, at time.Time) {
	if p.index == nil {
		p.index, p.start, p.last = map[uint64]uint32{}, at, at
	}
	if at.Before(p.last) {
		at = p.last
	}
	p.last = at
	if !p.keeps(hash) {
		return
	}
	i, ok := p.index[hash]
	if !ok {
		i = uint32(len(p.keys))
		p.index[hash] = i
		p.keys = append(p.keys, peak{hash: hash})
	}
	p.keys[i].add(at.Sub(p.start))
	for len(p.keys) > p.room() {
		p.halve()
	}
}

func (p *Peaks) room() int {
	if p.most > 0 {
		return p.most
	}
	return mostKeys
}

// keeps reports whether a key is in the sample.
func (p *Peaks) keeps(hash uint64) bool { return bits.LeadingZeros64(hash) >= p.halvings }

// halve drops about half of the keys.
func (p *Peaks) halve() {
	p.halvings++
	kept := p.keys[:0]
	clear(p.index)
	for _, k := range p.keys {
		if p.keeps(k.hash) {
			p.index[k.hash] = uint32(len(kept))
			kept = append(kept, k)
		}
	}
	p.keys = kept
}

func (k *peak) add(since time.Duration) {
	for i, period := range Periods {
		part := uint32(since / (period / slots))
		counts := &k.counts[i]
		for n := range min(part-k.part[i], slots+1) {
			counts[(part-n)%(slots+1)] = 0
		}
		k.part[i] = part
		counts[part%(slots+1)]++
		sum := uint32(0)
		for _, n := range counts {
			sum += n
		}
		k.most[i] = max(k.most[i], sum)
	}
}
