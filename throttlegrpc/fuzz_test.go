package throttlegrpc

import (
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// Whatever a server sends, no wait is negative or beyond what is believed, only
// what asks for patience is waited for, and the error can be printed.
func FuzzReport(f *testing.F) {
	for _, d := range []proto.Message{after(time.Second), after(-1), after(1 << 62)} {
		raw, err := proto.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int32(codes.ResourceExhausted), "", "google.rpc.RetryInfo", raw, "100", `"a";r=1;t=2`)
	}
	f.Add(int32(codes.Unavailable), "larger than max", "google.rpc.QuotaFailure", []byte{10, 3, 10, 1, 'a'}, "-1", "")
	f.Fuzz(func(t *testing.T, code int32, text, kind string, detail []byte, push, limits string) {
		st := status.FromProto(&spb.Status{Code: code, Message: text, Details: []*anypb.Any{
			{TypeUrl: "type.googleapis.com/" + kind, Value: detail},
		}})
		md := metadata.Pairs(pushback, push, "ratelimit", limits)
		r := report(st, md)
		waits := r.Verdict == pace.Throttled || r.Verdict == pace.Failed
		if r.After < 0 || r.After > signal.MaxAfter || !waits && r.After != 0 || r.Verdict == pace.Served && r.Final {
			t.Errorf("report(%v, %v) = %+v", st.Proto(), md, r)
		}
		_ = hints(nil, md, time.Unix(0, 0))
		_ = (&giveUp{&throttle.Error{Reason: throttle.ErrTries, Err: st.Err()}}).Error()
	})
}
