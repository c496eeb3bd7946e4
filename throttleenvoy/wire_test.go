package throttleenvoy_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
)

// dial serves s on a connection in memory.
func dial(t testing.TB, s rlspb.RateLimitServiceServer) *grpc.ClientConn {
	t.Helper()
	listener, server := bufconn.Listen(1<<20), grpc.NewServer()
	rlspb.RegisterRateLimitServiceServer(server, s)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///wire", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// raw sends bytes as they are, and reads messages as usual.
type raw struct{ encoding.CodecV2 }

func (c raw) Marshal(v any) (mem.BufferSlice, error) {
	if data, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(data)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// TestHostile: whatever is sent gets an answer or an error, and the next request is
// answered as ever.
func TestHostile(t *testing.T) {
	conn := dial(t, serviceOf(t, `{"rules": [
		{"name": "a", "match": {"descriptor": ["a"]}, "key": "descriptor+entry:a", "limits": "9/h"},
		{"name": "all", "match": {"domains": "*"}, "key": "domain+descriptor", "limits": "9999/s"}
	]}`))
	encode := func(in *rlspb.RateLimitRequest) []byte {
		data, err := proto.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	huge := descriptor("a=")
	huge.Entries[0].Value = strings.Repeat("%=,", 1<<18)
	many := make([]*descriptorpb.RateLimitDescriptor, 10_000)
	for i := range many {
		many[i] = descriptor("a=1")
	}
	good := encode(about(descriptor("a=1")))
	for _, x := range []struct {
		name string
		data []byte
		want codes.Code
	}{
		{"no message", nil, codes.InvalidArgument},
		{"a tag without end", []byte{0x80}, codes.Internal},
		{"a length beyond the end", []byte{0x0a, 0xff, 0x01, 'x'}, codes.Internal},
		{"a domain that is not UTF-8", []byte("\x0a\x02\xff\xfe"), codes.Internal},
		{"a value that is not UTF-8", []byte(strings.Replace(string(good), "\x12\x011", "\x12\x01\xff", 1)), codes.Internal},
		{"unknown fields", append([]byte("\xfa\x7f\x01x"), good...), codes.OK},
		{"an empty descriptor", encode(about(new(descriptorpb.RateLimitDescriptor))), codes.OK},
		{"an empty entry", encode(about(descriptor(""))), codes.OK},
		{"signs with a meaning, 768 KiB of them", encode(about(huge)), codes.OK},
		{"more than a message may have", encode(about(huge, huge, huge, huge, huge, huge)), codes.ResourceExhausted},
		{"control characters", encode(about(descriptor("a=\x00\r\n\u202e"), descriptor("\x00=1"))), codes.OK},
		{"ten thousand descriptors", encode(about(many...)), codes.InvalidArgument},
		{"as many descriptors as may be", encode(about(many[:100]...)), codes.OK},
	} {
		out := new(rlspb.RateLimitResponse)
		err := conn.Invoke(t.Context(), rlspb.RateLimitService_ShouldRateLimit_FullMethodName, x.data, out, grpc.ForceCodecV2(raw{encoding.GetCodecV2("proto")}))
		if status.Code(err) != x.want {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
		for _, h := range out.GetResponseHeadersToAdd() {
			if len(h.GetValue()) > 1000 {
				t.Errorf("%s: %s has %d bytes", x.name, h.GetKey(), len(h.GetValue()))
			}
		}
		if err := conn.Invoke(t.Context(), rlspb.RateLimitService_ShouldRateLimit_FullMethodName, about(descriptor("next="+x.name)), out); err != nil || out.GetOverallCode() != rlspb.RateLimitResponse_OK {
			t.Errorf("after %s: %v, %v", x.name, out, err)
		}
	}
}

// TestTogether: callers at the same time pass as often as the limit allows, though what
// is refused with another descriptor is refunded.
func TestTogether(t *testing.T) {
	client := rlspb.NewRateLimitServiceClient(dial(t, serviceOf(t, `{"rules": [
		{"name": "none", "match": {"descriptor": "none"}, "limits": "0/s"},
		{"name": "all", "match": {"descriptor": "all"}, "limits": "100/h"}
	]}`)))
	var passed atomic.Int64
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for range 50 {
				in := about(descriptor("all=1"))
				if i%2 == 0 {
					in = about(descriptor("all=1"), descriptor("none=1"))
				}
				out, err := client.ShouldRateLimit(t.Context(), in)
				if err != nil {
					t.Error(err)
				} else if out.GetOverallCode() == rlspb.RateLimitResponse_OK {
					passed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if n := passed.Load(); n != 100 {
		t.Errorf("%d of 400 passed, want 100", n)
	}
}
