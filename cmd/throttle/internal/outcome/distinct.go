package outcome

import (
	"math"
	"math/bits"
)

const (
	registerBits = 14
	registers    = 1 << registerBits
)

// mostExact is up to how many keys are counted exactly.
const mostExact = 512

// distinct counts how many different keys it has seen: exactly up to 512, and beyond that
// as an estimate (HyperLogLog in 16 KiB), off by 0.8% in the standard deviation. The zero
// value has seen none.
type distinct struct {
	few  map[uint64]struct{} // nil beyond mostExact
	many bool
	rank [registers]uint8
}

// add sees a key by its hash.
func (d *distinct) add(hash uint64) {
	at := &d.rank[hash>>(64-registerBits)]
	if r := uint8(bits.LeadingZeros64(hash<<registerBits|1<<(registerBits-1))) + 1; r > *at {
		*at = r
	}
	if d.many {
		return
	}
	if d.few == nil {
		d.few = map[uint64]struct{}{}
	}
	if d.few[hash] = struct{}{}; len(d.few) > mostExact {
		d.few, d.many = nil, true
	}
}

// count returns how many there are.
func (d *distinct) count() int64 {
	if !d.many {
		return int64(len(d.few))
	}
	sum, zeros := 0.0, 0
	for _, r := range d.rank {
		sum += math.Ldexp(1, -int(r))
		if r == 0 {
			zeros++
		}
	}
	const m = float64(registers)
	estimate := 0.7213 / (1 + 1.079/m) * m * m / sum
	if estimate <= 2.5*m && zeros > 0 {
		estimate = m * math.Log(m/float64(zeros)) // linear counting
	}
	return int64(math.Round(estimate))
}

// Hash returns a hash of text that is the same in each run.
func Hash(text string) uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xd1342543de82ef95
	h := uint64(len(text)) * a
	for ; len(text) >= 8; text = text[8:] {
		w := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		hi, lo := bits.Mul64(h^w^b, a)
		h = hi ^ lo
	}
	w := uint64(0)
	for i := range len(text) {
		w |= uint64(text[i]) << (8 * i)
	}
	hi, lo := bits.Mul64(h^w^b, a)
	h = hi ^ lo
	// The end of MurmurHash3 spreads each bit over all others.
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
