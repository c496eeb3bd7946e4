package memory

import "sync/atomic"

// A filter knows of most keys that windows have nothing of them, without their
// lock: it has one bit for each, at a place that the hash says (Bloom: Space/time
// trade-offs in hash coding with allowable errors, 1970, with one hash). Bits are
// never taken back; instead it is made anew, of those that are there, when so
// many were set that an eighth of all may be. Who holds the locks of a key's
// lines reads rightly that it is not there. The zero value is ready, and empty.
type filter struct {
	bits  atomic.Pointer[[]atomic.Uint64]
	added int // since it was made; guarded by the lock of the windows
}

// fewestWords are 4096 bits.
const fewestWords = 64

// may tells whether the key of hash h may be there.
func (f *filter) may(h uint64) bool {
	bits := f.bits.Load()
	return bits != nil && wordOf(*bits, h).Load()>>(h%64)&1 != 0
}

// add takes in the key of hash h, which is among the entries. The lock of the
// windows is held.
func (f *filter) add(h uint64, entries []windowEntry) {
	bits := f.bits.Load()
	if bits != nil && f.added < 8*len(*bits) {
		f.added++
		wordOf(*bits, h).Or(1 << (h % 64))
		return
	}
	words := fewestWords
	for words < len(entries)/4 { // at most a sixteenth of all bits will be set
		words *= 2
	}
	fresh := make([]atomic.Uint64, words)
	for i := range entries {
		wordOf(fresh, entries[i].hash).Or(1 << (entries[i].hash % 64))
	}
	f.added = len(entries)
	f.bits.Store(&fresh)
}

// wordOf is the word of a hash; there is a power of two of them.
func wordOf(bits []atomic.Uint64, h uint64) *atomic.Uint64 {
	return &bits[h/64&uint64(len(bits)-1)]
}
