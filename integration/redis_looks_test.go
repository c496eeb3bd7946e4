package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// TestRedisLooks: who serves is looked at again a millisecond after it was, and
// whenever the clock has gone back since.
func TestRedisLooks(t *testing.T) {
	c := newRedisClock(t)
	run := rand.Int() // the server may have been asked before
	start := time.UnixMicro(1_700_000_000_000_000)
	ten := limit.Limit{Count: 10, Period: time.Hour}
	for i, at := range []struct {
		after time.Duration
		want  bool // it passes, as it is not noticed who serves
	}{
		{0, true},
		{999 * time.Microsecond, true},
		{time.Millisecond, false},
		{time.Second, false},
		{-time.Microsecond, false},
		{-time.Hour, false},
	} {
		prefix := fmt.Sprint("looks", run, i)
		s := &throttleredis.Store{Do: c.Do, Prefix: prefix}
		ask := limit.Ask{Key: "k", Limit: ten, N: 1}
		redisTakeAt(t, s, start.Add(-time.Second), ask) // is told who serves
		redisTakeAt(t, s, start, ask)                   // looks
		c.change(t, prefix+"{0}")
		if d := redisTakeAt(t, s, start.Add(at.after), limit.Ask{Key: "another", Limit: ten, N: 1}); d.OK != at.want {
			t.Errorf("%v after it was looked at who serves, and another does: %+v, want OK %v", at.after, d, at.want)
		}
	}
}

// TestRedisLooksBetween: a call that does not look at who serves puts off no look, so
// that callers who ask all the time notice who serves within a millisecond.
func TestRedisLooksBetween(t *testing.T) {
	c := newRedisClock(t)
	prefix := fmt.Sprint("looks between", rand.Int())
	s := &throttleredis.Store{Do: c.Do, Prefix: prefix}
	start := time.UnixMicro(1_700_000_000_000_000)
	take := func(after time.Duration, key string) bool {
		return redisTakeAt(t, s, start.Add(after), limit.Ask{Key: key, Limit: limit.Limit{Count: 10, Period: time.Hour}, N: 1}).OK
	}
	take(-time.Second, "k") // is told who serves
	take(0, "k")            // looks
	c.change(t, prefix+"{0}")
	for i := range 3 {
		after := time.Duration(i+1) * 400 * time.Microsecond
		if ok, want := take(after, fmt.Sprint("new", i)), i < 2; ok != want {
			t.Errorf("%v after it was looked at who serves, and another does: OK %v, want %v", after, ok, want)
		}
	}
}
