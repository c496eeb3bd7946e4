package bench

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/peers"
)

// brokenError is a failure that the SDK retries.
type brokenError struct{}

func (brokenError) Error() string        { return "broken" }
func (brokenError) RetryableError() bool { return true }

var errFinal = errors.New("the SDK does not retry this")

// retryEvent is how an attempt of a worker's call ended.
type retryEvent struct {
	try     int
	at      time.Time
	verdict pace.Verdict
	final   bool
	retried bool // the SDK made another attempt
}

// retrying lets the SDK's whole retry loop run against a server that refuses
// more or less, by turns, and notes what it does.
type retrying struct {
	*retry.AdaptiveMode

	mu      sync.Mutex
	refuses float64 // share of the attempts
	events  []retryEvent
}

// GetAttemptToken lets time pass where the SDK asks again: see ticking.
func (r *retrying) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	return r.AdaptiveMode.GetAttemptToken(ticking{ctx})
}

// serve is one attempt. Half of what is not served is throttled.
func (r *retrying) serve(luck *rand.Rand) (pace.Verdict, error) {
	if len(r.events)%100 == 0 {
		r.refuses = luck.Float64() * luck.Float64()
	}
	switch x := luck.Float64(); {
	case x > r.refuses:
		return pace.Served, nil
	case x > 0.5*r.refuses:
		return pace.Throttled, throttledError{}
	case x > 0.1*r.refuses:
		return pace.Failed, brokenError{}
	}
	return pace.Failed, errFinal
}

// call makes one call, of some attempts.
func (r *retrying) call(ctx context.Context, loop *retry.Attempt, luck *rand.Rand) {
	try, last := 0, -1
	attempt := func(context.Context, middleware.FinalizeInput) (out middleware.FinalizeOutput, m middleware.Metadata, err error) {
		time.Sleep(time.Duration(1 + luck.Int64N(int64(20*time.Millisecond))))
		r.mu.Lock()
		defer r.mu.Unlock()
		if last >= 0 {
			r.events[last].retried = true
		}
		v, err := r.serve(luck)
		r.events = append(r.events, retryEvent{try: try, at: time.Now(), verdict: v, final: err == errFinal})
		last, try = len(r.events)-1, try+1
		return out, m, err
	}
	_, _, _ = loop.HandleFinalize(ctx, middleware.FinalizeInput{}, middleware.FinalizeHandlerFunc(attempt))
}

// recordRetries runs four workers of one client. Zeros: the SDK's defaults.
func recordRetries(t *testing.T, seed uint64, attempts, quota int) (events []retryEvent) {
	bubble.Test(t, func(t *testing.T) {
		set := func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			if quota > 0 {
				o.RateLimiter = ratelimit.NewTokenRateLimit(uint(quota))
			}
		}
		r := &retrying{AdaptiveMode: retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
			o.StandardOptions = append(o.StandardOptions, set)
		})}
		loop := retry.NewAttemptMiddleware(r, func(request any) any { return request })
		var all sync.WaitGroup
		for w := range uint64(4) {
			all.Go(func() {
				luck := rand.New(rand.NewPCG(seed, w))
				for range 300 {
					r.call(t.Context(), loop, luck)
				}
			})
		}
		all.Wait()
		events = r.events
	})
	return events
}

// The SDK's own retry loop gives up the calls that ours gives up: after so many
// attempts, and when the quota has run out, which only retries that are served
// fill again.
func TestAWSGivesUpLikeTheSDK(t *testing.T) {
	t.Setenv("AWS_NEW_RETRIES_2026", "")
	for _, c := range []struct {
		name            string
		attempts, quota int
		tired, broke    int // least number of calls given up for either reason
	}{
		{"the defaults", 0, 0, 100, 100},
		{"a large quota", 0, 100_000, 100, 0},
		{"two attempts of a small quota", 2, 37, 20, 100},
		{"many attempts", 12, 0, 0, 100},
		{"many attempts of a small quota", 12, 37, 0, 100},
	} {
		tired, broke := 0, 0
		for seed := range uint64(10) {
			ours := &peers.AWS{Attempts: c.attempts, Quota: c.quota}
			for i, e := range recordRetries(t, seed, c.attempts, c.quota) {
				r := pace.Request{Since: e.at, Try: e.try}
				ours.Start(e.at, r)
				rest := ours.Observe(e.at, pace.Outcome{Request: r, Sent: e.at, Report: pace.Report{Verdict: e.verdict, Final: e.final}})
				if got := e.verdict != pace.Served && rest != pace.Never; got != e.retried {
					t.Fatalf("%s, seed %d, attempt %d: after %v at try %d ours retries: %v, the SDK: %v",
						c.name, seed, i, e.verdict, e.try, got, e.retried)
				}
				switch {
				case e.retried || e.final || e.verdict == pace.Served:
				case e.try == cmp.Or(c.attempts, retry.DefaultMaxAttempts)-1:
					tired++
				default:
					broke++
				}
			}
		}
		if t.Logf("%s: given up %d times for the attempts, %d times for the quota", c.name, tired, broke); tired < c.tired || broke < c.broke {
			t.Errorf("%s: want %d and %d or more, to tell", c.name, c.tired, c.broke)
		}
	}
}
