package throttleaws_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

// A call that hangs holds up the others for a second.
func TestHungCallHoldsNobody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := new(throttleaws.Gates)
		ctx, cancel := context.WithCancel(t.Context())
		hung := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
		hung.serve = func(int, *smithyhttp.Request) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		go hung.call(ctx, &putInput{})
		synctest.Wait()
		s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
		s.serve = func(int, *smithyhttp.Request) (any, error) { return "done", nil }
		for range 5 {
			if _, err := s.call(t.Context(), &putInput{}); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d > 1100*time.Millisecond {
			t.Errorf("beside a call that hangs five took %v, want about a second", d)
		}
		cancel()
	})
}

// The policy of the Throttles that Gates make is set in their fields.
func TestPolicyFields(t *testing.T) {
	for _, c := range []struct {
		name  string
		gates *throttleaws.Gates
		tries int
		took  time.Duration
	}{
		{"Retries and Backoff", &throttleaws.Gates{Retries: 4, Backoff: pace.Backoff{Base: time.Second, Jitter: pace.PlusMinusJitter, Spread: 1e-17}}, 5, 15 * time.Second},
		{"no retries", &throttleaws.Gates{Retries: -1}, 1, 0},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &sdk{gates: c.gates, retryer: retry.NewStandard(), op: "PutItem"}
			s.serve = func(int, *smithyhttp.Request) (any, error) { return nil, answer(503, coded("Odd")) }
			began := time.Now()
			if _, err := s.call(t.Context(), &putInput{}); err == nil || s.requests != c.tries || time.Since(began) != c.took {
				t.Errorf("%s: %v after %d tries and %v; want %d and %v", c.name, err, s.requests, time.Since(began), c.tries, c.took)
			}
		})
	}
}

// A call that lasts until the deadline of its context is reported as timed out; one
// that is cancelled is not.
func TestTimedOut(t *testing.T) {
	for stop, want := range map[time.Duration]bool{time.Hour: true, time.Second: false} {
		bubble.Test(t, func(t *testing.T) {
			var got pace.Report
			g := &throttleaws.Gates{Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
				return &throttle.Throttle{OnEvent: func(e throttle.Event) {
					if e.Kind == throttle.Ends {
						got = e.Report
					}
				}}
			}}}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			time.AfterFunc(stop, cancel)
			s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
			s.serve = func(int, *smithyhttp.Request) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if _, err := s.call(ctx, &putInput{}); err == nil || got.TimedOut != want {
				t.Errorf("cancelled after %v: %v, report %+v; want TimedOut %v", stop, err, got, want)
			}
		})
	}
}
