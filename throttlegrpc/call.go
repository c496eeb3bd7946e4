package throttlegrpc

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
)

// call is one call on its way through a Client, in one goroutine at a time.
type call struct {
	name    string // of the Throttle
	opts    []grpc.CallOption
	repeats bool // it may be executed twice
	policy  bool // gRPC would repeat it by itself

	tries      int
	mayHaveRun bool
}

// answer is how a try ended.
type answer struct {
	err             error
	header, trailer metadata.MD
	left            bool // it may have left this process
	begun           bool // it may have been executed in part
	once            bool // what was sent cannot be sent again
}

// unary sends the call once.
func (k *call) unary(invoke func(opts ...grpc.CallOption) error) *answer {
	var a answer
	var to peer.Peer
	known := false // what gRPC says by the options
	a.err = invoke(append(k.opts[:len(k.opts):len(k.opts)],
		grpc.Header(&a.header), grpc.Trailer(&a.trailer), grpc.Peer(&to),
		grpc.OnFinish(func(error) { known = true }))...)
	a.left = to.Addr != nil || !known
	return &a
}

// next returns the context of the next try, which tells the server the number
// of tries before it.
func (k *call) next(ctx context.Context) context.Context {
	if k.tries++; k.tries == 1 {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "grpc-previous-rpc-attempts", strconv.Itoa(k.tries-1))
}

// judge classifies a try by its answer.
func (k *call) judge(a *answer) throttle.Result {
	var below *throttle.Error
	var refused *store.Error
	if errors.As(a.err, &below) || errors.As(a.err, &refused) { // a Client further down has retried, or it was not sent
		return throttle.Result{Err: a.err}
	}
	r, reset := pace.Report{Verdict: pace.Served}, false
	if st := status.Convert(a.err); a.err != nil {
		r, reset = report(st, metadata.Join(a.header, a.trailer)), wasReset(st)
	}
	if r.Verdict != pace.Failed {
		r.Hints = hints(a.header, a.trailer, time.Now())
	}
	mayRun := r.Verdict != pace.Throttled || reset
	if r.Verdict > pace.Served && mayRun && !k.repeats || a.once {
		r.Final = true
	}
	if a.begun || a.left && mayRun {
		k.mayHaveRun = true
	}
	return throttle.Result{Report: r, Err: a.err}
}

// end turns what the Throttle returned into what the call returns.
func (k *call) end(err error) error {
	gaveUp, ok := err.(*throttle.Error) // not As: one inside is not ours
	if !ok {
		return err
	}
	gaveUp.MayHaveRun = k.mayHaveRun
	return &giveUp{gaveUp}
}
