package store

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Limiter is one token bucket without a key and without a Store, with methods as
// those of golang.org/x/time/rate:
//
//	l := store.Limiter{Limit: limit.Limit{Count: 10, Period: time.Second, Burst: 3}}
//	if !l.Allow() { ... }
//	if err := l.Wait(ctx); err != nil { ... }
//	if err := l.WaitN(ctx, 3); err != nil { ... }
//
// Where there are keys, or other kinds of limits, use a [Store], and admit.Queue
// to wait; admit.Queue reserves nothing, so a caller that gives up leaves no
// hole.
//
// It is safe for concurrent use; it must not be copied, nor its fields changed,
// after first use. The zero Limiter allows everything.
type Limiter struct {
	// Limit is the rate and burst of the bucket. If zero, everything is allowed.
	// Another Kind is used as if it were a TokenBucket.
	Limit limit.Limit
	// MaxWait bounds how far ahead Reserve, Wait and WaitN promise tokens. If zero
	// or below, a minute.
	MaxWait time.Duration

	mu    sync.Mutex // guards all below
	began time.Time
	state limit.State // of the bucket with what may be promised on top
	last  int64       // the number of the last Reservation of some
}

// ErrTooLong says that a [Limiter] would admit the request only after its MaxWait.
var ErrTooLong = errors.New("the wait would be longer than MaxWait")

// A Reservation is a promise of tokens. The zero value is none.
type Reservation struct {
	// OK reports whether the tokens are promised. If not, they are more than the
	// Burst, or would come later than MaxWait.
	OK bool
	// At is when they may be used: act then, or call Cancel.
	At time.Time

	of     *Limiter
	n      int64
	number int64
	wait   time.Duration // why it is not OK: too long
}

// Allow takes one token if there is one now, and reports whether it did.
func (l *Limiter) Allow() bool { return l.AllowN(1) }

// AllowN takes n tokens if there are as many now, and reports whether it did. An n
// of zero or below takes none, also in Reserve and WaitN, and has to wait only
// for tokens that were promised already.
func (l *Limiter) AllowN(n int64) bool {
	return l.reserve(n, 0).OK
}

// Reserve promises n tokens for the earliest time at which the bucket has them.
func (l *Limiter) Reserve(n int64) Reservation {
	if l.MaxWait > 0 {
		return l.reserve(n, l.MaxWait)
	}
	return l.reserve(n, time.Minute)
}

// Wait waits for one token and takes it, see WaitN.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN waits for n tokens and takes them. The error is an [*Error]: its Reason is
// ErrTooLong if the wait would be longer than MaxWait, ErrNeverFits if n is above
// the Burst or the Limit allows nothing, context.DeadlineExceeded if the wait would
// be longer than ctx lasts, which is known at once, or the Cause of a ctx that has
// ended. After an error no token is taken, but see Cancel.
func (l *Limiter) WaitN(ctx context.Context, n int64) error {
	if ctx == nil {
		panic("store: Limiter: the context is nil")
	}
	if ctx.Err() != nil {
		return Ended(ctx, nil)
	}
	r := l.Reserve(n)
	if !r.OK {
		if r.wait == limit.Never {
			return &Error{Reason: ErrNeverFits, Wait: limit.Never}
		}
		return &Error{Reason: ErrTooLong, Wait: r.wait}
	}
	wait := time.Until(r.At)
	if wait <= 0 {
		return nil
	}
	if end, ok := ctx.Deadline(); ok && end.Before(r.At) {
		r.Cancel()
		return &Error{Reason: context.DeadlineExceeded, Wait: wait}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		r.Cancel()
		return Ended(ctx, nil)
	}
}

// Cancel refunds the tokens, if At has not come and nothing was taken after
// them. Tokens promised to others later stay promised for their times, so that
// no more pass at once than the Limit says. Further calls, also of a copy, do nothing.
func (r *Reservation) Cancel() {
	if r.of == nil {
		return
	}
	l := r.of
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if r.number == l.last && now.Before(r.At) {
		l.state, _ = limit.Take(l.state, now, limit.Ask{Limit: l.bucket(), N: -r.n})
		l.last++ // a copy of r refunds nothing more
	}
	*r = Reservation{}
}

// reserve promises n tokens within so long. What may be promised is on top of
// the bucket: tokens that are there are above it.
func (l *Limiter) reserve(n int64, within time.Duration) Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	b := l.bucket()
	if b.Unlimited() {
		return Reservation{OK: true, At: now}
	}
	if n > l.burst() {
		return Reservation{wait: limit.Never}
	}
	n = max(n, 0)
	_, ready := limit.Take(l.state, now, limit.Ask{Limit: b, N: b.Burst - l.burst() + n})
	if ready.RetryAfter > within {
		return Reservation{wait: ready.RetryAfter}
	}
	next, d := limit.Take(l.state, now, limit.Ask{Limit: b, N: n})
	if !d.OK {
		return Reservation{wait: d.RetryAfter}
	}
	l.state = next
	if n > 0 { // a Reservation of none takes nothing, so those before it may be refunded
		l.last++
	}
	return Reservation{OK: true, At: now.Add(ready.RetryAfter), of: l, n: n, number: l.last}
}

// now returns the wall clock at first use, monotonic from then on. Caller holds
// mu.
func (l *Limiter) now() time.Time {
	if l.began.IsZero() {
		l.began = time.Now()
	}
	return l.began.Add(time.Since(l.began))
}

// bucket returns the Limit as a bucket, with what may be promised on top. All
// reservations look at the same one.
func (l *Limiter) bucket() limit.Limit {
	b := limit.Limit{Count: l.Limit.Count, Period: l.Limit.Period, Burst: l.burst()}
	within := l.MaxWait
	if within <= 0 {
		within = time.Minute
	}
	if b.Unlimited() || b.Count <= 0 {
		return b
	}
	ahead := math.Ceil(float64(b.Count) / float64(b.Period) * float64(within))
	b.Burst += int64(min(ahead, float64(math.MaxInt64/4)))
	return b
}

// burst returns how many may pass at once.
func (l *Limiter) burst() int64 {
	return min(limit.Limit{Count: l.Limit.Count, Period: l.Limit.Period, Burst: l.Limit.Burst}.Max(), math.MaxInt64/4)
}
