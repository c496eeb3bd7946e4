package throttleaws_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle/throttleaws"
)

// server answers the n-th request, from 1.
type server func(n int, req *smithyhttp.Request) (any, error)

// sdk is a client of one operation, with the SDK's own middleware for attempts.
type sdk struct {
	gates   *throttleaws.Gates // nil: the SDK as it is
	retryer aws.Retryer
	op      string
	serve   server
	body    string
	opaque  bool                        // the body cannot be rewound
	end     middleware.Handler          // nil: serve, without a network
	login   func(context.Context) error // gets credentials; nil: nothing

	requests int
	sent     any // the input of the last call, as it was serialized
}

// call makes one call as a service's client does.
func (s *sdk) call(ctx context.Context, input any) (any, error) {
	stack := middleware.NewStack(s.op, smithyhttp.NewStackRequest)
	if err := stack.Finalize.Add(retry.NewAttemptMiddleware(s.retryer, smithyhttp.RequestCloner), middleware.Before); err != nil {
		return nil, err
	}
	if err := stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("GetIdentity", s.identify), middleware.After); err != nil {
		return nil, err
	}
	if err := stack.Serialize.Add(s, middleware.After); err != nil {
		return nil, err
	}
	if err := stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("OperationDeserializer", deserialize), middleware.After); err != nil {
		return nil, err
	}
	if s.gates != nil {
		if err := s.gates.Add(stack); err != nil {
			return nil, err
		}
	}
	ctx = awsmiddleware.SetOperationName(awsmiddleware.SetServiceID(ctx, "DynamoDB"), s.op)
	end := s.end
	if end == nil {
		end = middleware.HandlerFunc(func(_ context.Context, in any) (any, middleware.Metadata, error) {
			s.requests++
			out, err := s.serve(s.requests, in.(*smithyhttp.Request))
			return out, middleware.Metadata{}, err
		})
	}
	out, _, err := middleware.DecorateHandler(end, stack).Handle(ctx, input)
	if err != nil {
		err = &smithy.OperationError{ServiceID: "DynamoDB", OperationName: s.op, Err: err}
	}
	return out, err
}

// identify gets credentials before each attempt, as a service's client does.
func (s *sdk) identify(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	if s.login != nil {
		if err := s.login(ctx); err != nil {
			return middleware.FinalizeOutput{}, middleware.Metadata{}, err
		}
	}
	return next.HandleFinalize(ctx, in)
}

// deserialize takes the answer as the result.
func deserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, metadata, err := next.HandleDeserialize(ctx, in)
	out.Result = out.RawResponse
	return out, metadata, err
}

func (*sdk) ID() string { return "OperationSerializer" }

func (s *sdk) HandleSerialize(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (middleware.SerializeOutput, middleware.Metadata, error) {
	if s.sent = in.Parameters; s.body != "" {
		req := in.Request.(*smithyhttp.Request)
		var err error
		if s.opaque {
			req, err = req.SetStream(struct{ *opaque }{&opaque{strings.NewReader(s.body)}})
		} else {
			req, err = req.SetStream(strings.NewReader(s.body))
		}
		if err != nil {
			return middleware.SerializeOutput{}, middleware.Metadata{}, err
		}
		in.Request = req
	}
	return next.HandleSerialize(ctx, in)
}

// opaque reads and does nothing else.
type opaque struct{ r *strings.Reader }

func (o *opaque) Read(p []byte) (int, error) { return o.r.Read(p) }

// answer is an error as a service's client makes it of an answer.
func answer(status int, err error, header ...string) error {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: h}}, Err: err}
}

func coded(code string) error { return &smithy.GenericAPIError{Code: code, Message: "no"} }

// tooFast is shaped like DynamoDB's ProvisionedThroughputExceededException.
type tooFast struct {
	smithy.GenericAPIError
	ThrottlingReasons []reason
}

type reason struct{ Reason, Resource *string }

func (t *tooFast) Error() string { return t.Code + ": " + t.Message }

func throughput(why ...string) error {
	e := &tooFast{GenericAPIError: smithy.GenericAPIError{Code: "ProvisionedThroughputExceededException", Message: "no"}}
	for _, w := range why {
		e.ThrottlingReasons = append(e.ThrottlingReasons, reason{aws.String(w), aws.String("arn:orders")})
	}
	return e
}

// putInput is shaped like dynamodb.PutItemInput, batchInput and batchOutput like
// those of BatchWriteItem.
type (
	putInput    struct{ TableName *string }
	batchInput  struct{ RequestItems map[string][]int }
	batchOutput struct{ UnprocessedItems map[string][]int }
)

// failure is what a call returned, which must be an *Error.
func failure(t *testing.T, err error) *throttleaws.Error {
	t.Helper()
	var e *throttleaws.Error
	if !errors.As(err, &e) {
		t.Fatalf("the call returned %v, want an *Error", err)
	}
	return e
}
