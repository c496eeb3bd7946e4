package worker

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/pace"
)

const (
	defaultWindow      = 10_000
	defaultMaxBytes    = 256 << 20
	defaultMaxInFlight = 1000
	defaultTimeout     = time.Minute
	defaultBreaker     = 5

	maxDying = 16 // records with Dead, or on their way there
)

// Worker calls a function for each record of its assignments, at the pace and
// within the concurrency limit of a Throttle, with retries, a circuit breaker
// and a dead letter queue.
//
// Only Handle must be set. A Worker is safe for concurrent use; it must not be
// copied, nor its fields changed, after first use. It needs no closing: no
// goroutine is left once its assignments have ended and Handle has returned.
//
// Assignments take turns, so that one with much to do does not keep out the
// others; within an assignment the lowest offset that may start is first.
type Worker[R any] struct {
	// Handle makes one try of a record. Its error says how the try ended, by
	// [throttle.Throttle.Classify] or [throttle.Classify]:
	//
	//	nil                   the record is done
	//	throttle.Throttled    retried, not before the delay that it holds; the
	//	                      Throttle slows down
	//	throttle.Failed       retried after a rest, see Backoff, Tries, Breaker
	//	throttle.Ignore and errors of a context
	//	                      retried in the same way; they teach the Throttle
	//	                      nothing
	//	any other error       given up, see Dead
	//
	// A record may be tried twice, also by two processes, so Handle must be
	// idempotent. ctx ends after Timeout, and when the assignment ends: Handle
	// should then return soon. An error after the Timeout counts as Failed,
	// unless it is Throttled; nil counts as done. If Handle panics, so does the
	// program, as with Dead, Options, Room and OnEvent: no caller could recover.
	Handle func(ctx context.Context, r R) error
	// Throttle paces the tries and bounds those in flight. Its Tries, Retries,
	// Backoff, Budget and MaxWait do not count, as each try is a call of its own.
	// Several Workers may share one. If nil, a new one, of this Worker alone, with
	// a [load.Adaptive] as Concurrency, which learns how many may be in flight.
	Throttle *throttle.Throttle
	// Offset returns the offset of a record in its assignment. If nil, the
	// records of an assignment are numbered as they come, as are the jobs of Each.
	Offset func(R) int64
	// Order returns the key of a record: records with the same key, of all
	// assignments, run one after another, in the order in which they were added;
	// a record that rests before a retry, or is with Dead, holds back those
	// behind it. If its assignment ends while it is with Dead, it no longer
	// does: the next of its key may run during that call. Records with an empty
	// key have no order. If nil, no record has.
	Order func(R) string
	// Size returns the size of a record, in bytes or any other unit, for
	// MaxBytes. If nil, nothing is counted.
	Size func(R) int
	// Options returns the options of a try, such as its cost. Its Once and
	// MaxWait do not count. If nil, those of the context given to Assign.
	Options func(R) throttle.CallOptions
	// Window bounds the records of one assignment at or above its frontier, done
	// or not, and so those that are repeated after a crash besides what was done
	// since the last commit. If zero or below, 10,000. Beyond it Add accepts none.
	Window int
	// MaxBytes bounds the Size of all records that are not done, of all
	// assignments together. If zero or below, 256 MiB. Beyond it Add accepts
	// none; a larger record is accepted when there is no other.
	MaxBytes int64
	// MaxInFlight bounds the tries in flight of this Worker (bulkhead), besides
	// what the Throttle admits. If zero or below, 1000.
	MaxInFlight int
	// Timeout bounds one try, and one call of Dead. If zero, a minute; below
	// zero, there is no bound.
	Timeout time.Duration
	// Tries bounds the tries of a record that did not succeed. Those that were
	// throttled do not count, nor those that failed while the circuit breaker was
	// open, except at the end of [Worker.Each]. If zero, there is no bound; below
	// zero, 1. Beyond it the record is given up, see Dead.
	Tries int
	// Backoff is how long a record rests before each retry; a server that asks
	// for more gets it. If zero, [pace.AWS2026Backoff]: 50 ms, 100 ms, 200 ms and
	// so on up to 20 s, each times a random number between 0 and 1. If some of
	// its fields are set, the others are as in a [pace.Backoff], but for the
	// Jitter: if it is zero, UpwardJitter, with a Spread of 1 if that is zero.
	// What is set is then the shortest rest, and the longest is twice that. Its
	// Tries do not count.
	Backoff pace.Backoff
	// Breaker is how many records must end Failed or Ignored in a row, with no answer
	// between, for the circuit breaker to open: then one try at a time probes the
	// service, after 100 ms, 200 ms and so on up to 500 ms, with jitter, until one is
	// answered. If zero, 5; below zero, it never opens.
	Breaker int
	// Dead takes a record that was given up: with the error of Handle, inside a
	// [*throttle.Error] if its Tries are used up. Once it has returned nil, the record
	// counts as done. If it fails, it is called again after a rest, until the
	// assignment ends. At most 16 calls run at once; while further records wait for
	// a call, no try starts.
	//
	// If nil, the assignment stops: no further try of it starts, its frontier
	// stays at that record, and [Assignment.Err] says why.
	Dead func(ctx context.Context, r R, err error) error
	// Room is called when an assignment whose Add refused records has room again
	// and no more than half a Window left to do. It is called in a goroutine of
	// the Worker, outside its lock, possibly for several assignments at once. If
	// nil, nothing is called.
	Room func(a *Assignment[R])
	// OnEvent is called with each [Event]. It is called in a goroutine of the
	// Worker, outside its lock, possibly concurrently, and should return soon: it
	// holds up no try, only that goroutine. If nil, events are dropped,
	// but for a line to [slog.Default] when an assignment stops, and at most
	// every ten minutes when the circuit breaker opens.
	OnEvent func(Event)

	own     throttle.Throttle // used if there is no other
	mu      sync.Mutex        // guards all below; none of the functions above is called under it
	live    []*Assignment[R]  // that have not ended, or stopped
	turns   []*Assignment[R]  // that may have ready records; the first has its turn
	rests   heap[*item[R]]    // by the end of the rest
	lines   map[string][]*item[R]
	graves  []*item[R] // that are to go to Dead
	burying int        // calls of Dead
	waiter  *item[R]   // that waits in the Throttle
	spare   []chan *item[R]
	count   [states]int
	bytes   int64
	hungry  bool // some assignment was refused for MaxBytes
	breaker breaker
	began   bool
	pause   time.Time // before which no try starts, as the Throttle refused one
	timer   *time.Timer
	wake    time.Time // when it is set to fire; zero: it is not
	logged  time.Time // when the breaker opened last in the log
	seed    uint64    // of the rests
	draws   uint64
	stats   Stats // its counters
}

// Assign begins an assignment: a source of records, such as a partition of a
// topic. name appears in events and in Stats; it need not be unique, as the
// Assignment returned is what counts: one partition that comes, goes and comes
// back is two assignments, and late results of the first cannot move the
// frontier of the second.
//
// next is the offset of the first record that is not done. If below zero, that
// of the first record added.
//
// The contexts of Handle and Dead derive from ctx. When it ends, their calls are
// cancelled and no further try starts; a program that wants to drain first should
// not end it before [Worker.Drain]. Every assignment must end, by ctx, Revoke,
// Lost or Drain. Assign panics if there is no Handle.
func (w *Worker[R]) Assign(ctx context.Context, name string, next int64) *Assignment[R] {
	mustHave(ctx, "Assign")
	if w.Handle == nil { // here, as later a goroutine that no caller can name would panic
		panic("worker: the Worker has no Handle")
	}
	a := &Assignment[R]{worker: w, name: name, window: newWindow[item[R]](next)}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	w.live = append(w.live, a)
	a.forget = context.AfterFunc(ctx, func() { a.end(context.Cause(ctx)) })
	return a
}

// begin settles what the fields say, once. Caller holds mu.
func (w *Worker[R]) begin() {
	if w.began {
		return
	}
	w.began = true
	w.own.Concurrency = new(load.Adaptive)
	w.lines = map[string][]*item[R]{}
	w.breaker.most = or(w.Breaker, defaultBreaker)
	w.seed = rand.Uint64()
}

// or returns n, or the default if that is zero.
func or[N int | int64 | time.Duration](n, otherwise N) N {
	if n == 0 {
		return otherwise
	}
	return n
}

// above returns n, or the default if that is zero or below.
func above[N int | int64](n, otherwise N) N { return or(max(n, 0), otherwise) }

func (w *Worker[R]) throttle() *throttle.Throttle {
	if w.Throttle != nil {
		return w.Throttle
	}
	return &w.own
}

// Drain ends all assignments, for a shutdown. They accept no further records.
// Records that were tried, and those below them, have until the end of ctx to be
// done; all others are dropped at once. What is not done then is cancelled, and
// Drain returns the Cause of ctx; nil if all was done. Commit the frontiers after
// it.
func (w *Worker[R]) Drain(ctx context.Context) error {
	mustHave(ctx, "Drain")
	w.mu.Lock()
	all := slices.Clone(w.live)
	for _, a := range all {
		w.close(a)
	}
	w.mu.Unlock()
	var err error
	for _, a := range all {
		if e := a.await(ctx, a.idle); e != nil {
			err = e
		}
	}
	for _, a := range all {
		a.end(ErrEnded)
	}
	return err
}
