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

// likely reports whether the one key of q is for decide.sql.
func (s *Store) likely(q *question) bool {
	a := &q.asks[0]
	if a.N <= 0 || a.N > q.limits[0].most {
		return false
	}
	h := s.hints.Load()
	if h == nil {
		return true
	}
	at, tag := h.of(q.keys[0])
	return at.Load() != tag
}

// note remembers whether the same would be refused if it were asked again.
func (s *Store) note(q *question, d []limit.Decision) {
	if len(q.asks) != 1 || q.asks[0].N <= 0 {
		return
	}
	refuses := d[0].Remaining < q.asks[0].N
	h := s.hints.Load()
	if h == nil {
		if !refuses {
			return
		}
		s.hints.CompareAndSwap(nil, &hints{seed: maphash.MakeSeed()})
		h = s.hints.Load()
	}
	switch at, tag := h.of(q.keys[0]); {
	case refuses:
		at.Store(tag)
	case at.Load() == tag:
		at.Store(0)
	}
}

// sweepEvery is how many new rows one page is swept for.
const sweepEvery = 8

// grown counts new rows, and sweeps for them. What comes of it is no matter
// of the decision, which has been made.
func (s *Store) grown(ctx context.Context, t *statements, n int64) {
	now := s.added.Add(n)
	if pages := now/sweepEvery - (now-n)/sweepEvery; pages > 0 {
		var gone, next int64
		_ = s.Query(ctx, t.sweep, int64(-1), pages).Scan(&gone, &next)
	}
}
