package throttleaws

import (
	"context"
	"reflect"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// Call is one call of an operation.
type Call struct {
	// Service and Operation are named as in the SDK: "DynamoDB", "PutItem".
	Service, Operation string
	// Region is the AWS region. It may be empty.
	Region string
	// Input is the input of the operation, such as a *dynamodb.PutItemInput.
	Input any
}

// Table returns the DynamoDB table that the call is about; empty if there is
// none, or more than one, or if this is not a call of DynamoDB.
func (c Call) Table() string {
	if c.Service != "DynamoDB" {
		return ""
	}
	name := text(field(c.Input, "TableName"))
	if items := field(c.Input, "RequestItems"); name == "" && items.Kind() == reflect.Map && items.Len() == 1 {
		name = items.MapKeys()[0].String()
	}
	return tableOf(name)
}

// dynamoUses are the operations that use the throughput of a table. Reads and
// writes have throughput of their own.
var dynamoUses = map[string]string{
	"GetItem": "read", "BatchGetItem": "read", "Query": "read", "Scan": "read",
	"PutItem": "write", "UpdateItem": "write", "DeleteItem": "write", "BatchWriteItem": "write",
	"TransactGetItems": "read", "TransactWriteItems": "write",
}

// resources are the fields of inputs that name what has a limit of its own, in the order in which
// they are looked for: the shards of a stream, a queue, the prefixes of a bucket.
var resources = map[string][]string{
	"Firehose": {"DeliveryStreamName"},
	"Kinesis":  {"StreamName", "StreamARN"},
	"S3":       {"Bucket"},
	"SQS":      {"QueueUrl"},
}

// resource returns the stream, queue or bucket that the call is about; empty if there is none, or if
// the call creates, describes or deletes it, as these share a limit of the account.
func (c Call) resource() string {
	for _, verb := range [...]string{"Create", "Describe", "DeleteBucket", "DeleteDeliveryStream", "DeleteQueue", "DeleteStream"} {
		if strings.HasPrefix(c.Operation, verb) {
			return ""
		}
	}
	for _, name := range resources[c.Service] {
		if s := text(field(c.Input, name)); s != "" {
			return s[strings.LastIndexByte(s, '/')+1:] // of an ARN or URL the name
		}
	}
	return ""
}

// NameOf returns the name of the limit that a call shares, if [Gates.Name] is
// nil: in DynamoDB, the reads or the writes of its table; in Kinesis, Firehose,
// SQS and S3, the calls of its operation to its stream, queue or bucket;
// everywhere else, the calls of its operation. Regions are apart. With [Gates.Units] all calls that
// use the capacity of tables have the name of the service and region.
func NameOf(c Call) string {
	parts := []string{c.Service, c.Region, c.Operation}
	if use, table := dynamoUses[c.Operation], c.Table(); use != "" && table != "" {
		parts = []string{c.Service, c.Region, table, use}
	} else if of := c.resource(); of != "" {
		parts = []string{c.Service, c.Region, of, c.Operation}
	}
	if c.Region == "" {
		parts = append(parts[:1], parts[2:]...)
	}
	return strings.Join(parts, " ")
}

type inputKey struct{}

// input keeps what an operation was called with, which later steps do not see,
// and asks for the capacity consumed, if units is set.
type input struct{ units bool }

func (input) ID() string { return inputID }

func (i input) HandleInitialize(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	ctx = middleware.WithStackValue(ctx, inputKey{}, in.Parameters)
	if i.units && uses(callOf(ctx)) != "" {
		in.Parameters = asking(in.Parameters)
	}
	return next.HandleInitialize(ctx, in)
}

func callOf(ctx context.Context) Call {
	return Call{
		Service:   awsmiddleware.GetServiceID(ctx),
		Operation: awsmiddleware.GetOperationName(ctx),
		Region:    awsmiddleware.GetRegion(ctx),
		Input:     middleware.GetStackValue(ctx, inputKey{}),
	}
}

// field returns a field of a struct or of what points to one. The types of
// services are read by their shape: importing them would add their modules for
// every user.
func field(v any, name string) reflect.Value {
	s := reflect.ValueOf(v)
	if s.Kind() == reflect.Pointer {
		s = s.Elem()
	}
	if s.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return s.FieldByName(name)
}

// text returns a string or what a *string points to.
func text(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.String {
		return ""
	}
	return v.String()
}
