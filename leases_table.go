package throttle

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A leaseTable is the leases of all keys, in parts that are locked by themselves.
type leaseTable struct {
	seed   maphash.Seed
	life   time.Duration
	most   int // keys of a shard
	shards [leaseShards]leaseShard
}

const (
	leaseShards = 32
	// someKeys are looked at for one to forget.
	someKeys = 8
)

type leaseShard struct {
	mu   sync.Mutex
	keys map[string]*leased
}

// leased is the lease of a key, under the lock of its shard.
type leased struct {
	limit.Lease
	limit  limit.Limit
	used   time.Time
	asking *leaseCall
}

// A leaseCall is a question that is with the Store.
type leaseCall struct {
	done chan struct{}
	err  error // before done is closed
}

// A leasePart is one Ask on its way.
type leasePart struct {
	shard *leaseShard
	key   *leased // nil: it cannot be leased
	held  bool    // it was answered by what is held
	sent  time.Time
	asks  bool // put is put to the Store
	put   limit.Ask
	call  *leaseCall // ours; nil: another one asks for this key
}

func newLeaseTable(keys int, life time.Duration) *leaseTable {
	return &leaseTable{seed: maphash.MakeSeed(), life: life, most: (keys + leaseShards - 1) / leaseShards}
}

// quick answers one ask by what is held, if it can.
func (t *leaseTable) quick(now time.Time, a *limit.Ask, d *limit.Decision) (known bool) {
	s := t.shard(a.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[a.Key]
	if k == nil || k.limit != a.Limit || !a.Leases() {
		return false
	}
	if *d, known = k.Take(now, *a); known {
		k.used = now
		k.Seen(a.N)
	}
	return known
}

func (t *leaseTable) shard(key string) *leaseShard {
	return &t.shards[maphash.String(t.seed, key)%leaseShards]
}

// find fills in the keys of parts, and counts what is wanted.
func (t *leaseTable) find(parts []leasePart, a []limit.Ask, now time.Time) {
	for i := range a {
		if !a[i].Leases() {
			continue
		}
		s := t.shard(a[i].Key)
		s.mu.Lock()
		k := s.keys[a[i].Key]
		if k == nil || k.limit != a[i].Limit {
			k = s.put(a[i], t.most)
		}
		k.used = now
		k.Seen(a[i].N)
		s.mu.Unlock()
		parts[i] = leasePart{shard: s, key: k}
	}
}

// put makes a new key, in place of one that was not asked for lately if there
// are too many. Caller holds mu.
func (s *leaseShard) put(a limit.Ask, most int) *leased {
	if s.keys == nil {
		s.keys = make(map[string]*leased)
	}
	if _, has := s.keys[a.Key]; !has && len(s.keys) >= most {
		var oldest string
		looked := 0
		for key, k := range s.keys { // in an order that differs each time
			if looked == 0 || k.used.Before(s.keys[oldest].used) {
				oldest = key
			}
			if looked++; looked == someKeys {
				break
			}
		}
		delete(s.keys, oldest)
	}
	k := &leased{limit: a.Limit}
	s.keys[a.Key] = k
	return k
}

// outcomes of spend.
type spent uint8

const (
	unknown spent = iota // the Store has to be asked
	passed
	refused
)

// spend answers by what is held. If it passes, what is held is used; if it is
// refused, nothing is, and if it is not known, it is until back.
func (t *leaseTable) spend(now time.Time, parts []leasePart, a []limit.Ask, d []limit.Decision) spent {
	how := passed
	for i := range parts {
		p := &parts[i]
		if p.key == nil {
			how = unknown
			continue
		}
		p.shard.mu.Lock()
		answer, known := p.key.Take(now, a[i])
		p.sent = p.key.Granted()
		p.shard.mu.Unlock()
		if p.held = known && answer.OK; p.held {
			d[i] = answer
		} else if known {
			t.back(parts, a)
			t.look(now, parts, a, d)
			d[i] = answer
			return refused
		} else {
			how = unknown
		}
	}
	return how
}

// look fills in the answers about keys that another one was refused for.
func (t *leaseTable) look(now time.Time, parts []leasePart, a []limit.Ask, d []limit.Decision) {
	for i := range parts {
		p := &parts[i]
		if p.key == nil {
			var none limit.Lease
			d[i] = none.Look(now, a[i])
			continue
		}
		p.shard.mu.Lock()
		d[i] = p.key.Look(now, a[i])
		p.shard.mu.Unlock()
	}
}

// back gives back what was held, as it is not used.
func (t *leaseTable) back(parts []leasePart, a []limit.Ask) {
	for i := range parts {
		if p := &parts[i]; p.held {
			p.held = false
			p.shard.mu.Lock()
			p.key.Back(a[i].N, p.sent)
			p.shard.mu.Unlock()
		}
	}
}

// claim prepares what is to be put to the Store. If another Take asks for one
// of the keys, busy is that one and nothing is claimed, or, if all, it asks for
// that key just what it needs.
func (t *leaseTable) claim(now time.Time, parts []leasePart, a []limit.Ask, all bool) (busy *leaseCall) {
	var own *leaseCall
	for i := range parts {
		p := &parts[i]
		p.put, p.asks, p.call = a[i], !p.held, nil
		if p.held || p.key == nil {
			continue
		}
		p.shard.mu.Lock()
		switch {
		case p.key.asking == nil:
			if own == nil {
				own = &leaseCall{done: make(chan struct{})}
			}
			p.key.asking, p.call = own, own
			p.put = p.key.Ask(now, a[i], t.life)
		case !all:
			busy = p.key.asking
		}
		p.shard.mu.Unlock()
		if busy != nil {
			t.release(parts, nil)
			return busy
		}
	}
	return nil
}

// release ends the question, for those who wait for it.
func (t *leaseTable) release(parts []leasePart, err error) {
	var own *leaseCall
	for i := range parts {
		p := &parts[i]
		if p.call == nil {
			continue
		}
		own = p.call
		p.call = nil
		p.shard.mu.Lock()
		p.key.asking = nil
		p.shard.mu.Unlock()
	}
	if own != nil {
		own.err = err
		close(own.done)
	}
}

// fail ends a question that was not answered. If that is only for the caller's
// impatience, those who wait for it ask themselves.
func (t *leaseTable) fail(ctx context.Context, parts []leasePart, a []limit.Ask, err error) {
	t.back(parts, a)
	if ctx.Err() != nil {
		err = nil
	}
	t.release(parts, err)
}

// settle notes what the Store told, and fills in d.
func (t *leaseTable) settle(sent time.Time, ok bool, parts []leasePart, a []limit.Ask, told, d []limit.Decision) {
	now, chance := time.Now(), rand.Float64()
	if !ok {
		t.back(parts, a)
		t.look(now, parts, a, d)
	}
	for i := range parts {
		p := &parts[i]
		if !p.asks {
			continue
		}
		d[i], told = told[0], told[1:]
		if p.call != nil {
			p.shard.mu.Lock()
			d[i] = p.key.Answer(now, sent, a[i], p.put, d[i], t.life, chance)
			p.shard.mu.Unlock()
		}
	}
	t.release(parts, nil)
}

// wait is until the call is answered, or an error.
func (c *leaseCall) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("throttle: not decided: %w", context.Cause(ctx))
	}
}
