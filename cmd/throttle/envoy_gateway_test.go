//go:build unix

package main

import (
	"fmt"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/throttle-go/throttle/cmd/throttle/internal/xdstest"
)

// ofGateway is the configuration that Envoy Gateway sends for two rules of a route: a limit
// for each user, and one for each address of a network.
func ofGateway(ofUser, ofAddress uint32) *ratelimitpb.RateLimitConfig {
	type descriptor = ratelimitpb.RateLimitDescriptor
	const domain, route = "default/eg/http", "httproute/default/web/rule/0/match/0/*"
	perHour := func(n uint32) *ratelimitpb.RateLimitPolicy {
		return &ratelimitpb.RateLimitPolicy{Unit: ratelimitpb.RateLimitUnit_HOUR, RequestsPerUnit: n}
	}
	return &ratelimitpb.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*descriptor{{Key: route, Value: route, Descriptors: []*descriptor{
		{Key: "rule-0-match-0", RateLimit: perHour(ofUser)},
		{Key: "rule-1-match-0", Value: "rule-1-match-0", Descriptors: []*descriptor{
			{Key: "masked_remote_address", Value: "127.0.0.0/8", Descriptors: []*descriptor{{Key: "remote_address", RateLimit: perHour(ofAddress)}}},
		}},
	}}}}
}

// TestEnvoyGateway: a real Envoy with rate limits as Envoy Gateway writes them, a management
// server as it runs one, and the program between them.
func TestEnvoyGateway(t *testing.T) {
	t.Parallel()
	s := xdstest.Start(t, "")
	s.Set("1", ofGateway(2, 1))
	f := frontBy(t, "testdata/envoy_gateway.yaml", fmt.Sprintf("xds: {server: %q, node: %s}", s.Addr, xdstest.Node))
	defer f.serve()()
	if refused := s.Answered("1"); refused != "" {
		t.Fatalf("refused: %s", refused)
	}
	eventually(t, "Envoy asks the service", func() bool { return f.answers("first") })
	check := func(when string, n int, want string, fields ...string) {
		t.Helper()
		if got := f.statuses(n, "/", fields...); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("a user", 3, "200 200 429", "x-user", "jane")
	check("an address", 2, "200 429", "x-plan", "free")
	check("requests of another kind", 2, "200 200", "x-plan", "paid")
	s.Set("2", ofGateway(3, 9))
	if refused := s.Answered("2"); refused != "" {
		t.Fatalf("refused: %s", refused)
	}
	check("the user, with one more", 2, "200 429", "x-user", "jane")
	check("the address, with more", 2, "200 200", "x-plan", "free")
	s.Stop()
	check("without the server", 2, "200 200", "x-user", "john")
	s = xdstest.Start(t, s.Addr)
	s.Set("1") // of a server that has begun again, and whose policies are gone
	if refused := s.Answered("1"); refused != "" {
		t.Fatalf("refused: %s", refused)
	}
	check("without a policy", 3, "200 200 200", "x-user", "jane")
}
