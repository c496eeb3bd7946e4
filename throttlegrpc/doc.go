// Package throttlegrpc does rate limiting over gRPC, for both sides of a limit.
//
// [Client] is for callers. Its two interceptors pace the calls of each target,
// read what servers say (RESOURCE_EXHAUSTED, RetryInfo, pushback), and retry
// what may be retried:
//
//	var paced throttlegrpc.Client
//	conn, err := grpc.NewClient("dns:///api.example.com:443",
//		grpc.WithUnaryInterceptor(paced.Unary),
//		grpc.WithStreamInterceptor(paced.Stream),
//		grpc.WithDisableRetry(), // one layer retries
//		...)
//
// [Server] is for owners. Its interceptors refuse with RESOURCE_EXHAUSTED what
// is above a limit, and say when to come again:
//
//	limited := throttlegrpc.Server{Control: &admit.Control{
//		Limit: limit.Limit{Count: 100, Period: time.Minute}, // for each address
//	}}
//	server := grpc.NewServer(
//		grpc.UnaryInterceptor(limited.Unary),
//		grpc.StreamInterceptor(limited.Stream))
//
// Both are ready as zero values. Package throttle has the Throttle behind a
// Client, package admit the admission control of a Server; throttlehttp is the
// same for HTTP, and may share the Control.
package throttlegrpc
