// Package xdstest is a management server of xDS for tests: the server and the cache of
// go-control-plane, as Envoy Gateway runs them.
package xdstest

import (
	"errors"
	"net"
	"testing"
	"time"

	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimitpb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
)

// Node is the node that the server has resources for.
const Node = "envoy-ratelimit"

// A Server is a management server on a port of its own.
type Server struct {
	// Addr is its address.
	Addr string
	// Requests are the requests of its clients, in their order.
	Requests chan *discoverypb.DiscoveryRequest
	// Stop ends it and its connections.
	Stop func()

	t     *testing.T
	cache cache.SnapshotCache
}

// Start starts a server without resources, until the test ends. addr is empty for any port,
// or that of a server which has ended.
func Start(t *testing.T, addr string, o ...grpc.ServerOption) *Server {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), Requests: make(chan *discoverypb.DiscoveryRequest, 1000), t: t, cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil)}
	of := grpc.NewServer(o...)
	ads := server.NewServer(t.Context(), s.cache, server.CallbackFuncs{StreamRequestFunc: func(_ int64, r *discoverypb.DiscoveryRequest) error {
		select {
		case s.Requests <- r:
		default: // nobody looks at so many
		}
		return nil
	}})
	discoverypb.RegisterAggregatedDiscoveryServiceServer(of, ads)
	ended := make(chan error, 1)
	go func() { ended <- of.Serve(l) }()
	s.Stop = func() {
		of.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(s.Stop)
	return s
}

// Set replaces all resources; name is the number of the version.
func (s *Server) Set(name string, all ...*ratelimitpb.RateLimitConfig) {
	s.t.Helper()
	resources := make([]types.Resource, 0, len(all))
	for _, one := range all {
		resources = append(resources, one)
	}
	snapshot, err := cache.NewSnapshot(name, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err == nil {
		err = s.cache.SetSnapshot(s.t.Context(), Node, snapshot)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Answered waits for an answer to a version, and returns why it was refused, or nothing.
func (s *Server) Answered(name string) (refused string) {
	s.t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case r := <-s.Requests:
			switch {
			case r.GetResponseNonce() == "": // it subscribes
			case r.GetErrorDetail() != nil:
				return r.GetErrorDetail().GetMessage()
			case r.GetVersionInfo() == name:
				return ""
			}
		case <-late:
			s.t.Fatalf("no answer to version %s in 20 s", name)
		}
	}
}

// PerHour is the configuration of a domain with a limit for each user.
func PerHour(domain string, requests uint32) *ratelimitpb.RateLimitConfig {
	return &ratelimitpb.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*ratelimitpb.RateLimitDescriptor{
		{Key: "user", RateLimit: &ratelimitpb.RateLimitPolicy{Unit: ratelimitpb.RateLimitUnit_HOUR, RequestsPerUnit: requests}},
	}}
}

// Wrong is the configuration of a domain with a limit without a unit.
func Wrong(domain string) *ratelimitpb.RateLimitConfig {
	c := PerHour(domain, 1)
	c.Descriptors[0].RateLimit.Unit = ratelimitpb.RateLimitUnit_UNKNOWN
	return c
}
