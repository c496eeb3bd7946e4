package throttleenvoy_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// dialTCP serves s on a socket of this machine.
func dialTCP(b *testing.B, s rlspb.RateLimitServiceServer) *grpc.ClientConn {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0)))) // as 'throttle serve' has
	rlspb.RegisterRateLimitServiceServer(server, s)
	go server.Serve(listener)
	b.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// bare answers OK: what a call of gRPC costs by itself.
type bare struct {
	rlspb.UnimplementedRateLimitServiceServer
}

var yes = &rlspb.RateLimitResponse{
	OverallCode: rlspb.RateLimitResponse_OK,
	Statuses:    []*rlspb.RateLimitResponse_DescriptorStatus{{Code: rlspb.RateLimitResponse_OK, LimitRemaining: 5}},
}

func (bare) ShouldRateLimit(context.Context, *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	return yes, nil
}

const benchRules = `{"rules": [{"name": "user", "match": {"domains": "edge", "descriptor": "user"}, "key": "entry:user", "limits": "1000000/s"}]}`

// BenchmarkService: decisions over gRPC, beside a service that answers OK.
func BenchmarkService(b *testing.B) {
	for _, callers := range []int{1, 16} {
		for _, of := range []struct {
			name    string
			service rlspb.RateLimitServiceServer
		}{{"bare", bare{}}, {"throttle", serviceOf(b, benchRules)}} {
			b.Run(fmt.Sprintf("callers=%d/service=%s", callers, of.name), func(b *testing.B) {
				client := rlspb.NewRateLimitServiceClient(dialTCP(b, of.service))
				var n atomic.Int64
				call := func() {
					in := about(descriptor("user=" + strconv.FormatInt(n.Add(1)%10_000, 10)))
					if _, err := client.ShouldRateLimit(context.Background(), in); err != nil {
						b.Error(err)
					}
				}
				b.ReportAllocs()
				b.ResetTimer()
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						for range (b.N + i) / callers {
							call()
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

// BenchmarkShouldRateLimit: a decision without gRPC, by one of several rules.
func BenchmarkShouldRateLimit(b *testing.B) {
	for _, n := range []int{1, 1000} {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"name": "r%d", "match": {"domains": "edge", "descriptor": ["user", "plan=p%[1]d"]}, "key": "entry:user", "limits": "1000000/s"}`, i))
		}
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			s, in := serviceOf(b, `{"rules": [`+strings.Join(all, ",")+`]}`), about(descriptor(fmt.Sprintf("user=jane,plan=p%d", n/2)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.ShouldRateLimit(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSeveral: a decision about several descriptors without gRPC and without a network.
func BenchmarkSeveral(b *testing.B) {
	for _, n := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("descriptors=%d", n), func(b *testing.B) {
			s, in := serviceOf(b, benchRules), about()
			for i := range n {
				in.Descriptors = append(in.Descriptors, descriptor("user="+strconv.Itoa(i)))
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.ShouldRateLimit(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkQuota: a report of many buckets, each of them used, is charged, divided and
// answered; and the memory that a bucket takes.
func BenchmarkQuota(b *testing.B) {
	for _, n := range []int{1, 3000} {
		b.Run(fmt.Sprintf("buckets=%d", n), func(b *testing.B) {
			var users []string
			for i := range n {
				users = append(users, strconv.Itoa(i))
			}
			m := usages(5, users...)
			before := heap()
			s := quotas(b, benchRules)
			ctx, cancel := context.WithCancel(b.Context())
			w := &wire{ctx: ctx, in: make(chan *rlqspb.RateLimitQuotaUsageReports), out: make(chan *rlqspb.RateLimitQuotaResponse, 100)}
			done := make(chan error)
			go func() { done <- s.StreamRateLimitQuotas(w) }()
			report := func() {
				w.in <- m
				w.in <- &rlqspb.RateLimitQuotaUsageReports{Domain: "edge"} // which is read when the first is done
				for len(w.out) > 0 {
					<-w.out
				}
			}
			report()
			bytes := float64(heap()-before) / float64(n)
			b.ReportAllocs()
			for b.Loop() {
				report()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/bucket")
			b.ReportMetric(bytes, "B/bucket")
			cancel()
			<-done
		})
	}
}

// heap is how much is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools kept
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
