package throttle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// Fleet is a distributed rate limit: callers in many processes share it. Each try
// takes a token from one Store, besides waiting for the pace of its Throttle.
// Tokens are taken in batches: one request asks for those of all calls expected
// to start within 500 ms (half of [pace.MaxIdleCredit]), at most MaxBatch, and may
// be granted a part. So a busy process makes few requests, and no process keeps
// unused tokens for longer than [pace.MaxIdleCredit]. [Throttle.Try] does not wait
// for the Store: it starts only where tokens are held already. Busy processes get
// about the same share each, however many of their calls wait.
//
// When the Store fails or panics, each process continues by itself, paced by its
// [Throttle.Control] alone, and asks again after a second, and then after twice
// as long each time, up to half a minute. A response that arrives more than 20
// ms after the Timeout is discarded once, because the process itself was
// probably suspended, and the Store is asked again at once.
type Fleet struct {
	// Store holds the shared limit. If nil, there is no Fleet.
	Store store.Store
	// Key is the key of the limit in the Store, the same in all processes that
	// share it.
	Key string
	// Limit bounds the starts of all processes together, in the unit of
	// [CallOptions.Cost]. Without a Period of a microsecond or more it bounds nothing,
	// which is logged once, by [slog.Default].
	Limit limit.Limit
	// Timeout bounds one request to the Store, and the life of its goroutine. If
	// zero or below, 100 ms. A Store that does not end with its context delays all
	// waiting calls: put it behind a [store.Guard].
	Timeout time.Duration
	// MaxBatch bounds the tokens of one request. If zero or below, 100.
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
	refused float64 // requests since the last that found enough
	found   float64 // requests that found enough
	crowd   float64 // average of refused
	warned  bool    // the Limit bounds nothing
}

var errFleetGone = errors.New("throttle: the Store of the Fleet ended its goroutine")

const (
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// A process without credit asks for at least as much as the limit gives in
	// this time, so that requests stay few. Half of it halves what chance adds
	// to a share, and doubles the requests of many processes.
	atATime = 25 * time.Millisecond
	// A process that was never refused asks again, on average, so many atATime
	// after there is enough again: if at once, it would always be before the
	// others.
	restBase = 0.1
	// crowdGain is the weight of the newest grant in the average of refusals.
	crowdGain = 1.0 / 24
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
	if q.Limit.Period < time.Microsecond {
		t.unbounded(q)
	}
	timeout := t.Fleet.Timeout
	if timeout <= 0 {
		timeout = 100 * time.Millisecond
	}
	late := time.Now().Add(timeout).Add(tolerance) // a sum of both might overflow
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

// unbounded warns, once, that the Fleet bounds nothing.
func (t *Throttle) unbounded(q limit.Ask) {
	t.mu.Lock()
	warned, name := t.fleet.warned, t.name
	t.fleet.warned = true
	t.mu.Unlock()
	if !warned {
		slog.Warn("throttle: the Limit of the Fleet has next to no Period, so its Store bounds nothing; set it, as in time.Minute", "name", name, "key", q.Key, "count", q.Limit.Count, "period", q.Limit.Period)
	}
}

// answer takes the response of the Store. One that comes after late, when the
// request should have ended long ago, is of a process that was suspended: it
// proves nothing about the Store, and its grant is of another time. So it is
// discarded and the Store asked again; but not twice, as the Store may not end
// with its context.
func (t *Throttle) answer(a limit.Ask, d limit.Decision, err error, late time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fleet.asking = false
	t.alone(func() { t.settle(t.now(), a, d, err, late) })
}

// settle is answer at the time now. Caller holds mu.
func (t *Throttle) settle(now time.Time, a limit.Ask, d limit.Decision, err error, late time.Time) {
	f := &t.fleet
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
		if d.OK {
			f.credit.Add(now, cmp.Or(d.N, a.N)) // a Store that fails open lets all pass, uncharged
		}
		f.count(d.N+d.Remaining < t.Fleet.least())
		if rest := t.Fleet.rest(a, d, f.crowd, rand.ExpFloat64()); rest > 0 {
			f.credit.Refuse(now, rest)
		}
	}
	t.pump(now, nil)
}

// count notes whether a request found less in the Store than is worth one. It does
// not matter how much it asked for, so that all processes see the same crowd.
func (f *fleet) count(less bool) {
	if less {
		f.refused++
		return
	}
	f.found++
	f.crowd += (f.refused - f.crowd) * max(crowdGain, 1/(f.found+1))
	f.refused = 0
}

// rest returns how long to wait before the next request: until the Store will
// have as much as is worth one, and then for a random time, which is longer where
// more requests find less (draw is exponential, of mean 1). It depends on what all
// busy processes see alike, not on what was granted here: so they ask equally
// often, and get the same share. Those that were granted some leave the next turn
// to the others. The square root is what keeps a process that asks more often by
// chance, and finds less, from doing so for good.
func (f *Fleet) rest(a limit.Ask, d limit.Decision, crowd, draw float64) time.Duration {
	least := f.least()
	missing := max(least-d.Remaining, 0)
	if !d.OK {
		missing = max(least-a.Min, 0) // RetryAfter is until Min
	} else if missing == 0 {
		return 0
	}
	room := float64(f.Limit.Max()-least) / float64(least) // a full bucket loses what comes
	spread := math.Sqrt(crowd)
	wait := draw * (spread + restBase*max(0.5, min(room, 1)))
	if d.OK {
		wait += 2 * spread
	}
	each := float64(f.Limit.Period) / float64(max(f.Limit.Count, 1))
	rest := (float64(missing)+wait*float64(least))*each + float64(max(d.RetryAfter, 0))
	// At most an hour: the limit may be changed, or more be given back.
	return time.Duration(max(min(rest, float64(time.Hour)), float64(time.Millisecond)))
}
