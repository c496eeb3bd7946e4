package store_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
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
	sound := store.FailOpen(new(memory.Store))
	if d := take(t, sound, "k", perMinute, 11); d.OK {
		t.Errorf("FailOpen of a sound store = %+v, want refused", d)
	}
}
