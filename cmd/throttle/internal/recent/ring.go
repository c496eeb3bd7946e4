package recent

import (
	"bytes"
	"encoding/binary"
	"sync"
)

const (
	chunkBytes = 256 << 10
	maxChunks  = 32 // 8 MiB
	maxRecord  = 1 << 10
)

// ring keeps the latest records, in at most 8 MiB: the oldest are overwritten, 256
// KiB at a time. It has no pointers for the garbage collector. The zero value is
// ready, and takes memory as records come.
type ring struct {
	mu     sync.Mutex
	chunks [maxChunks][]byte
	latest int // chunk, counted from the first ever
}

// add adds a record of at most maxRecord bytes.
func (r *ring) add(record []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.chunks[r.latest%maxChunks]
	if len(*c)+len(record)+2 > chunkBytes {
		r.latest++
		c = &r.chunks[r.latest%maxChunks]
		*c = (*c)[:0]
	}
	if *c == nil {
		*c = make([]byte, 0, chunkBytes)
	}
	*c = binary.LittleEndian.AppendUint16(*c, uint16(len(record)))
	*c = append(*c, record...)
}

// records returns a copy of all records, about the oldest first. The lock is held for
// one copy of a chunk at a time; what is overwritten meanwhile is left out.
func (r *ring) records() (all [][]byte) {
	r.mu.Lock()
	latest := r.latest
	r.mu.Unlock()
	for n := max(latest-maxChunks+1, 0); n <= latest; n++ {
		var rest []byte
		r.mu.Lock()
		if n > r.latest-maxChunks {
			rest = bytes.Clone(r.chunks[n%maxChunks])
		}
		r.mu.Unlock()
		for len(rest) > 2 {
			size := int(binary.LittleEndian.Uint16(rest))
			all = append(all, rest[2:2+size])
			rest = rest[2+size:]
		}
	}
	return all
}
