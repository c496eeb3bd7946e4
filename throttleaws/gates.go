package throttleaws

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// Gates paces calls, with a throttle.Throttle for each limit, and retries them
// in place of the SDK. One Gates may serve many clients, and should serve all
// that use one AWS account.
//
// Retried, subject to the Throttle's policy:
//
//   - throttled calls, by their error code and not their status: the codes of
//     [retry.DefaultThrottleErrorCodes], status 429, and a DynamoDB transaction
//     that was cancelled only because throughput ran out.
//     LimitExceededException, which in many services is a quota that does not
//     refill, is tried three times.
//   - failures that the SDK would retry (500, 502, 503, 504, timeouts, broken
//     connections, a wrong clock), within the Throttle's Retries and Budget,
//     unless Repeat forbids it.
//
// A request whose body cannot be rewound is sent once. No retry comes before the
// x-amz-retry-after of the answer. All other answers are returned at once;
// errors are returned as [*Error]. A batch of which a part was throttled is
// returned unchanged and counts as throttled: where DynamoDB left something undone
// (UnprocessedItems, UnprocessedKeys), or a part has a throttling code, as in
// PutRecords of Kinesis and the batches of Firehose, EventBridge, SQS, SNS, S3 and
// PartiQL. Firehose's is ServiceUnavailableException.
//
// The zero value is ready. A Gates is safe for concurrent use; it must not be
// copied, nor its fields changed, after first use.
type Gates struct {
	// Name returns the name under which a call shares one Throttle with others.
	// If nil, the function [NameOf].
	Name func(Call) string
	// Throttles holds the Throttle of each name, see [throttle.Group]. Its New
	// makes them, and is the place to set hooks for logs and metrics. Several
	// Gates may share a Group. If nil, this Gates has its own, of
	// Throttles with the four fields that follow and the [pace.AWSBudget] for
	// failures, and zero in all else.
	Throttles *throttle.Group
	// Tries, Retries, Backoff and MaxWait are the fields of that name of the
	// Throttles that these Gates make themselves: see there for what zero means.
	// If Throttles is set, they do not count: its New makes the Throttles.
	Tries   int
	Retries int
	Backoff pace.Backoff
	MaxWait time.Duration
	// Repeat reports whether a call that failed, and may have been executed,
	// may be retried. If nil, all may, as with the SDK.
	Repeat func(Call) bool
	// Units paces the calls of DynamoDB by the capacity units that they consume.
	// A call that uses the capacity of tables is then subject to a scope for
	// each table or global index that it uses, reads and writes apart: "orders
	// read", "orders/by-date write", see [throttle.Need]. Its cost there is
	// estimated before it is sent, by the size of the items in it and what such
	// calls consumed before, and settled by the ConsumedCapacity of the answer:
	// an input without ReturnConsumedCapacity is sent with TOTAL. All such calls
	// of a region share one Throttle, "DynamoDB eu-west-1", unless Name says
	// otherwise; its NewScope may set the capacities, with a cost of [PerUnit]
	// for a unit. If false, each call counts 1 and its input is sent unchanged.
	Units bool
	// Warn is called when one try of a call got several answers: then the HTTP
	// client, or another middleware, retries underneath, and the retries
	// multiply. If nil, the first such call is logged by [slog.Default].
	Warn func(c Call, answers int)

	book   book           // of costs, with Units
	once   sync.Once      // sets own.New
	own    throttle.Group // if there are no Throttles
	warned sync.Once
}

const (
	retryID   = "Retry" // of the SDK's middleware, which others are placed by
	inputID   = "ThrottleInput"
	sendingID = "ThrottleSending"
	presignID = "PresignHTTPRequest"
)

// Add puts g into the stack of an operation, in place of the SDK's retries: add
// it to aws.Config.APIOptions, or to the APIOptions of a client. Adding it twice
// has the effect of adding it once; a second Gates is an error. Where a request
// is only presigned, nothing is added.
func (g *Gates) Add(stack *middleware.Stack) error {
	found, ok := stack.Finalize.Get(retryID)
	if a, ours := found.(*attempts); ours {
		if a.gates != g {
			return errors.New("throttleaws: the client has another Gates already; add one only")
		}
		return nil
	}
	if _, presigned := stack.Finalize.Get(presignID); !ok && presigned {
		return nil
	}
	a := &attempts{gates: g, once: once(found)}
	err := errors.Join(stack.Initialize.Add(input{g.Units}, middleware.After), stack.Deserialize.Add(sending{}, middleware.After))
	if err != nil {
		return err
	}
	if !ok {
		return stack.Finalize.Add(a, middleware.Before)
	}
	_, err = stack.Finalize.Swap(retryID, a)
	return err
}

// once returns the SDK's middleware for attempts, set to one. The rest of it
// stays: it clones the request, corrects the clock and measures.
func once(old middleware.FinalizeMiddleware) *retry.Attempt {
	return retry.NewAttemptMiddleware(aws.NopRetryer{}, smithyhttp.RequestCloner, func(a *retry.Attempt) {
		if old, ok := old.(*retry.Attempt); ok {
			a.LogAttempts, a.OperationMeter = old.LogAttempts, old.OperationMeter
			a.ClientSkew, a.DisableClockSkewCorrection = old.ClientSkew, old.DisableClockSkewCorrection
		}
	})
}

// attempts sends calls through the Throttle of their name.
type attempts struct {
	gates *Gates
	once  *retry.Attempt
}

var _ middleware.FinalizeMiddleware = (*attempts)(nil)

// ID returns the ID of the middleware that it replaces.
func (*attempts) ID() string { return retryID }

// HandleFinalize makes one call, with its retries.
func (a *attempts) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	c := &call{Call: callOf(ctx), attempts: a, in: in, next: next}
	name := a.gates.nameOf(c.Call)
	m := a.gates.enter(name)
	defer m.Leave()
	// The options are for this Throttle only, not for one underneath.
	err := m.Throttle().DoResult(a.gates.charge(ctx, c), func(context.Context) throttle.Result { return c.try(ctx) })
	return c.out, c.metadata, c.end(name, err)
}

// charge returns ctx with the scopes that c is subject to, after those that the
// caller named.
func (g *Gates) charge(ctx context.Context, c *call) context.Context {
	if !g.Units {
		return ctx
	}
	if c.asks = asksOf(c.Call); c.asks == nil {
		return ctx
	}
	o := throttle.OptionsOf(ctx)
	o.Needs = append(slices.Clip(o.Needs), g.book.needs(c.asks)...)
	return throttle.WithOptions(ctx, o)
}

// nameOf returns the name of the Throttle of c.
func (g *Gates) nameOf(c Call) string {
	switch {
	case g.Name != nil:
		return g.Name(c)
	case g.Units && uses(c) != "":
		return strings.TrimSpace(c.Service + " " + c.Region)
	}
	return NameOf(c)
}

func (g *Gates) enter(name string) *throttle.Member { return g.Group().Enter(name) }

// Group returns the Group that holds the Throttles of g: Throttles, or the one of
// its own.
func (g *Gates) Group() *throttle.Group {
	if g.Throttles != nil {
		return g.Throttles
	}
	g.once.Do(func() {
		g.own.New = func(string) *throttle.Throttle {
			return &throttle.Throttle{
				Tries: g.Tries, Retries: g.Retries, Backoff: g.Backoff, MaxWait: g.MaxWait, Budget: pace.AWSBudget,
			}
		}
	})
	return &g.own
}

func (g *Gates) repeats(c Call) bool { return g.Repeat == nil || g.Repeat(c) }

func (g *Gates) warn(c Call, answers int) {
	if g.Warn != nil {
		g.Warn(c, answers)
		return
	}
	g.warned.Do(func() {
		slog.Warn("throttleaws: another layer retries underneath; switch its retries off", "call", c.Service+" "+c.Operation, "answers", answers)
	})
}
