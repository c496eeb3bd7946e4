package throttle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// Fleet is a limit that callers in many processes share: each try is paid for
// from one Store, beside whatever else paces it. Waiting calls are paid for in
// batches: one Store request covers all calls expected to start within 500 ms
// (half of [pace.MaxIdleCredit]). So a busy process makes few requests, and no
// process keeps unused credit for longer than [pace.MaxIdleCredit].
// [Throttle.Try] does not wait for the Store, so it starts only what is paid
// for already.
//
// When the Store fails or panics, each process continues by itself, paced by its
// [Throttle.Control] alone, and asks again after a second, and then after twice
// as long each time, up to half a minute. A response that arrives more than 20
// ms after the Timeout is discarded once, because the process itself was
// probably suspended, and the Store is asked again at once.
type Fleet struct {
	// Store holds the shared limit. If nil, there is no Fleet.
	Store store.Store
	// Key is the key of the limit in the Store.
	Key string
	// Limit is what all processes together may start, in the unit of
	// [CallOptions.Cost].
	Limit limit.Limit
	// Timeout bounds one request to the Store, and the life of its goroutine.
	// If zero, 100 ms. Put a Store that does not end with its context behind a
	// [store.Guard]: it delays all waiting calls otherwise.
	Timeout time.Duration
	// MaxBatch bounds the tokens of one request. If zero, 100.
	MaxBatch int64
}

// fleet is the state of a Fleet in a Throttle, under its lock.
type fleet struct {
	credit  pace.Credit
	asking  bool
	backoff time.Duration // between requests; zero: the Store decides
	retryAt time.Time     // while there is a backoff
	took    int64         // responses
	failed  int64
	err     error   // of the last that failed
	late    bool    // the last answer was
	refused float64 // refusals since the last grant
	crowd   float64 // average refusals before a grant
}

var errFleetGone = errors.New("throttle: the Store of the Fleet ended its goroutine")

const (
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// A process without credit asks for at least as much as the limit gives in
	// this time, so that requests stay few.
	atATime = 50 * time.Millisecond
)

// FleetStats counts what a [Throttle] did for its [Fleet] since its first use.
type FleetStats struct {
	// Answered counts the requests that the Store decided, Failed those that it
	// did not.
	Answered, Failed int64
	// LastErr is the error of the last request that failed. Nil if none did.
	LastErr error
}

// FleetStats returns the numbers of the Fleet so far.
func (t *Throttle) FleetStats() FleetStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return FleetStats{Answered: t.fleet.took, Failed: t.fleet.failed, LastErr: t.fleet.err}
}

// ahead is how long before its expected start a call is paid for.
const ahead = pace.MaxIdleCredit / 2

// buy asks for credit if some is needed, in a goroutine that ends with the
// request. Calls that the Control does not let start soon are not paid for yet:
// that credit would be lost to all. again is when to look again. Caller holds
// mu.
func (t *Throttle) buy(now time.Time) (again time.Duration) {
	if t.Fleet.Store == nil {
		return pace.Never
	}
	f := &t.fleet
	if t.gate.Cost() == 0 {
		f.credit.Idle(now)
	}
	if f.asking || t.gate.Waiting() == 0 && f.backoff == 0 || now.Before(f.retryAt) {
		return pace.Never
	}
	soon, again := t.gate.Soon(now, ahead, t.gate.Control.(pace.All)[0])
	n := f.credit.Wants(now, soon)
	if f.backoff > 0 {
		n = 1 // a probe
	}
	if n == 0 {
		return again
	}
	f.credit.Keep(now)
	most := t.Fleet.MaxBatch
	if most <= 0 {
		most = 100
	}
	f.asking = true
	n = min(n, most)
	go t.ask(limit.Ask{Key: t.Fleet.Key, Limit: t.Fleet.Limit, N: n, Min: min(n, t.Fleet.least())})
	return again
}

// least returns the tokens worth a request: what the limit gives in atATime, at
// most half a Burst.
func (f *Fleet) least() int64 {
	least := float64(f.Limit.Count) * atATime.Seconds() / max(f.Limit.Period.Seconds(), 1e-6)
	return int64(max(1, min(least, float64(f.Limit.Max())/2, 1<<40)))
}

// ask is the goroutine of one request.
func (t *Throttle) ask(q limit.Ask) {
	timeout := t.Fleet.Timeout
	if timeout <= 0 {
		timeout = 100 * time.Millisecond
	}
	late := time.Now().Add(timeout + tolerance)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	a := [1]limit.Ask{q}
	var d [1]limit.Decision
	err := errFleetGone
	defer func() {
		if p := recover(); p != nil { // no caller could recover from it
			err = fmt.Errorf("throttle: the Store of the Fleet panicked: %v", p)
		}
		t.answer(q, d[0], err, late)
	}()
	_, err = t.Fleet.Store.Take(ctx, a[:], d[:])
}

// answer takes the response of the Store. One that comes after late, when the
// request should have ended long ago, is of a process that was suspended: it
// proves nothing about the Store, and its grant is of another time. So it is
// discarded and the Store asked again; but not twice, as the Store may not end
// with its context.
func (t *Throttle) answer(a limit.Ask, d limit.Decision, err error, late time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	f := &t.fleet
	f.asking = false
	stood := now.After(late) && !f.late
	f.late = now.After(late)
	if err != nil {
		f.err = err
	}
	switch {
	case stood && err != nil:
		f.failed++
	case stood:
		f.took++
	case err != nil:
		f.failed++
		f.backoff = min(max(2*f.backoff, firstBackoff), maxBackoff)
		f.retryAt = now.Add(f.backoff)
		f.credit.Open()
	default:
		f.took++
		f.backoff, f.retryAt = 0, time.Time{}
		if d.OK && d.N > 0 {
			f.credit.Add(now, d.N)
			f.crowd += (f.refused - f.crowd) / 4
			f.refused = 0
		} else {
			f.refused++
			f.credit.Refuse(now, t.Fleet.rest(a, d.RetryAfter, f.crowd))
		}
	}
	t.pump(now, nil)
}

// rest returns how long to wait after a refusal. Where other processes take
// what there is, each asks later by a random time, so that all together ask
// about twice as often as there is something to grant.
func (f *Fleet) rest(a limit.Ask, after time.Duration, crowd float64) time.Duration {
	if after >= time.Hour {
		return time.Hour // the limit may be changed, or a longer one asked for
	}
	each := time.Duration(float64(f.Limit.Period) / float64(max(f.Limit.Count, 1)) * float64(a.Min))
	return max(after, time.Millisecond) + time.Duration(rand.Float64()*min(crowd, 100)*float64(min(each, time.Minute)))
}
