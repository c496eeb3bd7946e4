package throttletest

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// An account is what package limit knows of one key.
type account struct {
	limit limit.Limit // under which state was written
	state limit.State
	apart apart     // for a Kind that keeps more
	past  []pastAsk // what was asked of apart, so that it can be copied
	until time.Time // nothing is left to remember then

	former *account // of the same key, under another Kind
}

// apart is a limit.Log or limit.Slots.
type apart interface {
	Take(now time.Time, a limit.Ask) limit.Decision
	Used(now time.Time, l limit.Limit) int64
}

type pastAsk struct {
	at  time.Time
	ask limit.Ask
}

// newApart is what a Kind keeps that does not fit a State; of others nil.
func newApart(k limit.Kind) apart {
	switch k {
	case limit.SlidingLog:
		return new(limit.Log)
	case limit.SlidingSlots:
		return new(limit.Slots)
	}
	return nil
}

func newAccount(l limit.Limit) *account { return &account{limit: l, apart: newApart(l.Kind)} }

// take answers a as of now.
func (k *account) take(now time.Time, a limit.Ask) (d limit.Decision) {
	if k.apart != nil {
		k.past = append(k.past, pastAsk{now, a})
		d = k.apart.Take(now, a)
	} else {
		k.state, d = limit.Take(k.state, now, a)
	}
	k.until = now.Add(d.ResetAfter)
	return d
}

// used is how much of its limit is in use, see limit.Used.
func (k *account) used(now time.Time) int64 {
	if k.apart != nil {
		return k.apart.Used(now, k.limit)
	}
	return limit.Used(k.state, now, k.limit)
}

// passes tells whether a would pass, and charges nothing.
func (k *account) passes(now time.Time, a limit.Ask) bool {
	if k.apart == nil {
		_, d := limit.Take(k.state, now, a)
		return d.OK
	}
	d := k.take(now, limit.Ask{Key: a.Key, Limit: a.Limit})
	least := a.N
	if a.Min > 0 {
		least = min(a.N, a.Min)
	}
	switch {
	case a.N == 0:
		return d.OK
	case a.N < 0 || a.Debt:
		return true
	}
	return least <= d.Remaining
}

// copied is an account that knows the same.
func (k *account) copied() *account {
	c := &account{limit: k.limit, state: k.state, apart: newApart(k.limit.Kind), until: k.until, former: k.former}
	for _, p := range k.past {
		c.take(p.at, p.ask)
	}
	return c
}

// takeAll is limit.TakeAll, also of what keeps more than a State.
func takeAll(now time.Time, k []*account, a []limit.Ask, d []limit.Decision) (ok bool) {
	if len(a) == 1 {
		d[0] = k[0].take(now, a[0])
		return d[0].OK
	}
	ok = true
	passed := make([]bool, len(a))
	for i := range a {
		passed[i] = k[i].passes(now, a[i])
		ok = ok && passed[i]
	}
	for i, ask := range a {
		if !ok && passed[i] { // it is another question that was refused
			ask = limit.Ask{Key: ask.Key, Limit: ask.Limit}
		}
		d[i] = k[i].take(now, ask)
		if passed[i] {
			d[i].OK, d[i].RetryAfter = true, 0
		}
	}
	return ok
}

// A model is package limit, asked the same questions at the same times. Every
// key stays under one limit.
type model struct {
	suite
	accounts map[string]*account
}

func newModel(s suite) model { return model{s, map[string]*account{}} }

// agree asks the store, and package limit as of the time that the store gives,
// and reports whether they are of one mind. After an error they are not.
func (m model) agree(t *testing.T, a ...limit.Ask) bool {
	t.Helper()
	got, ok, err := m.ask(t, a...)
	if err != nil {
		t.Errorf("Take(%s): error %v", told(a), err)
		return false
	}
	return m.same(t, a, got, ok)
}

// same compares an answer with that of package limit.
func (m model) same(t *testing.T, a []limit.Ask, got []limit.Decision, ok bool) bool {
	t.Helper()
	var k []*account
	var before []account
	for i := range a {
		if m.accounts[a[i].Key] == nil {
			m.accounts[a[i].Key] = newAccount(a[i].Limit)
		}
		k = append(k, m.accounts[a[i].Key])
		before = append(before, *k[i])
	}
	want := make([]limit.Decision, len(a))
	wantOK := takeAll(got[0].At, k, a, want)
	if ok == wantOK && equal(got, want) {
		return true
	}
	t.Errorf("Take(%s)\n got  %v %+v\n want %v %+v", told(a), ok, got, wantOK, want)
	for i := range before {
		if before[i].apart == nil {
			t.Logf(" from %+v", before[i].state)
		}
	}
	return false
}

// equal compares answers; times by what they mean, and not none at all.
func equal(got, want []limit.Decision) bool {
	for i := range got {
		g, w := got[i], want[i]
		if !g.At.Equal(w.At) || g.At.IsZero() {
			return false
		}
		g.At, w.At = time.Time{}, time.Time{}
		if g != w {
			return false
		}
	}
	return true
}
