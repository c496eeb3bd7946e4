package throttleaws_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/throttleaws"
)

// What users of the SDK suffered. aws-sdk-go-v2 3550, adaptive mode that never
// recovers, is TestRecoversWhereAdaptiveDoesNot.

// aws-sdk-go-v2 1665, aws-sdk-go-base 915: one client that many goroutines share
// runs out of its tokens for retries, and calls fail that were only throttled.
func TestManyGoroutinesShareOneClient(t *testing.T) {
	const callers, each = 50, 10
	for _, c := range []struct {
		name        string
		gates       *throttleaws.Gates
		retryer     aws.Retryer
		least, most int64 // calls that fail
	}{
		{"the SDK", nil, retry.NewStandard(), callers * each / 4, callers * each},
		{"Gates", &throttleaws.Gates{MaxWait: -1}, retry.NewStandard(), 0, 0},
	} {
		bubble.Test(t, func(t *testing.T) {
			var failed atomic.Int64
			var all sync.WaitGroup
			for range callers {
				s := &sdk{gates: c.gates, retryer: c.retryer, op: "PutItem"}
				s.serve = func(n int, _ *smithyhttp.Request) (any, error) {
					if n%3 != 0 {
						return nil, answer(400, throughput())
					}
					return "done", nil
				}
				all.Go(func() {
					for range each {
						if _, err := s.call(t.Context(), &putInput{}); err != nil {
							failed.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := failed.Load(); n < c.least || n > c.most {
				t.Errorf("%s: %d of %d calls failed; want %d to %d", c.name, n, callers*each, c.least, c.most)
			}
		})
	}
}

// sourcegraph 51743: an hour was waited for where failing at once is better.
func TestAnHourIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &sdk{gates: new(throttleaws.Gates), retryer: retry.NewStandard(), op: "PutItem"}
		s.serve = func(int, *smithyhttp.Request) (any, error) {
			return nil, answer(400, throughput(), "x-amz-retry-after", "3600000")
		}
		began := time.Now()
		_, err := s.call(throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: 3 * time.Second}), &putInput{})
		var gaveUp *throttle.Error
		var typed *tooFast
		if !errors.As(err, &gaveUp) || gaveUp.Wait < time.Hour || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &typed) || failure(t, err).MayHaveRun {
			t.Errorf("%v; want at once that it would wait an hour, the service's error, not executed", err)
		}
		if took := time.Since(began); took != 0 || s.requests != 1 {
			t.Errorf("gave up after %v and %d requests; want 0s and 1", took, s.requests)
		}
	})
}
