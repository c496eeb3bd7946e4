package memory

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/bits"
)

// seed is the secret of a table: 256 random bits.
type seed [4]uint64

func newSeed() (s seed) {
	var b [32]byte
	_, _ = crand.Read(b[:]) // never fails: it ends the program instead
	return seedOf(b)
}

func seedOf(b [32]byte) (s seed) {
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s
}

func (s seed) bytes() (b [32]byte) {
	for i := range s {
		binary.LittleEndian.PutUint64(b[8*i:], s[i])
	}
	return b
}

// hash is a keyed hash of folded products, in the manner of wyhash (Wang Yi,
// github.com/wangyi-fudan/wyhash): each 16 bytes go through one product of 64 by
// 64 bits, of which both halves are added. In contrast to wyhash both factors of
// every product are masked by secret random words, none by a constant, so nobody
// can choose keys that meet in a line, or share a fingerprint, better than by
// chance; and no answer of a limiter shows a bit of any hash. It takes 3 ns for
// 16 bytes, where SipHash-1-3 takes 12. The standard hash/maphash would do, but
// its seed cannot be kept over a restart.
func (s *seed) hash(key string) uint64 {
	var a, b uint64
	n, state := len(key), s[0]
	switch {
	case n > 16:
		tail := key[n-16:]
		for ; len(key) > 16; key = key[16:] {
			state = fold(word(key)^s[1], word(key[8:])^state)
		}
		a, b = word(tail), word(tail[8:])
	case n >= 8:
		a, b = word(key), word(key[n-8:])
	case n >= 4:
		a, b = half(key), half(key[n-4:])
	case n > 0:
		a = uint64(key[0])<<16 | uint64(key[n/2])<<8 | uint64(key[n-1])
	}
	return fold(s[2]^uint64(n), fold(a^s[1], b^state)^s[3])
}

// fold is the product of a and b, its halves folded onto each other.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// word is the first 8 bytes of key. The compiler makes one load of it.
func word(key string) uint64 {
	_ = key[7]
	return uint64(key[0]) | uint64(key[1])<<8 | uint64(key[2])<<16 | uint64(key[3])<<24 |
		uint64(key[4])<<32 | uint64(key[5])<<40 | uint64(key[6])<<48 | uint64(key[7])<<56
}

// half is the first 4.
func half(key string) uint64 {
	_ = key[3]
	return uint64(key[0]) | uint64(key[1])<<8 | uint64(key[2])<<16 | uint64(key[3])<<24
}
