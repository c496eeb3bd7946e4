package throttlesql

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/throttle-go/throttle/limit"
)

// hints are the keys that are likely to be refused: decide.sql, which can only
// charge, would be sent for them in vain, and would lock their rows. They take
// 64 KiB, whatever the number of keys. A wrong hint costs one more statement.
type hints struct {
	seed  maphash.Seed
	table [hintCount]atomic.Uint32
}

const hintCount = 1 << 14

func (h *hints) of(key string) (at *atomic.Uint32, tag uint32) {
	sum := maphash.String(h.seed, key)
	return &h.table[sum%hintCount], uint32(sum>>32) | 1
}

// likelyRefused reports whether a key is likely to be refused.
func (s *Store) likelyRefused(key string) bool {
	h := s.hints.Load()
	if h == nil {
		return false
	}
	at, tag := h.of(key)
	return at.Load() == tag
}

// noteRefusals notes for each key whether the same ask would be refused next.
func (s *Store) noteRefusals(r *request, d []limit.Decision) {
	for i := range r.items {
		if it := &r.items[i]; it.limit != nil && r.asks[i].N > 0 {
			s.noteRefusal(it.key, d[i].Remaining < r.asks[i].N)
		}
	}
}

func (s *Store) noteRefusal(key string, refused bool) {
	h := s.hints.Load()
	if h == nil {
		if !refused {
			return
		}
		s.hints.CompareAndSwap(nil, &hints{seed: maphash.MakeSeed()})
		h = s.hints.Load()
	}
	switch at, tag := h.of(key); {
	case refused:
		at.Store(tag)
	case at.Load() == tag:
		at.Store(0)
	}
}
