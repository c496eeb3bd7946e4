package throttleenvoy_test

import (
	"context"
	"fmt"
	"net"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttleenvoy"
)

// Envoy asks the service about each request; here a client does in its place.
func ExampleService() {
	perUser, err := rules.Parse([]byte(`{"rules": [
		{"name": "per-user", "match": {"domains": "edge", "descriptor": "user"}, "key": "entry:user", "limits": "2/min"}
	]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	live := new(rules.Live)
	live.Swap(perUser)
	service := throttleenvoy.Service{Control: &admit.Control{Rules: live}}

	server := grpc.NewServer()
	rlspb.RegisterRateLimitServiceServer(server, &service)
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go server.Serve(listener)
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	envoy := rlspb.NewRateLimitServiceClient(conn)
	for range 3 {
		answer, err := envoy.ShouldRateLimit(context.Background(), &rlspb.RateLimitRequest{
			Domain:      "edge",
			Descriptors: []*descriptorpb.RateLimitDescriptor{{Entries: []*descriptorpb.RateLimitDescriptor_Entry{{Key: "user", Value: "jane"}}}},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		one := answer.Statuses[0]
		fmt.Println(answer.OverallCode, one.CurrentLimit.Name, one.LimitRemaining)
	}
	// Output:
	// OK per-user 1
	// OK per-user 0
	// OVER_LIMIT per-user 0
}

// Envoy reports what its buckets have used, and is assigned what it may use; here a client
// does in its place.
func ExampleQuotaService() {
	perUser, err := rules.Parse([]byte(`{"rules": [
		{"name": "per-user", "match": {"domains": "edge", "descriptor": "user"}, "key": "entry:user", "limits": "100/s"}
	]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	live := new(rules.Live)
	live.Swap(perUser)
	service := throttleenvoy.QuotaService{Rules: live}

	server := grpc.NewServer(grpc.MaxRecvMsgSize(throttleenvoy.MaxQuotaMessage))
	rlqspb.RegisterRateLimitQuotaServiceServer(server, &service)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go server.Serve(listener)
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	envoy, err := rlqspb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = envoy.Send(&rlqspb.RateLimitQuotaUsageReports{
		Domain: "edge",
		BucketQuotaUsages: []*rlqspb.RateLimitQuotaUsageReports_BucketQuotaUsage{
			{BucketId: &rlqspb.BucketId{Bucket: map[string]string{"user": "jane"}}, NumRequestsAllowed: 1},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := envoy.Recv()
	if err != nil {
		fmt.Println(err)
		return
	}
	assigned := answer.BucketAction[0].GetQuotaAssignmentAction()
	bucket := assigned.RateLimitStrategy.GetTokenBucket()
	fmt.Println(bucket.TokensPerFill.Value, "in", bucket.FillInterval.AsDuration(), "for", assigned.AssignmentTimeToLive.AsDuration())
	// Output:
	// 75 in 1s for 15s
}
