package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttletest"
)

func TestFailOpen(t *testing.T) {
	broken := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
		return false, errors.New("no connection")
	})
	d, err := store.Take(t.Context(), broken, "k", perMinute, 1)
	if err == nil || d.OK {
		t.Errorf("Take of a broken store = %+v, %v, want an error and not OK", d, err)
	}
	d = take(t, store.FailOpen(broken), "k", perMinute, 3)
	if !d.OK || d.N != 0 || d.Remaining != 10 || d.Max != 10 || d.At.IsZero() {
		t.Errorf("FailOpen of a broken store = %+v, want OK, nothing charged, 10 remaining of 10", d)
	}
	d = take(t, store.FailOpen(broken), "k", limit.Limit{}, 3)
	if !d.OK || d.Remaining != math.MaxInt64 {
		t.Errorf("FailOpen without a limit = %+v, want OK", d)
	}
}

// TestFailOpenSound: around a sound Store it is one, and admits no malformed asks;
// nor does it where only the Store knows that they are.
func TestFailOpenSound(t *testing.T) {
	throttletest.TestStore(t, store.FailOpen(new(memory.Store)))
	apart := store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
		return false, fmt.Errorf("%w: in different slots", limit.ErrAsks)
	})
	d, err := store.Take(t.Context(), store.FailOpen(apart), "k", perMinute, 1)
	if d.OK || !errors.Is(err, limit.ErrAsks) {
		t.Errorf("FailOpen of asks that are malformed to the Store = %+v, %v, want its error", d, err)
	}
}
