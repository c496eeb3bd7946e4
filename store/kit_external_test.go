package store_test

import (
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

var perMinute = limit.Limit{Count: 10, Period: time.Minute}

// take asks s, which must decide.
func take(t *testing.T, s store.Store, key string, l limit.Limit, n int64) limit.Decision {
	t.Helper()
	d, err := store.Take(t.Context(), s, key, l, n)
	if err != nil {
		t.Fatalf("Take(%q, %+v, %d): error %v", key, l, n, err)
	}
	return d
}
