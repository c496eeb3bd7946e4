package integration

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// TestTogether: several requests that are decided as one cost one round trip, and as many as
// there are where keys are in several slots of Redis; all of them are charged, or none.
func TestTogether(t *testing.T) {
	var calls atomic.Int64
	do := goRedis(t, rig.SharedRedis(t).Addr)
	counted := func(ctx context.Context, args ...any) (any, error) {
		calls.Add(1)
		return do(ctx, args...)
	}
	p, err := pgxpool.New(t.Context(), rig.SharedPostgres(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	query := clients.Pgx(p)
	tables := created(t, &throttlesql.Store{Query: func(ctx context.Context, sql string, args ...any) throttlesql.Row {
		calls.Add(1)
		return query(ctx, sql, args...)
	}})
	for _, x := range []struct {
		name  string
		store store.Store
		calls int64
	}{
		{"redis", &throttleredis.Store{Do: counted, Prefix: "together:one:"}, 1},
		{"redis in slots", &throttleredis.Store{Do: counted, Prefix: "together:slots:", Slots: 1024}, 3},
		{"postgres", tables, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := &admit.Control{Store: x.store, Limit: limit.Limit{Count: 2, Period: limit.Month}, Spread: -1}
			begin := func(keys ...string) (oks string) {
				q, all := make([]admit.Request, len(keys)), make([]*admit.Admission, len(keys))
				for i, key := range keys {
					q[i], all[i] = admit.Request{Key: key}, new(admit.Admission)
				}
				if err := c.BeginAll(t.Context(), q, all); err != nil {
					t.Fatalf("BeginAll(%q) = %v", keys, err)
				}
				for _, a := range all {
					oks += map[bool]string{true: "o", false: "x"}[a.OK]
				}
				return oks
			}
			for _, key := range []string{"a", "b", "c", "over", "over"} { // and what a Store does at first is done
				begin(key)
			}
			calls.Store(0)
			if oks := begin("over", "a", "b"); oks != "xoo" || calls.Load() != x.calls {
				t.Errorf("the first is over: %s in %d round trips, want xoo in %d", oks, calls.Load(), x.calls)
			}
			calls.Store(0)
			if oks := begin("a", "b", "c"); oks != "ooo" || calls.Load() != x.calls {
				t.Errorf("all within: %s in %d round trips, want ooo in %d", oks, calls.Load(), x.calls)
			}
			if oks := begin("a", "b", "c"); oks[0] != 'x' || begin("a", "d") != "xo" {
				t.Errorf("once more: %s, want that a is over", oks)
			}
		})
	}
}
