package memory

import "sync/atomic"

// A ringFilter knows of most keys that they have no ring, without the lock of the
// rings: it has one bit for each, at a place that the hash says (Bloom: Space/time
// trade-offs in hash coding with allowable errors, 1970, with one hash). Bits are
// never taken back; instead it is rebuilt of the entries when so many were set
// that an eighth of all may be. A decision that holds the locks of a key's lines
// reads rightly that the key is not there. The zero value is ready, and empty.
type ringFilter struct {
	bits  atomic.Pointer[[]atomic.Uint64]
	added int // since it was rebuilt; guarded by the lock of the rings
}

// minFilterWords are 4096 bits.
const minFilterWords = 64

// mayHave reports whether the key of hash h may have a ring.
func (f *ringFilter) mayHave(h uint64) bool {
	bits := f.bits.Load()
	return bits != nil && filterWord(*bits, h).Load()>>(h%64)&1 != 0
}

// add takes in the key of hash h, which is among the entries. The lock of the
// rings is held.
func (f *ringFilter) add(h uint64, entries []ringEntry) {
	bits := f.bits.Load()
	if bits != nil && f.added < 8*len(*bits) {
		f.added++
		filterWord(*bits, h).Or(1 << (h % 64))
		return
	}
	words := minFilterWords
	for words < len(entries)/4 { // at most a sixteenth of all bits will be set
		words *= 2
	}
	rebuilt := make([]atomic.Uint64, words)
	for i := range entries {
		filterWord(rebuilt, entries[i].hash).Or(1 << (entries[i].hash % 64))
	}
	f.added = len(entries)
	f.bits.Store(&rebuilt)
}

// filterWord returns the word of a hash; there is a power of two of them.
func filterWord(bits []atomic.Uint64, h uint64) *atomic.Uint64 {
	return &bits[h/64&uint64(len(bits)-1)]
}
