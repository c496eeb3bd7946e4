// Package throttleredis is a distributed rate limiter: a Store in Redis or
// Valkey, standalone, replicated or a Cluster, through any client. All processes
// that use it share each limit. Every decision is that of package limit, at the
// time of the clock of Redis, in one round trip.
//
//	rdb := redis.NewClient(&redis.Options{ // of go-redis
//		Addr: "localhost:6379", ContextTimeoutEnabled: true, MaxRetries: -1,
//	})
//	store := &Store{Do: func(ctx context.Context, args ...any) (any, error) {
//		return rdb.Do(ctx, args...).Result()
//	}}
//
// Put it behind a store.Guard (circuit breaker), which decides without Redis when
// that is away. It needs Redis 7.0 or Valkey 7.2. docs/redis.md says which
// guarantees hold when Redis fails over, and how to use other clients.
package throttleredis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Do sends one command to Redis and returns its answer, a string or bytes for a
// bulk string. All arguments are strings; the command is the first. In a
// Cluster it must send the command to the node that serves the first key: of
// EVAL and EVALSHA that is the fourth argument. It is safe for concurrent use.
//
// It must not retry a command that may have been executed: what the command
// charges would be charged twice.
type Do func(ctx context.Context, args ...any) (any, error)

// send sends one command, or says that there is no client.
func (do Do) send(ctx context.Context, args ...any) (any, error) {
	if do == nil {
		return nil, errNoDo
	}
	return do(ctx, args...)
}

// Store keeps the states of keys in Redis and decides as package limit does. It
// is safe for concurrent use and needs no closing. The fields must not change
// after first use, and those that say so must be equal in all processes that
// share keys.
//
// The limit of a key may change: [limit.Change] carries over what the key owes,
// in one more call. Where processes ask under several limits at a time, the
// script carries over by itself from the third call on, rounded up to
// microseconds. Sliding logs and slots count the events of the old limit under
// the new one. A key that changes to SlidingSlots or from it carries over its
// usage; one that changes to SlidingLog or from it starts full.
//
// If a key holds anything but a state, asks for it fail with an [*Error] that
// names it, and it is never overwritten. Other keys are not affected.
//
// Keys expire a second after they hold no information.
type Store struct {
	// Do sends commands by the client.
	Do Do
	// Prefix begins all names in Redis. It has no braces. If empty,
	// "throttle:". Equal in all processes; after a change all keys start unused.
	Prefix string
	// Slots is the number of hash slots of a Cluster that the keys are spread
	// over. All keys of one Take must be in one slot: those that have the same
	// text in braces are, as {user}:minute and {user}:day. If zero or below,
	// one: right for all but a Cluster, which needs about 1024; at most 16384.
	// Equal in all processes; after a change most keys start unused.
	Slots int
	// MaxBatch bounds the Takes of one slot that share a call, as they do while
	// other calls are in flight. If zero, 128; above 1024, 1024. If one or below
	// zero, each Take makes a call of its own.
	MaxBatch int

	// Overlap is how long a Redis that has been replaced may still answer: in a
	// Cluster the node timeout and a second, as clients notice no earlier. For
	// that time after a fail-over nothing passes. If zero or below, a replaced
	// Redis never answers.
	Overlap time.Duration
	// Strict treats a slot without any state as one that has lost its states:
	// keys start used up. If false, keys start full there, unless another
	// process has answered this Store before.
	Strict bool
	// Unfenced switches fencing off: tokens whose charge is lost in a fail-over
	// are granted again.
	Unfenced bool

	limits limits
	init   sync.Once
	slots  []atomic.Pointer[slot]
	counters
}
