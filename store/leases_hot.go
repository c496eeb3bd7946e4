package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A hotLease is what a key that is leased, or refused, lends to those that ask
// without the lock of its shard. They use it up by atomic operations, on one word
// as long as one processor asks at a time, and on a word of each otherwise. The
// lock is needed to lend, to collect what was not used, and to spread it again.
type hotLease struct {
	key   string
	limit limit.Limit
	lease atomic.Pointer[limit.Lease] // a copy, never changed
	used  atomic.Int64                // about when, of Unix, in nanoseconds
	more  atomic.Pointer[[hotParts]hotPart]

	// Under the lock of the shard:
	lent  int64 // in all; below zero: nothing is
	epoch uint64

	_    [64]byte // what is above is seldom written
	main hotPart
}

// A hotPart is the part of one processor, on a cache line of its own.
type hotPart struct {
	left    atomic.Uint64 // an epoch, odd if closed, and how many
	calls   atomic.Int64  // answered
	refused atomic.Int64  // wanted by those that were refused
	_       [40]byte
}

const (
	hotParts = 8
	hotSlots = 256 // of a shard
	// hotBits are those of how many are left, the others those of the epoch. A
	// caller that stands still between two atomic operations finds another epoch.
	hotBits = 40
	mostHot = 1<<hotBits - 1
	// hotShare is which part of what is left a processor takes at once.
	hotShare = 16
	hotUsed  = time.Millisecond // between two writes
)

// spares hands each processor a number below hotParts, of its own as long as
// there are enough.
type spares struct {
	pool sync.Pool // of *int
	next atomic.Int64
}

func (s *spares) get() *int {
	if n, ok := s.pool.Get().(*int); ok {
		return n
	}
	n := int(s.next.Add(1) % hotParts)
	return &n
}

// take decides a by what is lent, if that is possible.
func (h *hotLease) take(now time.Time, a *limit.Ask, d *limit.Decision, s *spares) (known bool) {
	l := h.lease.Load()
	if ns := now.UnixNano(); ns-h.used.Load() > int64(hotUsed) {
		h.used.Store(ns)
	}
	if more := h.more.Load(); more != nil {
		n := s.get()
		known = h.takePart(l, now, a, d, &more[*n])
		s.pool.Put(n)
		return known
	}
	word := h.main.left.Load()
	if word>>hotBits&1 == 1 {
		return false
	}
	if *d, known = l.Quick(now, *a, int64(word&mostHot)); !known {
		return false
	}
	if !d.OK {
		h.main.refuse(a.N)
		return true
	}
	if !h.main.left.CompareAndSwap(word, word-uint64(a.N)) {
		h.divide()
		return false
	}
	h.main.calls.Add(1)
	return true
}

// divide begins to use a word for each processor.
func (h *hotLease) divide() {
	more := new([hotParts]hotPart)
	for i := range more {
		more[i].left.Store(1 << hotBits) // closed until lent again
	}
	h.more.CompareAndSwap(nil, more)
}

func (p *hotPart) refuse(n int64) {
	p.refused.Add(min(n, mostHot))
	p.calls.Add(1)
}

// takePart decides a by one of the parts, which is filled from what is not in
// any part yet.
func (h *hotLease) takePart(l *limit.Lease, now time.Time, a *limit.Ask, d *limit.Decision, p *hotPart) (known bool) {
	for range 4 {
		word := p.left.Load()
		if word>>hotBits&1 == 1 {
			return false
		}
		left, n := word&mostHot, uint64(a.N)
		if left < n {
			if h.fill(p, word>>hotBits, n) {
				continue
			}
			return h.refuse(l, now, a, d, p, word>>hotBits)
		}
		others := h.main.left.Load() & mostHot
		if *d, known = l.Quick(now, *a, int64(left+others)); !known {
			return false
		}
		if p.left.CompareAndSwap(word, word-n) {
			p.calls.Add(1)
			return true
		}
	}
	return false
}

// fill moves n, or more if there is much, into p.
func (h *hotLease) fill(p *hotPart, epoch, n uint64) bool {
	word := h.main.left.Load()
	left := word & mostHot
	some := max(n, left/hotShare)
	if word>>hotBits != epoch || left < some || !h.main.left.CompareAndSwap(word, word-some) {
		return false
	}
	for {
		word := p.left.Load()
		if word>>hotBits != epoch {
			return false // collected meanwhile: it is lost
		}
		if p.left.CompareAndSwap(word, word+some) {
			return true
		}
	}
}

// refuse refuses a, if all parts together have too little, and the lease says so.
// What is being collected may be more.
func (h *hotLease) refuse(l *limit.Lease, now time.Time, a *limit.Ask, d *limit.Decision, p *hotPart, epoch uint64) (known bool) {
	more, word := h.more.Load(), h.main.left.Load()
	left, open := word&mostHot, word>>hotBits == epoch
	for i := range more {
		word := more[i].left.Load()
		left, open = left+(word&mostHot), open && word>>hotBits == epoch
	}
	if !open {
		return false
	}
	if left >= uint64(a.N) {
		return false // to be collected
	}
	if *d, known = l.Quick(now, *a, int64(left)); known {
		p.refuse(a.N)
	}
	return known
}

// lend lends what k holds to callers that do not lock. fresh says that k has
// something new from the Store. Caller holds the lock of s.
func (k *leased) lend(s *leaseShard, slot uint64, fresh bool) {
	if !k.Lends() {
		return
	}
	h := k.hot
	if h == nil {
		h = &hotLease{key: k.key, limit: k.limit, lent: -1}
		k.hot, fresh = h, true
	}
	if fresh || h.lease.Load() == nil {
		now := k.Lease
		h.lease.Store(&now)
	}
	h.lent = k.Lend(mostHot)
	h.epoch += 2 // even: open
	if more := h.more.Load(); more != nil {
		for i := range more {
			more[i].left.Store(h.word())
		}
	}
	h.main.left.Store(h.word() | uint64(h.lent))
	s.publish(slot, h)
}

// word is the epoch with none left.
func (h *hotLease) word() uint64 { return h.epoch << hotBits }

// collect takes back what is lent. Caller holds the lock of the shard.
func (k *leased) collect() {
	h := k.hot
	if h == nil || h.lent < 0 {
		return
	}
	left, refused := h.main.close(h.word())
	if more := h.more.Load(); more != nil {
		for i := range more {
			some, others := more[i].close(h.word())
			left, refused = left+some, refused+others
		}
	}
	k.Return(left, h.lent-left, refused)
	h.lent = -1
}

// close returns what is left of the epoch, and what was wanted in vain.
func (p *hotPart) close(epoch uint64) (left, refused int64) {
	word := p.left.Swap(epoch | 1<<hotBits)
	if word>>hotBits == epoch>>hotBits {
		left = int64(word & mostHot)
	}
	return left, p.refused.Swap(0)
}

// calls counts those that were answered by what was lent.
func (h *hotLease) calls() (n int64) {
	n = h.main.calls.Load()
	if more := h.more.Load(); more != nil {
		for i := range more {
			n += more[i].calls.Load()
		}
	}
	return n
}

// publish lets h be found without the lock. Two keys of one slot take turns.
func (s *leaseShard) publish(slot uint64, h *hotLease) {
	slots := s.slots.Load()
	if slots == nil {
		slots = new([hotSlots]atomic.Pointer[hotLease])
		s.slots.Store(slots)
	}
	if slots[slot].Load() != h {
		slots[slot].Store(h)
	}
}
