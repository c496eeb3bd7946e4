package throttleenvoy_test

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/throttle-go/throttle/throttleenvoy"
)

// dialQuota serves s on a connection in memory, until end is called.
func dialQuota(t testing.TB, s *throttleenvoy.QuotaService) (conn *grpc.ClientConn, end func()) {
	t.Helper()
	listener, server := bufconn.Listen(1<<20), grpc.NewServer(grpc.MaxRecvMsgSize(throttleenvoy.MaxQuotaMessage), grpc.WaitForHandlers(true))
	rlqspb.RegisterRateLimitQuotaServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///wire", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	return conn, sync.OnceFunc(func() {
		server.Stop()
		<-served
		conn.Close()
	})
}

// usages are reports of buckets USER, each with n requests.
func usages(n uint64, users ...string) *rlqspb.RateLimitQuotaUsageReports {
	m := &rlqspb.RateLimitQuotaUsageReports{Domain: "edge"}
	for _, user := range users {
		m.BucketQuotaUsages = append(m.BucketQuotaUsages, &rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: &rlqspb.BucketId{Bucket: map[string]string{"user": user}}, NumRequestsAllowed: n,
		})
	}
	return m
}

// TestQuotaWire: over gRPC, many buckets of one report are answered in bundles, and the end of
// the server ends all streams and what served them.
func TestQuotaWire(t *testing.T) {
	before := runtime.NumGoroutine()
	s := quotas(t, quotaRules)
	conn, end := dialQuota(t, s)
	defer end()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var streams []rlqspb.RateLimitQuotaService_StreamRateLimitQuotasClient
	for range 3 {
		stream, err := rlqspb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	var users []string
	for i := range 2500 {
		users = append(users, strings.Repeat("x", i%50)+string(rune('a'+i/50)))
	}
	for _, stream := range streams {
		if err := stream.Send(usages(1, users...)); err != nil {
			t.Fatal(err)
		}
		told, messages := 0, 0
		for ; told < len(users); messages++ {
			m, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			told += len(m.GetBucketAction())
		}
		if messages != 3 {
			t.Errorf("%d buckets were answered in %d messages, want 3", told, messages)
		}
	}
	if n := s.Stats(); n.Streams != 3 || n.Buckets != 7500 || n.Limits != 2500 || n.Allowed != 7500 || n.Refused != 0 {
		t.Errorf("%+v", n)
	}
	end()
	for _, stream := range streams {
		for err := error(nil); err == nil; {
			_, err = stream.Recv()
		}
	}
	if s.Stats().Streams != 0 {
		t.Errorf("after the end: %+v", s.Stats())
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			text := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, and %d before:\n%s", runtime.NumGoroutine(), before, text[:runtime.Stack(text, true)])
		}
	}
}

// TestQuotaHostile: whatever is sent ends at most its own stream; another one is answered
// as ever.
func TestQuotaHostile(t *testing.T) {
	s := quotas(t, quotaRules)
	conn, end := dialQuota(t, s)
	defer end()
	encode := func(in *rlqspb.RateLimitQuotaUsageReports) []byte {
		data, err := proto.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	entries := map[string]string{}
	for i := range throttleenvoy.MaxEntries + 1 {
		entries[strings.Repeat("k", i+1)] = ""
	}
	wide := usages(1, "a")
	wide.BucketQuotaUsages[0].BucketId.Bucket = entries
	good, huge, twice := encode(usages(1, "a")), encode(usages(1<<63, "b", "b")), encode(usages(7, "c", "c", "c"))
	for _, x := range []struct {
		name string
		data []byte
		want codes.Code // of the stream; OK: it goes on
	}{
		{"a tag without end", []byte{0x80}, codes.Internal},
		{"no domain", encode(new(rlqspb.RateLimitQuotaUsageReports)), codes.InvalidArgument},
		{"a value that is not UTF-8", []byte(strings.Replace(string(good), "\x12\x01a", "\x12\x01\xff", 1)), codes.Internal},
		{"more entries than may be", encode(wide), codes.OK},
		{"an id that is too long", encode(usages(1, strings.Repeat("x", throttleenvoy.MaxBucketID))), codes.OK},
		{"counts beyond all bounds", huge, codes.OK},
		{"a bucket three times", twice, codes.OK},
		{"control characters", encode(usages(1, "\x00\r\n\u202e", "=,%")), codes.OK},
		{"more than a message may have", encode(usages(1, strings.Repeat("x", throttleenvoy.MaxQuotaMessage))), codes.ResourceExhausted},
	} {
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
			rlqspb.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName, grpc.ForceCodecV2(raw{encoding.GetCodecV2("proto")}))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(x.data); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		_ = stream.SendMsg(encode(usages(1, "after "+x.name))) // it may have ended
		out := new(rlqspb.RateLimitQuotaResponse)
		if err := stream.RecvMsg(out); status.Code(err) != x.want {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
		_ = stream.CloseSend() // it may have ended
	}
	if n := s.Stats(); n.Allowed < 1<<40 || n.Refused != 2 {
		t.Errorf("%+v", n)
	}
}
