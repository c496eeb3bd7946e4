package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/integration/clients"
	"github.com/throttle-go/throttle/integration/jump"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// A Client is a process that asks stores in every way there is, while it is
// frozen or its clock is put forward and back. Its methods are called by the
// test, from another process.
type Client struct {
	kinds map[string]*kind
	most  time.Duration // that a call may take
	ctx   context.Context
	stop  func()
	all   sync.WaitGroup

	mu    sync.Mutex
	made  []Made
	since time.Duration  // GoesOn was asked
	gone  map[string]int // calls answered since, by kind
}

// Orders are what it is told at the start.
type Orders struct {
	Redis, Postgres string
	// Deadline is that of a call; a guard, a queue and a timer have less.
	Deadline time.Duration
}

// Made is a call that a Client has made.
type Made struct {
	Kind         string
	Began, Ended time.Duration // by the monotonic clock of the machine
	D            limit.Decision
	Asked        int64 // questions to the server
	Err          string
}

// A kind is one way to ask.
type kind struct {
	callers int
	most    time.Duration // that a call may take
	used    bool          // nothing is left soon, so that a refusal is as good
	call    func(context.Context, *Made) error
}

const (
	ring = 5 * time.Millisecond // of the kind that only waits for a timer
	// restful is how long a caller of a Client rests between two calls.
	restful = 4 * time.Millisecond
)

var (
	quickly  = limit.Limit{Count: 200, Period: time.Second, Burst: 20}
	evenly   = limit.Limit{Count: 100, Period: time.Second, Burst: 1} // of what is paced
	together = limit.Limit{Count: 40, Period: time.Second, Burst: 40} // of the fleet
	byMinute = limit.Limit{Kind: limit.CalendarWindow, Count: 50, Period: time.Minute}
	byDay    = limit.Limit{Kind: limit.CalendarWindow, Count: 1 << 20, Period: 24 * time.Hour}
)

// buckets are the limits of the kinds that a token bucket decides on.
var buckets = map[string]limit.Limit{
	"take": quickly, "guard": quickly, "queue": quickly, "memory": quickly, "sql": quickly, "lease": quickly, "fleet": together, "starts": evenly,
}

// calendars are those of the kinds that a calendar decides on.
var calendars = map[string]limit.Limit{"minute": byMinute, "day": byDay, "sql minute": byMinute, "sql day": byDay}

// asked is the key of a context under which questions are counted.
type asked struct{}

func counted(ctx context.Context) {
	if n, ok := ctx.Value(asked{}).(*atomic.Int64); ok {
		n.Add(1)
	}
}

// Begin starts the callers.
func (c *Client) Begin(o Orders, _ *bool) error {
	rdb := clients.GoRedis(redis.NewClient(redisPatient(clients.GoRedisOptions(o.Redis))))
	do := func(ctx context.Context, args ...any) (any, error) {
		counted(ctx)
		return rdb(ctx, args...)
	}
	pool, err := pgxpool.New(context.Background(), o.Postgres)
	if err != nil {
		return err
	}
	ask := clients.Pgx(pool)
	query := func(ctx context.Context, sql string, args ...any) throttlesql.Row {
		counted(ctx)
		return ask(ctx, sql, args...)
	}
	sql, sqlAlone := &throttlesql.Store{Query: query}, &throttlesql.Store{Query: query}
	if err := sql.Create(context.Background()); err != nil {
		return err
	}
	redis := &throttleredis.Store{Do: do}
	redisAlone := &throttleredis.Store{Do: do, Prefix: "alone:", MaxBatch: -1}
	c.kinds = kinds(o.Deadline, redis, redisAlone, sql, sqlAlone)
	c.kinds["paced"].call = starting(&throttle.Throttle{Control: &pace.Fixed{Rate: float64(evenly.Count)}, OnEvent: c.note()})
	c.most = o.Deadline
	c.gone = map[string]int{}
	c.ctx, c.stop = context.WithCancel(context.Background())
	for name, k := range c.kinds {
		for range k.callers {
			c.all.Go(func() { c.caller(name, k) })
		}
	}
	return nil
}

// kinds are all of them. Those alone learn of the clock of the server by nothing
// but calendars.
func kinds(most time.Duration, s, alone, sql, sqlAlone store.Store) map[string]*kind {
	guard := &store.Guard{Store: s, Fallback: store.FallbackDeny, Timeout: most / 5}
	queue := &admit.Queue{Store: s, MaxWait: most / 2}
	fleet := &throttle.Throttle{
		Control: &pace.Fixed{}, // without a limit
		Fleet:   throttle.Fleet{Store: s, Key: "fleet", Limit: together, Timeout: most},
	}
	all := map[string]*kind{
		"take":    {callers: 2, most: most, call: taking(s, "take", quickly)},
		"guard":   {callers: 6, most: most / 5, call: taking(guard, "guard", quickly)},
		"lease":   {callers: 3, most: most, call: taking(&store.Leases{Store: s}, "lease", quickly)},
		"memory":  {callers: 2, most: 0, call: taking(&memory.Store{}, "memory", quickly)},
		"sql":     {callers: 2, most: most, call: taking(sql, "sql", quickly)},
		"fleet":   {callers: 8, most: most, call: starting(fleet)},
		"service": {callers: 2, most: most, call: calling(&throttle.Throttle{})},
		"away":    {callers: 1, most: most / 5, call: probing()},
		"paced":   {callers: 12, most: patience},
		"queue": {callers: 3, most: most / 2, call: func(ctx context.Context, m *Made) (err error) {
			m.D, err = queue.Wait(ctx, "queue", quickly, 1)
			return err
		}},
		"timer": {callers: 4, most: ring, call: func(ctx context.Context, m *Made) error {
			ctx, cancel := context.WithTimeout(ctx, ring)
			defer cancel()
			<-ctx.Done()
			m.D.OK = true
			return nil
		}},
	}
	for name, store := range map[string]store.Store{"minute": alone, "day": alone, "sql minute": sqlAlone, "sql day": sqlAlone} {
		all[name] = &kind{callers: 1, most: most, used: true, call: taking(store, name, calendars[name])}
	}
	return all
}

// taking asks a store.
func taking(s store.Store, key string, l limit.Limit) func(context.Context, *Made) error {
	return func(ctx context.Context, m *Made) (err error) {
		m.D, err = store.Take(ctx, s, key, l, 1)
		return err
	}
}

// probing asks a guard whose store is away. The call is answered as wanted if the
// store was asked whether it is back.
func probing() func(context.Context, *Made) error {
	errAway := errors.New("away")
	var asks atomic.Int64
	guard := &store.Guard{Failures: 1, ProbeInterval: 20 * time.Millisecond}
	guard.Store = store.Func(func(context.Context, []limit.Ask, []limit.Decision) (bool, error) {
		asks.Add(1)
		return false, errAway
	})
	return func(ctx context.Context, m *Made) error {
		before := asks.Load()
		_, err := store.Take(ctx, guard, "away", quickly, 1)
		m.D.OK = asks.Load() > before
		return err
	}
}

// starting waits for its turn in a throttle. The call ends when it starts.
func starting(t *throttle.Throttle) func(context.Context, *Made) error {
	return func(ctx context.Context, m *Made) error {
		return t.Do(ctx, func(context.Context) error {
			m.Ended, m.D.OK = monotonic(), true
			return nil
		})
	}
}

// note is told what a throttle does, and notes when it lets something start:
// the call itself comes later on a busy machine.
func (c *Client) note() func(throttle.Event) {
	began, at := time.Now(), monotonic()
	return func(e throttle.Event) {
		if e.Kind != throttle.Starts {
			return
		}
		m := Made{Kind: "starts", Ended: at + e.At.Sub(began)}
		m.Began, m.D.OK = m.Ended, true
		if ago := monotonic() - m.Ended; ago.Abs() > time.Minute {
			m.Err = fmt.Sprintf("it was told to have started %v ago", ago)
		}
		c.mu.Lock()
		c.made = append(c.made, m)
		c.mu.Unlock()
	}
}

// calling calls a service that refuses what is too much, and says when to come
// again.
func calling(t *throttle.Throttle) func(context.Context, *Made) error {
	var service memory.Store
	return func(ctx context.Context, m *Made) error {
		return t.Do(ctx, func(context.Context) error {
			if m.D, _ = service.TakeOne(context.Background(), limit.Ask{Limit: quickly, N: 1}); !m.D.OK {
				return throttle.Throttled(errors.New("too many"), m.D.RetryAfter)
			}
			return nil
		})
	}
}

// caller makes calls until End.
func (c *Client) caller(name string, k *kind) {
	for c.ctx.Err() == nil {
		m := Made{Kind: name, Began: monotonic()}
		var n atomic.Int64
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), asked{}, &n), max(k.most, c.most))
		if err := k.call(ctx, &m); err != nil {
			m.Err = err.Error()
		}
		cancel()
		m.Asked = n.Load()
		if now := monotonic(); m.Ended == 0 {
			m.Ended = now
		}
		c.mu.Lock()
		c.made = append(c.made, m)
		if m.Began > c.since && m.Err == "" && (m.D.OK || k.used) {
			c.gone[name]++
		}
		c.mu.Unlock()
		rest(c.ctx, restful)
	}
}

// Jump puts the wall clock of this process forward or back: it is then so far
// ahead of that of the machine.
func (c *Client) Jump(ahead time.Duration, _ *bool) error { return jump.Wall(ahead) }

// GoesOn waits until calls of each kind that began after it was asked have been
// answered.
func (c *Client) GoesOn(calls int, _ *bool) error {
	c.mu.Lock()
	c.since, c.gone = monotonic(), map[string]int{}
	c.mu.Unlock()
	var still []string
	for end := monotonic() + patience; monotonic() < end; rest(c.ctx, ring) {
		still = nil
		c.mu.Lock()
		for name := range c.kinds {
			if c.gone[name] < calls {
				still = append(still, name)
			}
		}
		c.mu.Unlock()
		if still == nil {
			return nil
		}
	}
	slices.Sort(still)
	return fmt.Errorf("%q have not gone on after %v", still, patience)
}

// patience is how long something here may take on a busy machine.
const patience = 20 * time.Second

// End ends the callers, and tells what they have made.
func (c *Client) End(_ int, made *[]Made) error {
	c.stop()
	ended := make(chan struct{})
	go func() { // ends with them, or with the process
		c.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		return fmt.Errorf("some calls are not back after %v", patience)
	}
	*made = c.made
	return nil
}

// monotonic is the monotonic clock of the machine, which all processes share.
func monotonic() time.Duration {
	var ts syscall.Timespec
	const clockMonotonic = 1
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
