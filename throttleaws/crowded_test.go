package throttleaws_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

// tooMany is shaped like Lambda's TooManyRequestsException.
type tooMany struct {
	smithy.GenericAPIError
	Reason throttleReason
}

type throttleReason string

// sees is a Controller without a limit that keeps the last Outcome.
type sees struct{ last *pace.Outcome }

func (s sees) Wait(time.Time, pace.Request) time.Duration { return 0 }
func (s sees) Start(time.Time, pace.Request)              {}
func (s sees) Observe(_ time.Time, o pace.Outcome) time.Duration {
	*s.last = o
	return 0
}

// What was refused because too much was in flight is not taken for too fast.
func TestCrowded(t *testing.T) {
	lambda := func(reason throttleReason) error {
		return &tooMany{smithy.GenericAPIError{Code: "TooManyRequestsException"}, reason}
	}
	for _, c := range []struct {
		err                error
		crowded, elsewhere bool
	}{
		{lambda("ConcurrentInvocationLimitExceeded"), true, false},
		{lambda("ReservedFunctionConcurrentInvocationLimitExceeded"), true, false},
		{lambda("FunctionInvocationRateLimitExceeded"), false, false},
		{coded("TransactionInProgressException"), false, true},
		{coded("ThrottlingException"), false, false},
	} {
		var got pace.Report
		var seen pace.Outcome
		g := &throttleaws.Gates{Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{Control: sees{&seen}, Tries: 1, OnEvent: func(e throttle.Event) {
				if e.Kind == throttle.Ends {
					got = e.Report
				}
			}}
		}}}
		s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
		s.serve = func(int, *smithyhttp.Request) (any, error) { return nil, answer(429, c.err) }
		_, _ = s.call(t.Context(), &putInput{})
		if got.Verdict != pace.Throttled || got.Crowded != c.crowded || seen.Elsewhere != c.elsewhere {
			t.Errorf("%v: %v, crowded %t, elsewhere %t; want throttled, %t, %t", c.err, got.Verdict, got.Crowded, seen.Elsewhere, c.crowded, c.elsewhere)
		}
	}
}
