package throttlegrpc

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
)

// flaky is a server that allows 50 a second, and in an outage answers with each of
// says in turn.
type flaky struct {
	mu     sync.Mutex
	bucket limit.State
	says   []*status.Status
	down   bool
	calls  int
	served int
}

func (f *flaky) call(context.Context) error {
	time.Sleep(50 * time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.down {
		return f.says[f.calls%len(f.says)].Err()
	}
	var d limit.Decision
	f.bucket, d = limit.Take(f.bucket, time.Now(), limit.Ask{Limit: limit.Limit{Count: 50, Period: time.Second}, N: 1})
	if !d.OK {
		return status.Error(codes.ResourceExhausted, "too many")
	}
	f.served++
	return nil
}

func (f *flaky) set(down bool) (served int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	served, f.served, f.down = f.served, 0, down
	return served
}

// An INTERNAL or UNKNOWN in an outage is no service: between refusals it does not make
// each of them a limit that was reached.
func TestLimitAfterAnOutageOfMixedCodes(t *testing.T) {
	later, err := status.New(codes.Unavailable, "down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range [][]*status.Status{
		{later, status.New(codes.Internal, "down")},
		{status.New(codes.ResourceExhausted, "down"), status.New(codes.Unknown, "down")},
	} {
		bubble.Test(t, func(t *testing.T) {
			f := &flaky{says: says}
			api := throttle.Throttle{Classify: Classify, OnEvent: func(throttle.Event) {}}
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer func() { stop(); all.Wait() }()
			for range 16 {
				all.Go(func() {
					for ctx.Err() == nil {
						_ = api.Do(ctx, f.call)
					}
				})
			}
			time.Sleep(3 * time.Minute)
			f.set(true)
			time.Sleep(time.Minute)
			f.set(false)
			time.Sleep(2 * time.Minute)
			f.set(false)
			time.Sleep(time.Minute)
			served := f.set(false)
			t.Logf("%v, %v: %d served in the third minute after an outage of one, at 50 a second", says[0].Code(), says[1].Code(), served)
			if served < 1500 {
				t.Errorf("%v, %v: %d served in the third minute after an outage of one, at 50 a second; want 1500 at least", says[0].Code(), says[1].Code(), served)
			}
		})
	}
}
