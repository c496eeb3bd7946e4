package throttleaws

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
	"github.com/throttle-go/throttle/store"
)

// report classifies a try that ended now with a result or an error.
func report(ctx context.Context, now time.Time, result any, err error) pace.Report {
	var below *throttle.Error
	var refused *store.Error
	switch {
	case err == nil && undone(result):
		return pace.Report{Verdict: pace.Throttled, Final: true}
	case err == nil:
		return pace.Report{Verdict: pace.Served}
	case throttled(err):
		return pace.Report{Verdict: pace.Throttled, Crowded: crowded(err), After: after(now, err)}
	case ctx.Err() != nil, errors.As(err, &below), errors.As(err, &refused): // tried already, or not sent
		return pace.Report{Verdict: pace.Ignored}
	case retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary:
		return pace.Report{Verdict: pace.Failed, After: after(now, err)}
	}
	return pace.Report{Verdict: pace.Served}
}

// code returns the error code of the service, or "".
func code(err error) string {
	var coded interface{ ErrorCode() string }
	if !errors.As(err, &coded) {
		return ""
	}
	return coded.ErrorCode()
}

// throttled reports whether a call was refused for load.
func throttled(err error) bool {
	c := code(err)
	if _, known := retry.DefaultThrottleErrorCodes[c]; known {
		return true
	}
	if a := answer(err); a != nil && a.StatusCode == http.StatusTooManyRequests {
		return true
	}
	return c == "TransactionCanceledException" && wantsThroughput(err)
}

// crowded reports whether too many executions of Lambda were in flight.
func crowded(err error) bool {
	var api smithy.APIError
	return code(err) == "TooManyRequestsException" && errors.As(err, &api) &&
		strings.Contains(text(field(api, "Reason")), "Concurrent")
}

// inProgress reports whether an earlier request about the same object is still
// in flight: that says nothing about the pace of others.
func inProgress(err error) bool {
	c := code(err)
	return c == "TransactionInProgressException" || c == "PriorRequestNotComplete"
}

// wantsThroughput reports whether a transaction of DynamoDB was cancelled only
// because throughput ran out. The SDK does not retry it.
func wantsThroughput(err error) bool { return slices.Contains(short(err), true) }

// short reports, for each part of a transaction that was cancelled for no other
// reason, whether throughput ran out for it; nil if there was another reason.
func short(err error) (parts []bool) {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return nil
	}
	why := field(api, "CancellationReasons")
	if why.Kind() != reflect.Slice {
		return nil
	}
	for i := range why.Len() {
		switch text(field(why.Index(i).Interface(), "Code")) {
		case "ProvisionedThroughputExceeded", "ThrottlingError":
			parts = append(parts, true)
		case "None", "":
			parts = append(parts, false)
		default:
			return nil
		}
	}
	return parts
}

// undone reports whether an answer says that a part of a batch was throttled: by what is
// left of it, or by the code of one of its parts.
func undone(result any) bool {
	for _, name := range [...]string{"UnprocessedItems", "UnprocessedKeys"} {
		if v := field(result, name); v.Kind() == reflect.Map && v.Len() > 0 {
			return true
		}
	}
	for _, p := range parts {
		list := field(result, p.list)
		if list.Kind() != reflect.Slice || !hasField(list.Type().Elem(), p.code) {
			continue
		}
		for i := range list.Len() {
			if partThrottled(list.Index(i).FieldByName(p.code)) {
				return true
			}
		}
	}
	return false
}

// parts are the lists of parts in the answers to batches, and the field that has
// the code of a part, or an error with a Code.
var parts = [...]struct{ list, code string }{
	{"Records", "ErrorCode"},          // PutRecords of Kinesis
	{"RequestResponses", "ErrorCode"}, // PutRecordBatch of Firehose
	{"Entries", "ErrorCode"},          // PutEvents of EventBridge
	{"Failed", "Code"},                // SendMessageBatch of SQS, PublishBatch of SNS
	{"Errors", "Code"},                // DeleteObjects of S3
	{"Responses", "Error"},            // BatchExecuteStatement of DynamoDB
}

// hasField reports whether t is a struct with a field of that name.
func hasField(t reflect.Type, name string) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	_, ok := t.FieldByName(name)
	return ok
}

// partThrottled reports whether the code of a part of a batch, or that of its error,
// refuses it for load: as that of a call does, or as DynamoDB's for statements and
// Firehose's do.
func partThrottled(v reflect.Value) bool {
	c := cmp.Or(text(v), text(field(v.Interface(), "Code")))
	_, known := retry.DefaultThrottleErrorCodes[c]
	return known || c == "ThrottlingError" || c == "ProvisionedThroughputExceeded" || c == "ServiceUnavailableException"
}

// answer returns the answer that err is about, or nil.
func answer(err error) *http.Response {
	var answered *smithyhttp.ResponseError
	if !errors.As(err, &answered) || answered.Response == nil || answered.Response.Response == nil || answered.Response.StatusCode == 0 {
		return nil // the SDK makes up an empty one where there was none
	}
	return answered.Response.Response
}

// dialect reads the fields of answers.
var dialect, _ = signal.Named("aws")

// after returns the wait that an answer asked for: x-amz-retry-after in
// milliseconds, or Retry-After, of whose lines the longest counts. What is believed of it
// is as everywhere: see signal.FallbackAfter.
func after(now time.Time, err error) time.Duration {
	a := answer(err)
	if a == nil {
		return 0
	}
	field := func(name string) string {
		if name == "Retry-After" {
			return strings.Join(a.Header.Values(name), ",")
		}
		return a.Header.Get(name)
	}
	return dialect.Read(a.StatusCode, field, nil, now).After.V
}
