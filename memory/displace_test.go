package memory_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
)

// TestDisplaceTogether: several keys in one question, of states of all sizes and of
// logs, displace each other in tiny tables; none is there twice, and what a key
// has used is all known or all forgotten.
func TestDisplaceTogether(t *testing.T) {
	limits := append([]limit.Limit{{Kind: limit.SlidingWindow, Count: 100_000, Period: time.Minute}}, floodKinds...)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 4))
		m := memory.Store{MaxKeys: 1 + rng.IntN(40)}
		now := m.Start()
		for step := range 500 {
			var a []limit.Ask
			for _, key := range rng.Perm(100)[:1+rng.IntN(4)] {
				l := limits[(key+rng.IntN(20)/19)%len(limits)] // now and then another
				a = append(a, limit.Ask{Key: fmt.Sprint(key), Limit: l, N: 1 + rng.Int64N(l.Max())})
			}
			d := make([]limit.Decision, len(a))
			ok := m.DecideAt(now, a, d)
			for i := range d {
				if used := d[i].Max - d[i].Remaining; ok && used < a[i].N || used > d[i].Max || !d[i].OK && d[i].RetryAfter <= 0 {
					t.Fatalf("seed %d, step %d: Take(%+v) = %v, %+v", seed, step, a, ok, d)
				}
			}
			if err := m.Check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			now = now.Add(time.Duration(rng.Int64N(int64(2 * time.Second))))
		}
		if n := m.Size(); n > 40*32 {
			t.Errorf("seed %d: the table has %d bytes", seed, n)
		}
	}
}

// TestFloodUnderRace: while some flood, a key that was refused is refused each time.
func TestFloodUnderRace(t *testing.T) {
	daily := limit.Limit{Count: 10, Period: 24 * time.Hour}
	m := memory.Store{MaxKeys: 1000}
	key := func(i int) string { return fmt.Sprint("offender ", i%offenders) }
	of := func(i int) limit.Limit { return perDay(floodKinds[i%offenders%len(floodKinds)], 10) }
	for i := range offenders {
		for range 10 {
			m.Allow(key(i), of(i), 1)
		}
	}
	var freed atomic.Int64
	all(4, func(g int) {
		for i := range size(200_000) {
			if g%2 == 0 {
				m.Decide(limit.Ask{Key: fmt.Sprint("made up ", g, " ", i), Limit: []limit.Limit{daily, of(i)}[i%2], N: int64(1 + i%5)})
			} else if m.Allow(key(i), of(i), 1) {
				freed.Add(1)
			}
		}
	})
	if n := freed.Load(); n > 10 { // all that one key has
		t.Errorf("%d times an offender was admitted, want one freed at most", n)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}

// TestFloodOfManyLimits: where there are more limits than a Store tells apart,
// a flood under them frees none that is refused under one of the others, nor one
// under the others any of theirs.
func TestFloodOfManyLimits(t *testing.T) {
	first := limit.Limit{Kind: limit.FixedWindow, Count: 10, Period: time.Minute}
	last := limit.Limit{Kind: limit.FixedWindow, Count: 12, Period: time.Minute}
	for _, c := range [][2]limit.Limit{{first, last}, {last, first}, {last, last}} {
		f := newFlooded(1000, func(int) limit.Limit { return c[0] }, madeUp{[]limit.Limit{c[1]}, 50})
		f.ask("", first, 1)
		for i := range int64(5000) {
			f.ask("", limit.Limit{Count: 1000 + i, Period: time.Hour}, 0)
		}
		f.check(t, fmt.Sprintf("%v flooded by %v", c[0], c[1]), size(200_000))
	}
}
