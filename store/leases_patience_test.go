package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
)

// gated is a memory.Store that answers each call when it is let go, once it is closed.
type gated struct {
	memory.Store
	fail   func(context.Context) error // nil: it does not
	closed bool
	calls  chan gatedCall // those that wait
	end    chan struct{}  // all may go
}

type gatedCall struct {
	asks []limit.Ask
	gone chan struct{} // close it to let the call go
}

func (g *gated) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
	switch {
	case g.fail != nil:
		return false, g.fail(ctx)
	case g.closed:
		c := gatedCall{asks: a, gone: make(chan struct{})}
		g.calls <- c
		select {
		case <-c.gone:
		case <-g.end:
		}
	}
	return g.Store.Take(ctx, a, d)
}

// waiting is how a test deals with the callers of a Leases whose Store is gated.
type waiting struct {
	*testing.T
	gate   *gated
	leases *store.Leases
}

func newWaiting(t *testing.T, keys ...string) waiting {
	t.Helper()
	gate := &gated{calls: make(chan gatedCall, 100), end: make(chan struct{})}
	w := waiting{t, gate, &store.Leases{Store: gate}}
	for range 20 {
		for _, key := range keys {
			take(t, w.leases, key, tenThousand, 1)
		}
	}
	time.Sleep(limit.DefaultLife) // what is held expires
	gate.closed = true
	t.Cleanup(func() {
		close(gate.end)
		synctest.Wait()
	})
	return w
}

// take asks for one of each key, and does not wait for the answer.
func (w waiting) take(keys ...string) {
	a := make([]limit.Ask, len(keys))
	for i, key := range keys {
		a[i] = limit.Ask{Key: key, Limit: tenThousand, N: 1}
	}
	go func() {
		if ok, err := w.leases.Take(context.WithoutCancel(w.Context()), a, make([]limit.Decision, len(a))); !ok || err != nil {
			w.Errorf("Take of %v = %v, %v, want it to pass", keys, ok, err)
		}
	}()
	synctest.Wait()
}

// spend uses up what is held of a key, until the Store is called for more of it.
func (w waiting) spend(key string) gatedCall {
	w.Helper()
	for range 1000 {
		w.take(key)
		if len(w.gate.calls) > 0 {
			return w.called(key, true)
		}
	}
	w.Fatalf("%s: the Store is never called", key)
	return gatedCall{}
}

// called is the call that waits for the Store: for more than is needed, or not.
func (w waiting) called(key string, more bool) gatedCall {
	w.Helper()
	select {
	case c := <-w.gate.calls:
		if len(c.asks) != 1 || c.asks[0].Key != key || c.asks[0].N > 1 != more {
			w.Fatalf("the Store is called for %+v, want %s only, and more than is needed: %v", c.asks, key, more)
		}
		return c
	default:
		w.Fatalf("the Store is not called for %s", key)
		return gatedCall{}
	}
}

// letGo lets a call go on, and those that wait for it.
func letGo(c gatedCall) {
	close(c.gone)
	synctest.Wait()
}

// A Take waits for four calls of others, each of which ends soon but leaves it too
// little, and then calls the Store for what it needs.
func TestLeasesWaitsFourTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWaiting(t, "a", "b")
		a := w.spend("a")
		w.take("a", "b") // waits for a
		for range 2 {
			b := w.spend("b")
			letGo(a) // there is a now, but others ask for b
			a = w.spend("a")
			if len(w.gate.calls) > 0 {
				t.Fatal("who waits calls the Store before four calls of others have ended")
			}
			letGo(b)
		}
		w.called("a", false)
	})
}

// Takes that have waited for a Life call the Store for what they need, also those
// that find another one calling it for more by then.
func TestLeasesWaitsForALife(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWaiting(t, "k")
		hangs := w.spend("k")
		for range 20 {
			w.take("k")
		}
		time.Sleep(limit.DefaultLife - ms)
		synctest.Wait()
		if len(w.gate.calls) > 0 {
			t.Fatal("who waits calls the Store before a Life has passed")
		}
		time.Sleep(ms)
		synctest.Wait()
		w.called("k", true)
		for range 19 {
			w.called("k", false)
		}
		letGo(hangs) // too late: it has to ask again, and waits as others do
		if len(w.gate.calls) > 0 {
			t.Error("whose answer came too late calls the Store while another one calls it for more")
		}
	})
}

// After a call without an answer the next one asks for what it needs, as what is
// granted beyond that might be lost too.
func TestLeasesPrefetchNothingAfterAFailure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWaiting(t, "k")
		w.gate.fail = down
		if _, err := store.Take(t.Context(), w.leases, "k", tenThousand, 1); !errors.Is(err, errDown) {
			t.Fatalf("the Store is down: error %v", err)
		}
		w.gate.fail = nil
		for range 20 {
			w.take("k")
			w.called("k", false)
		}
	})
}

// What a Store says of a call that its caller has ended does not reach those that
// wait for it.
func TestLeasesErrorOfACallThatWasEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWaiting(t, "k")
		w.gate.fail = func(ctx context.Context) error {
			<-ctx.Done()
			return net.ErrClosed
		}
		ctx, cancel := context.WithCancel(t.Context())
		go store.Take(ctx, w.leases, "k", tenThousand, 1)
		synctest.Wait()
		w.take("k")
		w.gate.fail = nil
		cancel()
		synctest.Wait()
		letGo(w.called("k", false))
	})
}

// What another key refuses, by the Store, is no demand: nothing is asked for ahead.
func TestLeasesRefusedByTheStoreIsNoDemand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWaiting(t)
		w.gate.closed = false
		pair := []limit.Ask{{Key: "k", Limit: tenThousand, N: 1}, {Key: "nothing", Limit: limit.Limit{Period: time.Second}, N: 1}}
		for range 100 {
			if ok, err := w.leases.Take(t.Context(), pair, make([]limit.Decision, 2)); ok || err != nil {
				t.Fatalf("Take of what nothing is allowed of = %v, %v", ok, err)
			}
		}
		w.gate.closed = true
		w.take("k")
		w.called("k", false)
	})
}

// A key is forgotten, with its tokens, as soon as there are too many.
func TestLeasesForgetKeys(t *testing.T) {
	l := &store.Leases{Store: new(memory.Store), MaxKeys: 1, Life: time.Hour}
	day := limit.Limit{Count: 1_000_000, Period: 24 * time.Hour}
	for range 100 {
		take(t, l, "a", day, 1)
	}
	if s := l.Stats(); s.Local < 50 {
		t.Fatalf("%+v, want a hot key", s)
	}
	for i := range 1000 {
		take(t, l, fmt.Sprint(i), day, 1)
	}
	calls := l.Stats().Calls
	if take(t, l, "a", day, 1); l.Stats().Calls != calls+1 {
		t.Error("a key is still leased after 1000 others, with a MaxKeys of 1")
	}
}
