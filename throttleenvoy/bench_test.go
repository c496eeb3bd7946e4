package throttleenvoy_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

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
				client := rlspb.NewRateLimitServiceClient(dial(b, of.service))
				var n atomic.Int64
				b.ReportAllocs()
				if callers > 1 {
					b.SetParallelism(callers / 2) // times the processors of the table in the docs
				}
				call := func() {
					in := about(descriptor("user=" + strconv.FormatInt(n.Add(1)%10_000, 10)))
					if _, err := client.ShouldRateLimit(context.Background(), in); err != nil {
						b.Error(err)
					}
				}
				if callers == 1 {
					for b.Loop() {
						call()
					}
				} else {
					b.RunParallel(func(p *testing.PB) {
						for p.Next() {
							call()
						}
					})
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

// BenchmarkShouldRateLimit: a decision without gRPC.
func BenchmarkShouldRateLimit(b *testing.B) {
	s, in := serviceOf(b, benchRules), about(descriptor("user=jane"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ShouldRateLimit(context.Background(), in); err != nil {
			b.Fatal(err)
		}
	}
}
