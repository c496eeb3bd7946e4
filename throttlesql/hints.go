package throttlesql

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/throttle-go/throttle/limit"
)

// hints tell which keys are likely to be refused: for them decide.sql, which
// only charges, would be asked in vain, and would lock their rows. They cost
// 64 KiB, whatever the keys. Being wrong costs one more statement.
type hints struct {
	seed  maphash.Seed
	table [hintCount]atomic.Uint32
}

const hintCount = 1 << 14

func (h *hints) of(key string) (at *atomic.Uint32, tag uint32) {
	sum := maphash.String(h.seed, key)
	return &h.table[sum%hintCount], uint32(sum>>32) | 1
}

// refuses reports whether a key is likely to be refused.
func (s *Store) refuses(key string) bool {
	h := s.hints.Load()
	if h == nil {
		return false
	}
	at, tag := h.of(key)
	return at.Load() == tag
}

// note remembers whether the same would be refused if it were asked again.
func (s *Store) note(q *question, d []limit.Decision) {
	for i := range q.asks {
		if q.limits[i] != nil && q.asks[i].N > 0 {
			s.hint(q.keys[i], d[i].Remaining < q.asks[i].N)
		}
	}
}

func (s *Store) hint(key string, refuses bool) {
	h := s.hints.Load()
	if h == nil {
		if !refuses {
			return
		}
		s.hints.CompareAndSwap(nil, &hints{seed: maphash.MakeSeed()})
		h = s.hints.Load()
	}
	switch at, tag := h.of(key); {
	case refuses:
		at.Store(tag)
	case at.Load() == tag:
		at.Store(0)
	}
}

const (
	// sweepEvery is how many new rows one page is swept for.
	sweepEvery = 8
	// sweepMost is how many pages are swept at once.
	sweepMost = 4
	// sweepIdle is for how long, in microseconds, a row must have said nothing.
	// Were it zero, rows of keys that are much used but rarely owe anything
	// would be deleted and made again for ever.
	sweepIdle = 60_000_000
)

// grown counts new rows, and sweeps for them. What comes of it is no matter
// of the decision, which has been made.
func (s *Store) grown(ctx context.Context, t *statements, n int64) {
	now := s.added.Add(n)
	if pages := now/sweepEvery - (now-n)/sweepEvery; pages > 0 {
		var gone, next int64
		_ = s.Query(ctx, t.sweep, int64(-1), min(pages, sweepMost), int64(sweepIdle)).Scan(&gone, &next)
	}
}
