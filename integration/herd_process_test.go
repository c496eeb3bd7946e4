package integration

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// HerdOrders are what each of many processes is to do at the same time.
type HerdOrders struct {
	Client  string // go-redis, rueidis or pgx
	At      string // its server
	Begin   time.Duration
	For     time.Duration
	Callers int
	Rest    time.Duration // of a caller between two calls
	Count   int64         // a second
	Burst   int64
	Leased  bool // Leases are before the Guard
}

// Herded is what a process has seen.
type Herded struct {
	Passed []Made
	// Longest is the longest call, Late how late the last timer was.
	Longest, Late time.Duration
	Failed        string // the last error of a call, which there must not be
	// Stats are those of the Guard at Begin and every half second.
	Stats []HerdStats
}

// limit is the limit of the one key that they ask for.
func (o HerdOrders) limit() limit.Limit {
	return limit.Limit{Count: o.Count, Period: time.Second, Burst: o.Burst}
}

// HerdStats are some of GuardStats.
type HerdStats struct {
	Decided, Fallback int64
	Away, Slow        bool
}

// Herd makes calls to a cold store by a Guard with all its defaults, but that it
// refuses what the store does not decide.
func (c *Client) Herd(o HerdOrders, made *Herded) error {
	cold, err := herdStore(o)
	if err != nil {
		return err
	}
	guard := &store.Guard{Store: cold, Fallback: store.FallbackDeny}
	var s store.Store = guard
	if o.Leased {
		s = &store.Leases{Store: guard}
	}
	time.Sleep(o.Begin - monotonic())
	ctx, cancel := context.WithTimeout(context.Background(), o.For)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range o.Callers {
		all.Go(func() {
			for ctx.Err() == nil {
				var err error
				m := Made{Kind: "herd", Began: monotonic()}
				m.D, err = store.Take(context.Background(), s, "herd", o.limit(), 1)
				m.Ended = monotonic()
				mu.Lock()
				made.Longest = max(made.Longest, m.Ended-m.Began)
				if err != nil {
					made.Failed = err.Error()
				} else if m.D.OK {
					made.Passed = append(made.Passed, m)
				}
				mu.Unlock()
				rest(ctx, o.Rest)
			}
		})
	}
	for ctx.Err() == nil {
		s := guard.Stats()
		made.Stats = append(made.Stats, HerdStats{s.Decided, s.Fallback, s.Away, s.Slow})
		due := time.Now().Add(time.Second / 2)
		rest(ctx, time.Second/2)
		if ctx.Err() == nil { // more timers would be a load of their own
			made.Late = time.Since(due)
		}
	}
	all.Wait()
	return nil
}

// herdStore is a store whose client has no connection yet.
func herdStore(o HerdOrders) (store.Store, error) {
	switch o.Client {
	case "go-redis":
		return &throttleredis.Store{Do: clients.GoRedis(redis.NewClient(clients.GoRedisOptions(o.At)))}, nil
	case "rueidis":
		var c rueidis.Client
		var mu sync.Mutex // it connects when it is made
		return &throttleredis.Store{Do: func(ctx context.Context, args ...any) (any, error) {
			mu.Lock()
			if c == nil {
				made, err := rueidis.NewClient(clients.RueidisOptions(o.At))
				if err != nil {
					mu.Unlock()
					return nil, fmt.Errorf("failed to connect: %w", err)
				}
				c = made
			}
			mu.Unlock()
			return clients.Rueidis(c)(ctx, args...)
		}}, nil
	case "pgx":
		pool, err := pgxpool.New(context.Background(), o.At+"&pool_max_conns=4")
		return &throttlesql.Store{Query: clients.Pgx(pool)}, err
	}
	return nil, fmt.Errorf("no client %q", o.Client)
}
