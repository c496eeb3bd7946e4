package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
)

// TestRedisShared: Takes that share a call are decided one after the other, also
// those about one key: as many pass as the limit allows, and so many are charged.
func TestRedisShared(t *testing.T) {
	t.Run("buckets alone", func(t *testing.T) { takesShared(t, 1) })
	t.Run("all kinds", func(t *testing.T) { takesShared(t, 7) })
}

// takesShared asks for keys of so many kinds in three rounds, each behind two calls that
// are held up. The first round finds the keys new, the second uses them up, the third
// is refused.
func takesShared(t *testing.T, kinds int) {
	const keys, each, most = 14, 20, 29
	do := goRedis(t, rig.SharedRedis(t).Addr)
	var gate atomic.Pointer[chan struct{}]
	begun, shared := make(chan bool), atomic.Int64{}
	s := &throttleredis.Store{Prefix: fmt.Sprintf("shared %d %d", kinds, rand.Int()), Do: func(ctx context.Context, args ...any) (any, error) {
		if args[0] == "EVALSHA" && strings.HasSuffix(args[4].(string), "first") {
			begun <- true
		}
		<-*gate.Load()
		if args[2] != "2" && shared.Add(1)%2 == 0 {
			time.Sleep(2 * time.Millisecond) // so long that it looks at who serves
		}
		return do(ctx, args...)
	}}
	limitOf := func(i int) limit.Limit {
		return limit.Limit{Kind: limit.Kind(i % kinds), Count: most, Period: 12 * limit.Month}
	}
	var passed [keys]atomic.Int64
	for round := range 3 {
		closed := make(chan struct{})
		gate.Store(&closed)
		shared.Store(0)
		var all, started sync.WaitGroup
		take := func(key string, i int) {
			if d, err := store.Take(context.Background(), s, key, limitOf(i), 1); err != nil {
				t.Error(err)
			} else if key != "first" {
				passed[i].Add(d.N)
			}
		}
		for range 2 {
			all.Go(func() { take("first", 0) })
			<-begun
		}
		started.Add(keys * each)
		for i := range keys * each {
			all.Go(func() { started.Done(); take(fmt.Sprint("k", i%keys), i%keys) })
		}
		started.Wait()
		time.Sleep(5 * time.Millisecond) // until they wait for a call
		close(closed)
		all.Wait()
		want := min(int64(round+1)*each, most)
		for i := range keys {
			d, err := store.Take(context.Background(), s, fmt.Sprint("k", i), limitOf(i), 0)
			if n := passed[i].Load(); n != want || err != nil || d.Remaining != most-want {
				t.Errorf("round %d, %v: %d passed, and %d remain (%v); want %d and %d", round+1, limitOf(i), n, d.Remaining, err, want, most-want)
			}
		}
		if shared.Load() == 0 {
			t.Errorf("round %d: no call was shared", round+1)
		}
	}
}
