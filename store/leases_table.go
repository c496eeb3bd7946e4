package store

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// A leaseTable holds the leases of all keys, in shards with a lock each.
type leaseTable struct {
	seed   maphash.Seed
	life   time.Duration
	most   int // keys of a shard
	shards [leaseShards]leaseShard
	spares spares
	gone   atomic.Int64 // answered by keys that are forgotten
}

const (
	leaseShards = 32
	// someKeys are compared to find one to forget.
	someKeys = 8
)

type leaseShard struct {
	mu   sync.Mutex
	keys map[string]*leased
	// slots find some keys without the lock.
	slots atomic.Pointer[[hotSlots]atomic.Pointer[hotLease]]
}

// leased is the lease of a key, guarded by the lock of its shard.
type leased struct {
	limit.Lease
	limit  limit.Limit
	used   time.Time
	asking *leaseCall
	key    string
	hot    *hotLease // what it lends; nil: it never did
}

// A leaseCall is a call to the Store in flight.
type leaseCall struct {
	done chan struct{}
	err  error // before done is closed
}

// A leasePart is one Ask of a Take.
type leasePart struct {
	shard  *leaseShard
	slot   uint64
	key    *leased     // nil: it cannot be leased
	counts float64     // demand counted
	held   bool        // its lease has granted it
	of     limit.Grant // that did
	asks   bool        // put goes to the Store
	put    limit.Ask
	call   *leaseCall // this Take's, if put asks for more than it needs
}

func newLeaseTable(keys int, life time.Duration) *leaseTable {
	return &leaseTable{seed: maphash.MakeSeed(), life: life, most: (keys-1)/leaseShards + 1}
}

// quick decides one ask by its lease, if that is possible. counted reports whether
// the key counts the call.
func (t *leaseTable) quick(now time.Time, a *limit.Ask, d *limit.Decision) (known, counted bool) {
	s, slot := t.shard(a.Key)
	if slots := s.slots.Load(); slots != nil {
		h := slots[slot].Load()
		if h != nil && h.key == a.Key && h.limit == a.Limit && a.Leases() && h.take(now, a, d, &t.spares) {
			return true, true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[a.Key]
	if k == nil || k.limit != a.Limit || !a.Leases() {
		return false, false
	}
	k.collect()
	defer k.lend(s, slot, false)
	if *d, known = k.Take(now, *a); known {
		k.used = now
		k.Want(*a, t.life)
	}
	return known, false
}

// shard returns the shard of a key, and its slot there.
func (t *leaseTable) shard(key string) (s *leaseShard, slot uint64) {
	hash := maphash.String(t.seed, key)
	return &t.shards[hash%leaseShards], hash / leaseShards % hotSlots
}

// calls counts what was answered without a lock.
func (t *leaseTable) calls() (n int64) {
	n = t.gone.Load()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, k := range s.keys {
			if k.hot != nil {
				n += k.hot.calls()
			}
		}
		s.mu.Unlock()
	}
	return n
}

// find fills in the keys of parts, and counts the demand.
func (t *leaseTable) find(parts []leasePart, a []limit.Ask, now time.Time) {
	for i := range a {
		if !a[i].Leases() {
			continue
		}
		s, slot := t.shard(a[i].Key)
		s.mu.Lock()
		k := s.keys[a[i].Key]
		if k == nil || k.limit != a[i].Limit {
			k = t.put(s, a[i])
		}
		k.used = now
		parts[i] = leasePart{shard: s, slot: slot, key: k, counts: k.Want(a[i], t.life)}
		s.mu.Unlock()
	}
}

// put adds a key, in place of one not used lately if there are too many. Caller
// holds mu.
func (t *leaseTable) put(s *leaseShard, a limit.Ask) *leased {
	if s.keys == nil {
		s.keys = make(map[string]*leased)
	}
	if _, has := s.keys[a.Key]; !has && len(s.keys) >= t.most {
		var oldest string
		looked := 0
		for key, k := range s.keys { // in an order that differs each time
			if looked == 0 || k.last().Before(s.keys[oldest].last()) {
				oldest = key
			}
			if looked++; looked == someKeys {
				break
			}
		}
		t.forget(s, oldest)
	}
	t.forget(s, a.Key)                                      // it had another limit
	k := &leased{limit: a.Limit, key: strings.Clone(a.Key)} // it may be part of a large string
	s.keys[k.key] = k
	return k
}

// forget forgets a key, if it is there. Caller holds mu.
func (t *leaseTable) forget(s *leaseShard, key string) {
	k := s.keys[key]
	if k == nil {
		return
	}
	delete(s.keys, key)
	if k.hot != nil {
		k.collect() // nothing is lent any more
		t.gone.Add(k.hot.calls())
		_, slot := t.shard(key)
		s.slots.Load()[slot].CompareAndSwap(k.hot, nil)
	}
}

// last is about when k was used last.
func (k *leased) last() time.Time {
	if k.hot != nil {
		if at := time.Unix(0, k.hot.used.Load()); at.After(k.used) {
			return at
		}
	}
	return k.used
}

// own locks the key of p, and takes back what it lends. lend ends that; fresh
// says that the key has something new from the Store.
func (p *leasePart) own() {
	p.shard.mu.Lock()
	p.key.collect()
}

func (p *leasePart) lend(fresh bool) {
	if p.shard.keys[p.key.key] == p.key { // it was not forgotten
		p.key.lend(p.shard, p.slot, fresh)
	}
	p.shard.mu.Unlock()
}

// spent is the outcome of spend.
type spent uint8

const (
	unknown spent = iota // the Store has to be asked
	passed
	refused
)

// spend decides by the leases. If all pass, their tokens are used; if one
// refuses, none are. If one is unknown, the tokens of the others are held until
// back.
func (t *leaseTable) spend(now time.Time, parts []leasePart, a []limit.Ask, d []limit.Decision) spent {
	how := passed
	for i := range parts {
		p := &parts[i]
		if p.key == nil {
			how = unknown
			continue
		}
		p.own()
		answer, known := p.key.Take(now, a[i])
		p.of = p.key.Granted()
		p.lend(false)
		p.held = known && answer.OK
		switch {
		case p.held:
			d[i] = answer
		case known:
			t.back(parts, a)
			t.look(now, parts, a, d)
			return refused
		default:
			how = unknown
		}
	}
	return how
}

// look fills in what is known of each key when one of them refuses.
func (t *leaseTable) look(now time.Time, parts []leasePart, a []limit.Ask, d []limit.Decision) {
	for i := range parts {
		d[i] = parts[i].look(now, a[i])
	}
}

// look returns what is known of a when another key refuses. A token that would
// have passed is no demand then.
func (p *leasePart) look(now time.Time, a limit.Ask) (d limit.Decision) {
	if p.key == nil {
		var none limit.Lease
		return none.Look(now, a)
	}
	p.own()
	defer p.lend(false)
	if d = p.key.Look(now, a); d.OK {
		p.key.Unwant(p.counts)
	}
	return d
}

// back returns the tokens that were held and are not used.
func (t *leaseTable) back(parts []leasePart, a []limit.Ask) {
	for i := range parts {
		if p := &parts[i]; p.held {
			p.held = false
			p.own()
			p.key.Back(a[i].N, p.of)
			p.lend(false)
		}
	}
}

// claim prepares the asks for the Store. If a call in flight already asks for
// more than it needs of one of the keys, busy is that call and nothing is
// claimed, unless itself is set: then the Take asks for its own need. A hung
// call is ignored.
func (t *leaseTable) claim(now time.Time, parts []leasePart, a []limit.Ask, itself bool, hung *leaseCall) (busy *leaseCall) {
	var own *leaseCall
	for i := range parts {
		p := &parts[i]
		p.put, p.asks, p.call = a[i], !p.held, nil
		if p.held || p.key == nil {
			continue
		}
		p.own()
		if p.key.asking == hung {
			p.key.asking = nil
		}
		// If another has been granted some meanwhile, more would displace that.
		held := p.key.Lease
		if _, known := held.Take(now, a[i]); known {
			busy = nil
		} else if busy = p.key.asking; busy == nil {
			p.put = p.key.Ask(now, a[i], t.life)
		}
		if p.put.N > a[i].N {
			if own == nil {
				own = &leaseCall{done: make(chan struct{})}
			}
			p.key.asking, p.call = own, own
		}
		p.lend(false)
		if busy != nil && !itself {
			t.release(parts, nil)
			return busy
		}
	}
	return nil
}

// release ends the call, for those that wait for it.
func (t *leaseTable) release(parts []leasePart, err error) {
	var own *leaseCall
	for i := range parts {
		p := &parts[i]
		if p.call == nil {
			continue
		}
		own = p.call
		p.shard.mu.Lock()
		if p.key.asking == own { // no Take has lost patience
			p.key.asking = nil
		}
		p.shard.mu.Unlock()
		p.call = nil
	}
	if own != nil {
		own.err = err
		close(own.done)
	}
}

// fail ends a call that failed. The Takes that wait for it get err, unless it
// may not concern them, as the call was about other keys too, or ended by the
// deadline of its caller: then they call the Store themselves.
func (t *leaseTable) fail(ctx context.Context, parts []leasePart, a []limit.Ask, err error) {
	t.back(parts, a)
	for i := range parts {
		if p := &parts[i]; p.asks && p.key != nil {
			p.shard.mu.Lock()
			p.key.Lost()
			p.shard.mu.Unlock()
		}
	}
	deadline, has := ctx.Deadline()
	impatient := ctx.Err() != nil || has && !time.Now().Before(deadline) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)
	if len(parts) > 1 || impatient {
		err = nil
	}
	t.release(parts, err)
}

// wait waits until the call has ended, and returns its error; impatient reports
// that it has not ended within most.
func (c *leaseCall) wait(ctx context.Context, most time.Duration) (impatient bool, err error) {
	end := time.NewTimer(most)
	defer end.Stop()
	select {
	case <-c.done:
		return false, c.err
	case <-end.C:
		return true, nil
	case <-ctx.Done():
		return false, fmt.Errorf("store: not decided: %w", context.Cause(ctx))
	}
}
