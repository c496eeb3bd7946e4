package throttleaws_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

func TestNameOf(t *testing.T) {
	table, arn := "orders", "arn:aws:dynamodb:eu-west-1:123456789012:table/orders"
	stream, streamARN := "clicks", "arn:aws:kinesis:eu-west-1:123456789012:stream/clicks"
	queue := "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"
	for _, c := range []struct {
		call throttleaws.Call
		want string
	}{
		{throttleaws.Call{Service: "DynamoDB", Operation: "PutItem", Input: &putInput{&table}}, "DynamoDB orders write"},
		{throttleaws.Call{Service: "DynamoDB", Operation: "DeleteItem", Input: &putInput{&arn}}, "DynamoDB orders write"},
		{throttleaws.Call{Service: "DynamoDB", Operation: "Query", Region: "eu-west-1", Input: &putInput{&table}}, "DynamoDB eu-west-1 orders read"},
		{throttleaws.Call{Service: "DynamoDB", Operation: "BatchWriteItem", Input: &batchInput{map[string][]int{"orders": nil}}}, "DynamoDB orders write"},
		{throttleaws.Call{Service: "DynamoDB", Operation: "BatchWriteItem", Input: &batchInput{map[string][]int{"a": nil, "b": nil}}}, "DynamoDB BatchWriteItem"},
		{throttleaws.Call{Service: "DynamoDB", Operation: "CreateTable", Input: &putInput{&table}}, "DynamoDB CreateTable"},
		{throttleaws.Call{Service: "DynamoDB", Operation: "PutItem", Input: (*putInput)(nil)}, "DynamoDB PutItem"},
		{throttleaws.Call{Service: "DynamoDB", Operation: "PutItem"}, "DynamoDB PutItem"},
		{throttleaws.Call{Service: "Kinesis", Operation: "PutRecords", Region: "us-east-1", Input: &struct{ StreamName, StreamARN *string }{&stream, nil}}, "Kinesis us-east-1 clicks PutRecords"},
		{throttleaws.Call{Service: "Kinesis", Operation: "GetRecords", Input: &struct{ StreamARN *string }{&streamARN}}, "Kinesis clicks GetRecords"},
		{throttleaws.Call{Service: "Kinesis", Operation: "CreateStream", Input: &struct{ StreamName *string }{&stream}}, "Kinesis CreateStream"},
		{throttleaws.Call{Service: "Firehose", Operation: "PutRecordBatch", Input: &struct{ DeliveryStreamName *string }{&stream}}, "Firehose clicks PutRecordBatch"},
		{throttleaws.Call{Service: "SQS", Operation: "SendMessage", Input: &struct{ QueueUrl *string }{&queue}}, "SQS jobs SendMessage"},
		{throttleaws.Call{Service: "S3", Operation: "DeleteObject", Input: &struct{ Bucket, Key *string }{&stream, &table}}, "S3 clicks DeleteObject"},
		{throttleaws.Call{Service: "S3", Operation: "DeleteBucket", Input: &struct{ Bucket *string }{&stream}}, "S3 DeleteBucket"},
		{throttleaws.Call{Service: "Kinesis", Operation: "PutItem", Region: "us-east-1", Input: &putInput{&table}}, "Kinesis us-east-1 PutItem"},
	} {
		if got := throttleaws.NameOf(c.call); got != c.want {
			t.Errorf("NameOf(%+v) = %q, want %q", c.call, got, c.want)
		}
	}
}

// TestNamesAreBounded: what no call uses is forgotten, longest unused first.
func TestNamesAreBounded(t *testing.T) {
	var made []string
	g := &throttleaws.Gates{Throttles: &throttle.Group{MaxMembers: 2, New: func(name string) *throttle.Throttle {
		made = append(made, strings.Fields(name)[1])
		return nil
	}}}
	s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
	s.serve = func(int, *smithyhttp.Request) (any, error) { return "done", nil }
	for _, table := range strings.Fields("a b a c a b") {
		if _, err := s.call(t.Context(), &putInput{&table}); err != nil {
			t.Fatal(err)
		}
	}
	if want := strings.Fields("a b c b"); !slices.Equal(made, want) {
		t.Errorf("tables a b a c a b, two remembered: made %q, want %q", made, want)
	}
}

// TestNamesInUseAreKept, however many there are.
func TestNamesInUseAreKept(t *testing.T) {
	var made []string
	g := &throttleaws.Gates{Throttles: &throttle.Group{MaxMembers: 1}, Name: func(c throttleaws.Call) string { return fmt.Sprint(c.Table()) }}
	g.Throttles.New = func(name string) *throttle.Throttle {
		made = append(made, name)
		return &throttle.Throttle{Control: &pace.Fixed{}} // lets a call be inside another
	}
	put := func(table string, inside func()) {
		s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
		s.serve = func(int, *smithyhttp.Request) (any, error) { inside(); return "done", nil }
		if _, err := s.call(t.Context(), &putInput{&table}); err != nil {
			t.Error(err)
		}
	}
	put("a", func() {
		put("b", func() { put("a", func() {}) })
		put("a", func() {})
	})
	if want := []string{"a", "b"}; !slices.Equal(made, want) {
		t.Errorf("calls inside calls: made %q, want %q", made, want)
	}
}

// TestNewThatPanics leaves no user of its name behind.
func TestNewThatPanics(t *testing.T) {
	g := &throttleaws.Gates{Throttles: &throttle.Group{MaxMembers: 1, New: func(name string) *throttle.Throttle {
		if strings.Contains(name, "bad") {
			panic("no")
		}
		return nil
	}}}
	s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
	s.serve = func(int, *smithyhttp.Request) (any, error) { return "done", nil }
	bad, good := "bad", "good"
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("New panics, and the call does not")
				}
			}()
			_, _ = s.call(t.Context(), &putInput{&bad})
		}()
	}
	if _, err := s.call(t.Context(), &putInput{&good}); err != nil {
		t.Error(err)
	}
	if n := g.Throttles.Len(); n != 1 {
		t.Errorf("after a New that panics, and another name: %d names remembered, want 1", n)
	}
}
