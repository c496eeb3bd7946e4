package throttleaws_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

// quick is a Gates of which calls do not wait for a rate.
func quick(t *throttle.Throttle) *throttleaws.Gates {
	return &throttleaws.Gates{Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
		return &throttle.Throttle{Control: &pace.Fixed{}, Tries: t.Tries, Retries: t.Retries, Budget: t.Budget, OnEvent: t.OnEvent}
	}}}
}

// cancelled is shaped like DynamoDB's TransactionCanceledException.
type (
	cancelled struct {
		tooFast
		CancellationReasons []cancellation
	}
	cancellation struct{ Code *string }
)

func transaction(codes ...string) error {
	e := &cancelled{tooFast: *throughput().(*tooFast)}
	e.Code = "TransactionCanceledException"
	for _, c := range codes {
		e.CancellationReasons = append(e.CancellationReasons, cancellation{&c})
	}
	return e
}

// TestCodes: how often a call is made that is always answered so, when it is
// throttled five times and fails four times at most.
func TestCodes(t *testing.T) {
	const throttled, failed, quota, once = 5, 4, 3, 1
	type row struct {
		status int
		err    error
		want   int
	}
	rows := []row{
		{429, coded("Odd"), throttled},
		{400, transaction("None", "ThrottlingError"), throttled},
		{400, transaction("ProvisionedThroughputExceeded", "ConditionalCheckFailed"), once},
		{400, transaction("None"), once},
		{400, transaction(), once},
		{500, coded("InternalServerError"), failed},
		{502, coded("Odd"), failed},
		{503, coded("ServiceUnavailable"), failed},
		{504, coded("Odd"), failed},
		{400, coded("RequestTimeout"), failed},
		{400, coded("RequestTimeoutException"), failed},
		{501, coded("NotImplemented"), once},
		{400, coded("ValidationException"), once},
		{400, coded("ConditionalCheckFailedException"), once},
		{403, coded("AccessDeniedException"), once},
		{400, coded("LimitExceededException"), quota},
	}
	codes := strings.Fields(`Throttling ThrottlingException ThrottledException RequestThrottledException
		TooManyRequestsException ProvisionedThroughputExceededException TransactionInProgressException
		RequestLimitExceeded BandwidthLimitExceeded RequestThrottled SlowDown PriorRequestNotComplete
		EC2ThrottledException`)
	for _, code := range codes {
		for _, status := range []int{400, 503} {
			rows = append(rows, row{status, coded(code), throttled})
		}
	}
	for _, r := range rows {
		bubble.Test(t, func(t *testing.T) {
			s := &sdk{gates: quick(&throttle.Throttle{Tries: 5}), retryer: retry.NewStandard(), op: "PutItem"}
			s.serve = func(int, *smithyhttp.Request) (any, error) { return nil, answer(r.status, r.err) }
			_, err := s.call(t.Context(), &putInput{})
			e := failure(t, err)
			if s.requests != r.want || e.Tries != r.want {
				t.Errorf("status %d, %v: %d requests, Tries %d; want %d", r.status, r.err, s.requests, e.Tries, r.want)
			}
			if want := r.status >= 500 && r.want != throttled; e.MayHaveRun != want {
				t.Errorf("status %d, %v: MayHaveRun %t, want %t", r.status, r.err, e.MayHaveRun, want)
			}
			if !errors.Is(err, r.err) {
				t.Errorf("status %d: error %v does not hold %v", r.status, err, r.err)
			}
		})
	}
}

func TestTheErrorSaysWhy(t *testing.T) {
	s := &sdk{gates: quick(&throttle.Throttle{Tries: 2}), retryer: retry.NewStandard(), op: "PutItem"}
	s.serve = func(int, *smithyhttp.Request) (any, error) {
		return nil, answer(400, throughput("TableWriteProvisionedThroughputExceeded"))
	}
	table := "orders"
	_, err := s.call(t.Context(), &putInput{&table})
	var typed *tooFast
	var gaveUp *throttle.Error
	if !errors.As(err, &typed) || !errors.As(err, &gaveUp) || gaveUp.Reason != throttle.ErrTries || gaveUp.MayHaveRun {
		t.Errorf("error %v holds %v and %v, want both, and no tries left, and not executed", err, typed, gaveUp)
	}
	const want = "operation error DynamoDB: PutItem, throttle: no tries left, after 2 tries, not executed: http response error StatusCode: 400, " +
		"ProvisionedThroughputExceededException: no; TableWriteProvisionedThroughputExceeded of arn:orders"
	if err.Error() != want {
		t.Errorf("error\n%v\nwant\n%v", err, want)
	}
	if e := failure(t, err); e.Name != "DynamoDB orders write" {
		t.Errorf("scope %q, want %q", e.Name, "DynamoDB orders write")
	}
}

// TestErrorOfSeveralLines: some services, and errors.Join, write one error in
// several lines.
func TestErrorOfSeveralLines(t *testing.T) {
	e := &throttleaws.Error{Err: errors.Join(errors.New("2 errors"), errors.New("no name")), Reasons: []throttleaws.Reason{{Reason: "a\nb"}}}
	if got, want := e.Error(), "2 errors; no name; a; b; not executed"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

// TestAFailureBeforeAnAnswer: the second try says that the condition does not
// hold, perhaps as the first has been executed.
func TestAFailureBeforeAnAnswer(t *testing.T) {
	s := &sdk{gates: quick(&throttle.Throttle{}), retryer: retry.NewStandard(), op: "PutItem"}
	s.serve = func(n int, _ *smithyhttp.Request) (any, error) {
		if n == 1 {
			return nil, answer(500, coded("InternalServerError"))
		}
		return nil, answer(400, coded("ConditionalCheckFailedException"))
	}
	_, err := s.call(t.Context(), &putInput{})
	if e := failure(t, err); e.Tries != 2 || !e.MayHaveRun {
		t.Errorf("a 500, then a condition that does not hold: Tries %d, MayHaveRun %t; want 2, true", e.Tries, e.MayHaveRun)
	}
}

func TestWaitsThatAreAskedFor(t *testing.T) {
	for _, c := range []struct {
		header      []string
		least, most time.Duration
	}{
		{[]string{"x-amz-retry-after", "1500"}, 1500 * time.Millisecond, 12 * time.Second},
		{[]string{"x-amz-retry-after", "0"}, 0, 10 * time.Second},
		{[]string{"x-amz-retry-after", "-5"}, 0, 10 * time.Second},
		{[]string{"x-amz-retry-after", "soon"}, 0, 10 * time.Second},
		{[]string{"x-amz-retry-after", "82800000"}, 23 * time.Hour, 26 * time.Hour},
		{[]string{"x-amz-retry-after", "90000000"}, time.Hour, 68 * time.Minute}, // as signal.FallbackAfter tells
		{[]string{"x-amz-retry-after", "9223372036854775807"}, 0, 10 * time.Second},
		{[]string{"Retry-After", "90000"}, time.Hour, 68 * time.Minute},
		{[]string{"Retry-After", "7"}, 7 * time.Second, 18 * time.Second},
		{[]string{"Retry-After", "1", "Retry-After", "7"}, 7 * time.Second, 18 * time.Second},
		{[]string{"x-amz-retry-after", "-5", "Retry-After", "7"}, 7 * time.Second, 18 * time.Second},
	} {
		bubble.Test(t, func(t *testing.T) {
			g := &throttleaws.Gates{Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
				return &throttle.Throttle{MaxWait: -1, MaxAfter: -1} // so that only what the package believes counts
			}}}
			s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
			s.serve = func(n int, _ *smithyhttp.Request) (any, error) {
				if n == 1 {
					return nil, answer(400, throughput(), c.header...)
				}
				return "done", nil
			}
			start := time.Now()
			out, err := s.call(t.Context(), &putInput{})
			if took := time.Since(start); out != "done" || err != nil || took < c.least || took > c.most {
				t.Errorf("%q: %v, %v after %v; want done after %v to %v", c.header, out, err, took, c.least, c.most)
			}
		})
	}
}

// TestNoTimeForTheWait: a wait beyond the deadline is refused at once.
func TestNoTimeForTheWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &sdk{gates: new(throttleaws.Gates), retryer: retry.NewStandard(), op: "PutItem"}
		s.serve = func(int, *smithyhttp.Request) (any, error) {
			return nil, answer(400, throughput(), "x-amz-retry-after", "60000")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		_, err := s.call(ctx, &putInput{})
		var typed *tooFast
		var gaveUp *throttle.Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &typed) || !errors.As(err, &gaveUp) {
			t.Fatalf("error %v, want that the deadline is too near, and the service's own", err)
		}
		if gaveUp.Wait < time.Minute || time.Since(start) > 0 || s.requests != 1 {
			t.Errorf("refused a wait of %v after %v and %d requests, want a minute or more, at once, 1", gaveUp.Wait, time.Since(start), s.requests)
		}
	})
}

func TestFailuresHaveABudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &sdk{gates: new(throttleaws.Gates), retryer: retry.NewStandard(), op: "PutItem"}
		s.serve = func(int, *smithyhttp.Request) (any, error) { return nil, answer(500, coded("InternalServerError")) }
		const calls = 1000
		broke := 0
		for range calls {
			if _, err := s.call(t.Context(), &putInput{}); errors.Is(err, throttle.ErrBudget) {
				broke++
			}
		}
		// 500 tokens, 5 a retry.
		if s.requests != calls+100 || broke < 900 {
			t.Errorf("%d calls that all fail: %d requests, %d without budget; want %d, 900 or more", calls, s.requests, broke, calls+100)
		}
	})
}

func TestRepeatForbids(t *testing.T) {
	g := quick(&throttle.Throttle{})
	g.Repeat = func(c throttleaws.Call) bool { return c.Operation != "UpdateItem" }
	for op, want := range map[string]int{"UpdateItem": 1, "PutItem": 4} {
		s := &sdk{gates: g, retryer: retry.NewStandard(), op: op}
		s.serve = func(int, *smithyhttp.Request) (any, error) { return nil, answer(500, coded("InternalServerError")) }
		_, err := s.call(t.Context(), &putInput{})
		if e := failure(t, err); s.requests != want || !e.MayHaveRun {
			t.Errorf("%s that fails: %d requests, MayHaveRun %t; want %d, true", op, s.requests, e.MayHaveRun, want)
		}
	}
}

func TestBodies(t *testing.T) {
	for _, opaque := range []bool{false, true} {
		s := &sdk{gates: quick(&throttle.Throttle{}), retryer: retry.NewStandard(), op: "PutItem", body: "an item", opaque: opaque}
		var got []string
		s.serve = func(n int, req *smithyhttp.Request) (any, error) {
			b, err := io.ReadAll(req.GetStream())
			if got = append(got, string(b)); err != nil || n < 3 {
				return nil, answer(400, throughput())
			}
			return "done", nil
		}
		_, err := s.call(t.Context(), &putInput{})
		want := []string{"an item", "an item", "an item"}
		if opaque {
			want = want[:1]
			if e := failure(t, err); !errors.Is(err, throttle.ErrTries) || e.MayHaveRun {
				t.Errorf("a body that cannot be rewound: %v, want no tries left, not executed", err)
			}
		}
		if !slices.Equal(got, want) || (err != nil) != opaque {
			t.Errorf("body that cannot be rewound: %t: bodies %q, error %v; want %q", opaque, got, err, want)
		}
	}
}

// TestUnfinishedBatches come back as they are, and teach.
func TestUnfinishedBatches(t *testing.T) {
	var reports []pace.Report
	s := &sdk{retryer: retry.NewStandard(), op: "BatchWriteItem"}
	s.gates = quick(&throttle.Throttle{OnEvent: func(e throttle.Event) {
		if e.Kind == throttle.Ends {
			reports = append(reports, e.Report)
		}
	}})
	left := &batchOutput{map[string][]int{"orders": {7}}}
	s.serve = func(int, *smithyhttp.Request) (any, error) { return left, nil }
	out, err := s.call(t.Context(), &batchInput{})
	if out != left || err != nil || s.requests != 1 {
		t.Errorf("a batch with one item left: %v, %v after %d requests; want it back after 1", out, err, s.requests)
	}
	left = &batchOutput{}
	if _, err := s.call(t.Context(), &batchInput{}); err != nil {
		t.Error(err)
	}
	if len(reports) != 2 || reports[0].Verdict != pace.Throttled || reports[1].Verdict != pace.Served {
		t.Errorf("an unfinished batch, then a finished one: learnt %v, want throttled, served", reports)
	}
}

// TestCancelStorm: whatever is cancelled whenever, nothing stays.
func TestCancelStorm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var gate *throttle.Throttle
		g := &throttleaws.Gates{Throttles: &throttle.Group{New: func(string) *throttle.Throttle { gate = new(throttle.Throttle); return gate }}}
		var turn atomic.Int64
		var all sync.WaitGroup
		for i := range 400 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%40)*50*time.Millisecond)
				defer cancel()
				s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
				s.serve = func(int, *smithyhttp.Request) (any, error) {
					time.Sleep(30 * time.Millisecond)
					if err := ctx.Err(); err != nil {
						return nil, err
					}
					if turn.Add(1)%5 == 0 {
						return "done", nil
					}
					return nil, answer(400, throughput())
				}
				if out, err := s.call(ctx, &putInput{}); out != "done" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("call %d: %v, %v; want it done or too late", i, out, err)
				}
			})
		}
		all.Wait()
		if gate.InFlight() != 0 || gate.Waiting() != 0 {
			t.Errorf("after all: %d in flight, %d waiting; want none", gate.InFlight(), gate.Waiting())
		}
	})
}

func TestAdd(t *testing.T) {
	var one, two throttleaws.Gates
	stack := middleware.NewStack("PutItem", smithyhttp.NewStackRequest)
	for range 2 {
		if err := one.Add(stack); err != nil {
			t.Errorf("Add, to a stack without retries, twice: %v", err)
		}
	}
	if err := two.Add(stack); err == nil {
		t.Error("a second Gates was added to one stack, want an error")
	}
	stack = middleware.NewStack("PutItem", smithyhttp.NewStackRequest)
	presign := middleware.FinalizeMiddlewareFunc("PresignHTTPRequest", nil)
	if err := stack.Finalize.Add(presign, middleware.After); err != nil {
		t.Fatal(err)
	}
	if err := one.Add(stack); err != nil || len(stack.Finalize.List()) != 1 || len(stack.Initialize.List()) != 0 {
		t.Errorf("Add where a request is presigned: %v, %v; want nothing added", err, stack.List())
	}
}

// ticking lets a nanosecond pass before each of the SDK's sleeps: time in a
// bubble stands still otherwise, and a sleep of 0 would repeat for ever.
type ticking struct{ context.Context }

func (t ticking) Done() <-chan struct{} {
	time.Sleep(time.Nanosecond)
	return t.Context.Done()
}

// TestRecoversWhereAdaptiveDoesNot: a table without throughput for a while, then
// with a little less than is asked for. That uses up the retry quota of the SDK.
// In adaptive mode nothing but a retry that is served gives any back, and as
// nothing is retried any more that never comes (aws-sdk-go-v2 issue 3550); in
// standard mode each call that is served at once gives back a fifth of a retry.
func TestRecoversWhereAdaptiveDoesNot(t *testing.T) {
	const outage, calls = 400, 500
	for _, c := range []struct {
		name        string
		gates       *throttleaws.Gates
		retryer     aws.Retryer
		least, most int // calls that fail after the outage
	}{
		{"the SDK's adaptive mode", nil, retry.NewAdaptiveMode(), 40, 60},
		{"the SDK's standard mode", nil, retry.NewStandard(), 0, 5},
		{"Gates", new(throttleaws.Gates), retry.NewAdaptiveMode(), 0, 0},
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &sdk{gates: c.gates, retryer: c.retryer, op: "PutItem"}
			s.serve = func(n int, _ *smithyhttp.Request) (any, error) {
				if n <= outage || n%10 == 0 {
					return nil, answer(400, throughput())
				}
				return "done", nil
			}
			for s.requests < outage {
				_, _ = s.call(ticking{t.Context()}, &putInput{})
			}
			failed := 0
			for range calls {
				if _, err := s.call(ticking{t.Context()}, &putInput{}); err != nil {
					failed++
				}
			}
			if failed < c.least || failed > c.most {
				t.Errorf("%s: %d of %d calls failed after the outage, want %d to %d", c.name, failed, calls, c.least, c.most)
			}
			t.Logf("%s: %d of %d calls failed after the outage", c.name, failed, calls)
		})
	}
}
