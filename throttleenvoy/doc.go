// Package throttleenvoy is Envoy's rate limit service: Envoy asks it about each request
// by a call of gRPC, with descriptors that its configuration makes of the request.
//
//	service := throttleenvoy.Service{Control: &admit.Control{Rules: &live}}
//	server := grpc.NewServer()
//	rlspb.RegisterRateLimitServiceServer(server, &service)
//
// A [QuotaService] assigns token buckets to Envoy instead, so that it decides by itself:
// Envoy's rate limit quota service.
//
// The rules are those of package rules whose match has domains or a descriptor. Package
// admit has the admission control behind it, which a throttlehttp.Handler may share: it is
// subject to the other rules of the same file.
//
// 'throttle serve' runs it as a program, see docs/envoy.md.
package throttleenvoy
