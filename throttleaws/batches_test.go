package throttleaws_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// The answers to batches of other services, with a result for each part, are shaped
// like those of their clients.
type (
	coder      struct{ ErrorCode *string }
	failedPart struct{ Code *string }
	statement  struct{ Error *statementError }

	putRecords     struct{ Records []coder }          // of Kinesis
	getRecords     struct{ Records []statement }      // of Kinesis, without codes
	putRecordBatch struct{ RequestResponses []coder } // of Firehose
	putEvents      struct{ Entries []coder }          // of EventBridge
	sendBatch      struct{ Failed []failedPart }      // of SQS, SNS
	deleteObjects  struct{ Errors []failedPart }      // of S3
	statements     struct{ Responses []statement }    // BatchExecuteStatement of DynamoDB
	getBatch       struct{ Responses map[string]any } // BatchGetItem of DynamoDB
	failedNames    struct{ Failed []string }          // of others
)

type (
	statementError struct{ Code statementCode }
	statementCode  string
)

// TestPartlyThrottledBatches come back as they are, and teach.
func TestPartlyThrottledBatches(t *testing.T) {
	to := func(code string) *string { return &code }
	slow := coder{to("ProvisionedThroughputExceededException")}
	for i, c := range []struct {
		result any
		want   pace.Verdict
	}{
		{&putRecords{[]coder{{}, slow}}, pace.Throttled},
		{&putRecords{[]coder{{}, {to("InternalFailure")}}}, pace.Served},
		{&putRecords{}, pace.Served},
		{&getRecords{[]statement{{}}}, pace.Served},
		{&putRecordBatch{[]coder{{}, {to("ServiceUnavailableException")}}}, pace.Throttled},
		{&putEvents{[]coder{{to("ThrottlingException")}}}, pace.Throttled},
		{&sendBatch{[]failedPart{{to("InvalidMessageContents")}, {to("RequestThrottled")}}}, pace.Throttled},
		{&sendBatch{[]failedPart{{to("InvalidMessageContents")}}}, pace.Served},
		{&deleteObjects{[]failedPart{{to("AccessDenied")}, {to("SlowDown")}}}, pace.Throttled},
		{&statements{[]statement{{}, {&statementError{"ThrottlingError"}}}}, pace.Throttled},
		{&statements{[]statement{{&statementError{"ProvisionedThroughputExceeded"}}}}, pace.Throttled},
		{&statements{[]statement{{}, {&statementError{"ConditionalCheckFailed"}}}}, pace.Served},
		{&getBatch{map[string]any{"orders": 1}}, pace.Served},
		{&failedNames{[]string{"SlowDown"}}, pace.Served},
	} {
		var learnt pace.Report
		s := &sdk{retryer: retry.NewStandard(), op: "PutRecords"}
		s.gates = quick(&throttle.Throttle{OnEvent: func(e throttle.Event) {
			if e.Kind == throttle.Ends {
				learnt = e.Report
			}
		}})
		s.serve = func(int, *smithyhttp.Request) (any, error) { return c.result, nil }
		if out, err := s.call(t.Context(), &putInput{}); out != c.result || err != nil || s.requests != 1 {
			t.Errorf("%T: %v, %v after %d requests; want it back after 1", c.result, out, err, s.requests)
		}
		if learnt.Verdict != c.want {
			t.Errorf("row %d, %T: learnt %v, want %v", i, c.result, learnt.Verdict, c.want)
		}
	}
}
