// Package linear checks that stores are linearizable: that concurrent calls are
// answered as if they had been made one by one, each at some moment between its
// call and its return. As a store says by which clock it decided, the answers
// are compared in full with those of package limit. One thing is left to the
// store: a state that expires between the clock of a question and its return may
// be forgotten already, as it is when another call with a later time comes
// first.
package linear

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttletest"
)

// limits are those of the groups of keys, in turn. Two keys of a group are
// asked for together now and then.
var limits = []limit.Limit{
	{Count: 100, Period: time.Second, Burst: 20},
	{Count: 3, Period: 7 * time.Millisecond},
	{Count: 1_000_000, Period: time.Second, Burst: 40},
	{Count: 500, Period: time.Hour},
	{Kind: limit.FixedWindow, Count: 40, Period: 50 * time.Millisecond},
	{Kind: limit.FirstHitWindow, Count: 10, Period: 3 * time.Millisecond},
	{Kind: limit.SlidingWindow, Count: 30, Period: 20 * time.Millisecond},
	{Kind: limit.CalendarWindow, Count: 100_000, Period: time.Hour},
	{Kind: limit.SlidingLog, Count: 15, Period: 20 * time.Millisecond},
	{Kind: limit.SlidingSlots, Count: 15, Period: 20 * time.Millisecond, Slots: 4},
}

const (
	callers = 8
	// patience is how long the checker may think about it: a busy machine under the
	// race detector takes minutes.
	patience = 10 * time.Minute
)

// Check asks s about so many groups of keys, from 8 goroutines at once, and fails
// the test unless all answers are linearizable. About each group it asks about each
// questions, some thousand: the checker keeps a bit for each of them at each step.
// Ten groups have all Kinds. About one question in ten is of two keys. Keys of a
// group have a part in braces in common.
func Check(t testing.TB, s store.Store, groups, each int) {
	t.Helper()
	check(t, record(t, s, groups, each))
}

// CheckKeys checks as Check does, but of a question of two keys that charges
// nothing the answers may be of two moments, one for each key: for stores that
// do not lock keys that they only read.
func CheckKeys(t testing.TB, s store.Store, groups, each int) {
	t.Helper()
	check(t, apart(record(t, s, groups, each)))
}

func check(t testing.TB, history []porcupine.Operation) {
	t.Helper()
	if t.Failed() {
		return
	}
	switch porcupine.CheckOperationsTimeout(model, history, patience) {
	case porcupine.Illegal:
		t.Errorf("%d answers cannot be put in an order in which package limit would give them", len(history))
	case porcupine.Unknown:
		t.Errorf("%d answers: no order found in %v, and none ruled out", len(history), patience)
	}
}

// record is a history of questions.
func record(t testing.TB, s store.Store, groups, each int) (all []porcupine.Operation) {
	t.Helper()
	questions := groups * each
	h := throttletest.History{Store: s, Max: questions}
	run := rand.Uint64()
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range questions / callers {
				ask(t, &h, question(rng, run, groups))
			}
		})
	}
	wg.Wait()
	for _, o := range h.Operations() {
		all = append(all, porcupine.Operation{Input: o.Asks, Output: answer{Operation: o}, Call: int64(o.Call), Return: int64(o.Return)})
	}
	return all
}

// An answer is one to a question, or to a part of one.
type answer struct {
	throttletest.Operation
	part bool // of a question that charged nothing
}

// apart makes two questions of each that charged nothing.
func apart(history []porcupine.Operation) (all []porcupine.Operation) {
	for _, o := range history {
		whole := o.Output.(answer).Operation
		charged := func(d limit.Decision) bool { return d.N != 0 }
		forgiven := func(a limit.Ask) bool { return whole.OK && a.Debt && a.N > 0 } // N is zero, if all was
		if len(whole.Asks) == 1 || slices.ContainsFunc(whole.Decisions, charged) || slices.ContainsFunc(whole.Asks, forgiven) {
			all = append(all, o)
			continue
		}
		for i := range whole.Asks {
			part := whole
			part.Asks, part.Decisions = whole.Asks[i:i+1], whole.Decisions[i:i+1]
			o.Input, o.Output = part.Asks, answer{part, true}
			all = append(all, o)
		}
	}
	return all
}

func ask(t testing.TB, s throttletest.Store, a []limit.Ask) {
	if t.Failed() {
		return
	}
	if _, err := s.Take(context.Background(), a, make([]limit.Decision, len(a))); err != nil {
		t.Errorf("Take(%+v): error %v", a, err)
	}
}

// question is one at random, about one key or two of a group.
func question(rng *rand.Rand, run uint64, groups int) []limit.Ask {
	group := rng.IntN(groups)
	a := limit.Ask{Key: fmt.Sprintf("linear/{%x/%d}/a", run, group), Limit: limits[group%len(limits)], N: 1}
	switch rng.IntN(8) {
	case 0:
		a.N = 0
	case 1:
		a.N = -rng.Int64N(3)
	case 2:
		a.N = rng.Int64N(6)
	case 3:
		a.N, a.Min = 5, 1
	case 4:
		a.N, a.Debt = 2, true
	}
	if isApart(a.Limit.Kind) {
		a.N, a.Debt = max(a.N, 0), false
		return []limit.Ask{a}
	}
	b := a
	b.Key = fmt.Sprintf("linear/{%x/%d}/b", run, group)
	switch rng.IntN(20) {
	case 0:
		return []limit.Ask{a, b}
	case 1:
		b.N = 1
		return []limit.Ask{b, a}
	case 2, 3, 4:
		return []limit.Ask{b}
	}
	return []limit.Ask{a}
}

// model is package limit, a group by itself.
var model = porcupine.Model{
	Partition: partition,
	Init:      func() any { return states{} },
	Step: func(state, input, output any) (bool, any) {
		a, o := input.([]limit.Ask), output.(answer)
		if !isApart(a[0].Limit.Kind) {
			return step(state.(states), a, o)
		}
		before, _ := state.(taken)
		return stepApart(before, a[0], o.Operation)
	},
	Equal: equal,
	Hash:  hash,
}

// states are those of the keys a and b of a group.
type states [2]limit.State

// step tells whether an answer is right in a state, and what the next one is.
func step(s states, a []limit.Ask, o answer) (bool, states) {
	if next, ok := from(s, a, o); ok {
		return true, next
	}
	end := o.Decisions[0].At.Add(o.Return-o.Call).UnixMicro() + 1
	for forgets := 1; forgets < 1<<len(s); forgets++ { // each that may be, or not
		forgetful := s
		for i := range s {
			if forgets>>i&1 == 1 && s[i].T <= end {
				forgetful[i] = limit.State{}
			}
		}
		if next, ok := from(forgetful, a, o); forgetful != s && ok {
			return true, next
		}
	}
	return false, s
}

// from is the state after an answer, if package limit gives the same.
func from(s states, a []limit.Ask, o answer) (next states, ok bool) {
	var own [2]limit.State
	var want [2]limit.Decision
	for i := range a {
		own[i] = s[place(a[i].Key)]
	}
	at := o.Decisions[0].At
	switch {
	case o.part:
		want[0] = uncharged(own[0], at, a[0])
	case limit.TakeAll(own[:len(a)], at, a, want[:len(a)]) != o.OK:
		return s, false
	}
	for i := range a {
		if !same(o.Decisions[i], want[i]) {
			return s, false
		}
		k, now := place(a[i].Key), at.UnixMicro()
		if own[i].T > now || s[k].T > now { // else what has expired may stay or go
			s[k] = own[i]
		}
	}
	return s, true
}

// uncharged is the answer to a where another question beside it was refused.
func uncharged(s limit.State, now time.Time, a limit.Ask) limit.Decision {
	_, d := limit.Take(s, now, a)
	if !d.OK {
		return d
	}
	_, d = limit.Take(s, now, limit.Ask{Limit: a.Limit})
	d.OK, d.RetryAfter = true, 0
	return d
}

// same compares answers, and times by what they mean.
func same(got, want limit.Decision) bool {
	if !got.At.Equal(want.At) {
		return false
	}
	got.At = want.At
	return got == want
}

// place is that of a key in its group: 0 of a, 1 of b.
func place(key string) int { return int(key[len(key)-1] - 'a') }

// partition puts the questions of each group together.
func partition(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	group := func(o porcupine.Operation) string {
		key := o.Input.([]limit.Ask)[0].Key
		return key[:len(key)-1]
	}
	history = slices.Clone(history)
	slices.SortStableFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(group(a), group(b)) })
	for len(history) > 0 {
		n := slices.IndexFunc(history, func(o porcupine.Operation) bool { return group(o) != group(history[0]) })
		if n < 0 {
			n = len(history)
		}
		parts = append(parts, history[:n])
		history = history[n:]
	}
	return parts
}
