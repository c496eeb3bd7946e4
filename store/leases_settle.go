package store

import (
	"math/rand/v2"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// settle records the decisions of the Store, and fills in d. If all pass, but
// something that they need has become too old meanwhile, late is true: nothing is
// used then, and what is still good is kept.
func (t *leaseTable) settle(sent time.Time, ok bool, parts []leasePart, a []limit.Ask, told, d []limit.Decision) (late bool) {
	now, chance := time.Now(), rand.Float64()
	late = ok && t.late(now, sent, parts, a, told)
	if !ok || late {
		t.back(parts, a)
	}
	for i := range parts {
		p, ask := &parts[i], a[i]
		switch {
		case p.asks:
			if late && p.key != nil && !limit.Late(now, sent, t.life) {
				ask.N = 0 // all of it is for later
			}
			d[i], told = told[0], told[1:]
			t.answer(now, sent, ok, p, ask, &d[i], chance)
		case !ok:
			d[i] = p.look(now, a[i])
		}
	}
	t.release(parts, nil)
	return late
}

// late reports whether something that was granted may not be used any more: the
// answer, or what was held while the Store was asked about other keys. Debts,
// refunds and peeks let nothing pass, so they may be of any age.
func (t *leaseTable) late(now, sent time.Time, parts []leasePart, a []limit.Ask, told []limit.Decision) bool {
	old := limit.Late(now, sent, t.life)
	for i := range parts {
		p := &parts[i]
		if !p.asks {
			if !p.of.Good(now) {
				return true
			}
			continue
		}
		if old && told[0].N > 0 && !a[i].Debt && a[i].Limit.Period > 0 {
			return true
		}
		told = told[1:]
	}
	return false
}

// repeatable reports whether a may be asked for again although it was charged: a
// debt would be owed twice, and a refund given twice.
func repeatable(a []limit.Ask) bool {
	for i := range a {
		if a[i].Debt || a[i].N < 0 {
			return false
		}
	}
	return true
}

// answer turns the decision of the Store about one key into the decision about
// the ask.
func (t *leaseTable) answer(now, sent time.Time, ok bool, p *leasePart, a limit.Ask, d *limit.Decision, chance float64) {
	if p.key == nil {
		if ok && a.N < 0 {
			t.renew(a.Key)
		}
		return
	}
	p.own()
	defer p.lend(true)
	if !ok && d.OK {
		p.key.Unwant(p.counts)
	}
	*d = p.key.Answer(now, sent, a, p.put, *d, t.life, chance)
}

// renew forgets the refusal of a key that was refunded.
func (t *leaseTable) renew(key string) {
	s, slot := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[key]; k != nil {
		k.collect()
		k.Renew()
		k.lend(s, slot, true)
	}
}
