package throttlegrpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/store"
)

// said is a status with details.
func said(code codes.Code, text string, details ...protoadapt.MessageV1) *status.Status {
	st, err := status.New(code, text).WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return st
}

// unit is what Google's services say of a quota that is used up.
func unit(text string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: "RATE_LIMIT_EXCEEDED", Metadata: map[string]string{"quota_unit": text, "quota_limit_value": "600"}}
}

// perQuota says the same in a newer form.
func perQuota(ids ...string) *errdetails.QuotaFailure {
	var q errdetails.QuotaFailure
	for _, id := range ids {
		q.Violations = append(q.Violations, &errdetails.QuotaFailure_Violation{QuotaId: id})
	}
	return &q
}

func TestReport(t *testing.T) {
	quota := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "a"}}}
	never := &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: math.MaxInt64}}
	for _, c := range []struct {
		st    *status.Status
		md    []string
		want  pace.Verdict
		after time.Duration
		final bool
	}{
		{st: said(all, "")},
		{st: said(all, "", after(3*time.Second)), after: 3 * time.Second},
		{st: said(all, "", quota, after(time.Millisecond), after(2*time.Second), after(time.Second)), after: 2 * time.Second},
		{st: said(all, "", after(-time.Second))},
		{st: said(all, "", never)}, // of years, so it is malformed
		{st: said(all, "", never, after(time.Second)), after: time.Second},
		{st: said(all, "", after(24*time.Hour)), after: 24 * time.Hour},
		{st: said(all, "", after(25*time.Hour)), after: signal.FallbackAfter},
		{st: said(off, "", never), want: pace.Failed},
		{st: said(all, "", &errdetails.RetryInfo{})},
		{st: said(all, ""), md: []string{pushback, "1500"}, after: 1500 * time.Millisecond},
		{st: said(all, "", after(time.Second)), md: []string{pushback, "1500"}, after: 1500 * time.Millisecond},
		{st: said(all, "", after(2*time.Second)), md: []string{pushback, "1500"}, after: 2 * time.Second},
		{st: said(all, ""), md: []string{pushback, "0"}},
		{st: said(all, ""), md: []string{pushback, "-1"}, final: true},
		{st: said(all, ""), md: []string{pushback, "1.5"}, final: true},
		{st: said(all, ""), md: []string{pushback, " 1"}, final: true},
		{st: said(all, ""), md: []string{pushback, ""}, final: true},
		{st: said(all, ""), md: []string{pushback, "2147483647"}, after: signal.FallbackAfter},
		{st: said(all, ""), md: []string{pushback, "2147483648"}, final: true},
		{st: said(all, ""), md: []string{pushback, "1", pushback, "1"}, final: true},
		{st: said(off, ""), want: pace.Failed},
		{st: said(off, "", quota), want: pace.Failed},
		{st: said(off, "", after(0)), want: pace.Throttled},
		{st: said(off, "", after(-time.Second)), want: pace.Failed},
		{st: said(off, "", after(time.Second)), want: pace.Throttled, after: time.Second},
		{st: said(off, ""), md: []string{pushback, "100"}, want: pace.Failed, after: 100 * time.Millisecond},
		{st: said(off, ""), md: []string{pushback, "-1"}, want: pace.Failed, final: true},
		{st: said(off, ""), md: []string{"x-envoy-ratelimited", "true"}, want: pace.Throttled},
		{st: said(codes.Canceled, ""), want: pace.Ignored},
		{st: said(codes.DeadlineExceeded, ""), want: pace.Ignored},
		{st: said(codes.NotFound, "", after(time.Second)), md: []string{pushback, "100"}, want: pace.Served},
		{st: said(codes.Internal, ""), want: pace.Ignored, final: true},
		{st: said(codes.Unknown, ""), want: pace.Ignored, final: true},
		{st: said(codes.DataLoss, ""), want: pace.Ignored, final: true},
		{st: said(codes.Aborted, ""), want: pace.Served},
		{st: said(codes.Code(99), ""), want: pace.Served},
	} {
		want := pace.Report{Verdict: c.want, After: c.after, Final: c.final}
		if c.st.Code() == all && c.want == pace.Ignored {
			want.Verdict = pace.Throttled
		}
		if got := report(c.st, metadata.Pairs(c.md...)); got != want {
			t.Errorf("report(%v, %v) = %+v, want %+v", c.st.Proto(), c.md, got, want)
		}
	}
}

// What never passes is not retried, and not a limit that was reached.
func TestNeverPasses(t *testing.T) {
	for want, all := range map[pace.Verdict][]*status.Status{
		pace.Served: {
			said(all, "grpc: received message larger than max (5 vs. 4)"),
			said(all, "gRPC message exceeds maximum size 4: 5"),
			said(all, "Sending message exceeds the maximum configured message size."),
			said(all, "Received message exceeds the maximum configured message size."),
			said(all, "Received message that decompresses to a size larger than 4"),
			said(all, "message size 5 is larger than configured max 4"),
			said(all, "message size 5 exceeds sendMaxBytes 4"),
			said(all, "exceeded 4 byte http.MaxBytesReader limit"),
			said(all, "", unit("1/d/{project}"), after(time.Second)),
			said(all, "", &errdetails.ErrorInfo{Metadata: map[string]string{"quota_limit_value": "0"}}),
			said(all, "", perQuota("RequestsPerMinute", "RequestsPerDayPerProject")),
		},
		pace.Throttled: {
			said(all, "you sent more requests than the maximum"),
			said(all, "", unit("1/min/{project}")),
			said(all, "", perQuota("RequestsPerMinute")),
		},
	} {
		for _, st := range all {
			if got := report(st, metadata.Pairs(pushback, "0")); got != (pace.Report{Verdict: want}) {
				t.Errorf("report(%v) = %+v, want %v alone", st.Proto(), got, want)
			}
		}
	}
}

func TestClassify(t *testing.T) {
	limited := said(codes.ResourceExhausted, "slow down", after(time.Second)).Err()
	reset := status.Error(codes.ResourceExhausted, "stream terminated by RST_STREAM with error code: ENHANCE_YOUR_CALM")
	for _, c := range []struct {
		err  error
		want pace.Report
	}{
		{nil, pace.Report{Verdict: pace.Served}},
		{errors.New("other"), pace.Report{Verdict: pace.Served}},
		{context.Canceled, pace.Report{}},
		{limited, pace.Report{Verdict: pace.Throttled, After: time.Second}},
		{fmt.Errorf("list: %w", limited), pace.Report{Verdict: pace.Throttled, After: time.Second}},
		{throttle.Ignore(limited), pace.Report{}},
		{&giveUp{&throttle.Error{Reason: throttle.ErrTries, Err: limited}}, pace.Report{}},
		{status.Error(codes.Unavailable, ""), pace.Report{Verdict: pace.Failed, Final: true}},
		{status.Error(codes.Internal, ""), pace.Report{Verdict: pace.Ignored, Final: true}},
		{status.Error(codes.DeadlineExceeded, ""), pace.Report{Verdict: pace.Ignored}},
		{fmt.Errorf("list: %w", reset), pace.Report{Verdict: pace.Failed, Final: true}},
		{status.Error(codes.Canceled, ""), pace.Report{}},
		{status.Error(codes.NotFound, ""), pace.Report{Verdict: pace.Served}},
	} {
		if got := Classify(c.err); got != c.want {
			t.Errorf("Classify(%v) = %+v, want %+v", c.err, got, c.want)
		}
	}
}

func TestHints(t *testing.T) {
	header := metadata.Pairs("x-ratelimit-limit", "9, 9;w=1", "x-ratelimit-remaining", "3", "x-ratelimit-reset", "1")
	trailer := metadata.Pairs("ratelimit", `"a";r=5;t=9`, "ratelimit-policy", `"a";q=60;w=60`)
	h := hints(header, trailer, time.Unix(1e9, 0))
	if h.Remaining != pace.Some[int64](5) || h.Limit != pace.Some[int64](60) || h.Reset != pace.Some(9*time.Second) || h.Window != pace.Some(time.Minute) {
		t.Errorf("hints of our own trailers = %+v, want 5 of 60 a minute, reset in 9 s", h)
	}
	if h := hints(header, nil, time.Unix(1e9, 0)); h.Remaining != pace.Some[int64](3) || h.Reset != pace.Some(time.Second) {
		t.Errorf("hints of a proxy's header = %+v, want 3 remaining, reset in 1 s", h)
	}
	if h := hints(nil, nil, time.Time{}); h != (pace.Hints{}) {
		t.Errorf("hints of nothing = %+v, want none", h)
	}
}

// A call that an admission in this process refused was not sent: it teaches
// nothing of the server, and is not retried.
func TestRefusedByAnAdmission(t *testing.T) {
	refused := fmt.Errorf("in a chain: %w", &store.Error{Reason: store.ErrUndecided})
	var k call
	if r := k.judge(&answer{err: refused}); r.Report != (pace.Report{}) || r.Err != refused || k.mayHaveRun {
		t.Errorf("judge(%v) = %+v, may have run: %v; want Ignored and false", refused, r, k.mayHaveRun)
	}
	if r := Classify(refused); r != (pace.Report{}) {
		t.Errorf("Classify(%v) = %+v, want Ignored", refused, r)
	}
}
