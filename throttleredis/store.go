// Package throttleredis is a Store in Redis or Valkey, alone, replicated or a
// Cluster, through any client: one limit for a whole fleet. Every decision is
// that of package limit, at the time of the clock of Redis, in one round trip.
//
//	rdb := redis.NewClient(&redis.Options{ // of go-redis
//		Addr: "localhost:6379", ContextTimeoutEnabled: true, MaxRetries: -1,
//	})
//	store := &throttleredis.Store{Do: func(ctx context.Context, args ...any) (any, error) {
//		return rdb.Do(ctx, args...).Result()
//	}}
//
// It needs Redis 7.0 or Valkey 7.2. What is promised when Redis fails over, and
// what not, and how other clients are used, is in docs/redis.md.
package throttleredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Do sends one command to Redis and returns its answer, a string or bytes for a
// bulk string. All arguments are strings; the command is the first. In a
// Cluster it must be sent to the node that serves the first key: of EVAL and
// EVALSHA that is the fourth argument. It is safe for concurrent use.
//
// It must not repeat a command of which it is not known whether it was carried
// out, lest something be charged twice.
type Do func(ctx context.Context, args ...any) (any, error)

// Store remembers the states of keys in Redis and decides by package limit.
// It is safe for concurrent use and needs no closing. The fields must not
// change after first use, and those that say so must be alike in all processes
// that share keys.
//
// A key may be asked for under another limit than before: what it owes is
// carried over by [limit.Change], in one more call. Sliding logs and slots
// count what was taken under the new limit; a key that changes to one of these
// kinds, or from one, begins afresh.
//
// Keys expire a second after they hold no information.
type Store struct {
	// Do is the client.
	Do Do
	// Prefix is what all names in Redis begin with. It has no braces. If empty,
	// "throttle:". Alike in all processes; under another all begins anew.
	Prefix string
	// Slots is over how many hash slots of a Cluster the keys are spread. All
	// keys of one Take must be in one slot: those that have the same text in
	// braces are, as {user}:minute and {user}:day. If zero or below, one: right
	// for all but a Cluster, which will want 1024; at most 16384. Alike in all
	// processes; under another number most keys begin anew.
	Slots int
	// MaxBatch bounds the Takes of one slot that share a call, as they do while
	// other calls are in flight. If zero, 128; above 1024, 1024. If one or below
	// zero, each Take makes a call of its own.
	MaxBatch int

	// Overlap is how long a Redis that has been replaced may go on answering: in
	// a Cluster the node timeout and a second, as its clients notice no earlier.
	// Nothing passes for so long after a fail-over. If zero or below, it is taken
	// to be dead by then.
	Overlap time.Duration
	// Strict takes a Redis without any state for one that has lost all. If
	// false, for one that is new, unless this Store has seen it otherwise.
	Strict bool
	// Unfenced grants again, after a fail-over, what lost writes had granted.
	Unfenced bool

	limits limits
	begin  sync.Once
	lanes  []atomic.Pointer[lane] // by slot
	tally
}

// tries is how often a question is put again because the limit of a key, or the
// month, has just changed.
const tries = 8

var (
	errLengths = errors.New("throttleredis: asks and decisions differ in number")
	errTries   = &Error{Err: fmt.Errorf("the limit of a key changed %d times meanwhile: do all processes have the same limits?", tries)}
)

// Take answers a[i] in d[i]: all are charged, or none. An error is an [*Error],
// unless the question itself was wrong. All keys must be in one slot: see
// Slots.
//
// A Count or Burst above 2^50 is an error, and so is a Period, or a time to
// refill a Burst, above 71 years: Lua could not count them exactly.
func (s *Store) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	if len(a) != len(d) {
		return false, errLengths
	}
	if err := distinct(a); err != nil {
		return false, err
	}
	var few [2]sent
	var answers [len(few)]answer
	q := question{asks: a, answers: answers[:]}
	if len(a) > len(few) {
		q.answers = make([]answer, len(a))
	}
	if q.sent, q.refused, err = sort(a, &s.limits, few[:0]); err != nil {
		return false, err
	}
	if len(q.sent) == 0 {
		q.at = time.Now().UnixMicro()
		return q.decide(d), nil
	}
	slot, err := s.oneSlot(a)
	if err != nil {
		return false, err
	}
	ln, err := s.lane(slot)
	if err != nil {
		return false, err
	}
	ahead := time.Duration(s.ahead.Load())
	var told int64 // the clock of Redis, if that was what was wrong
	for range tries {
		now := time.Now()
		if told != 0 {
			ahead = time.UnixMicro(told).Sub(now)
		}
		p := q.pending(ln.fence, now, ahead)
		r, err := s.ask(ctx, ln, &p)
		if err != nil {
			return false, err
		}
		again, err := q.read(r)
		if err != nil {
			return false, err
		}
		s.ahead.Store(int64(time.UnixMicro(r.now).Sub(now)))
		if !again {
			return q.decide(d), nil
		}
		told = r.now
	}
	return false, errTries
}
