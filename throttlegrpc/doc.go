// Package throttlegrpc is gRPC on both sides of a rate limit.
//
// [Client] is for callers. Its two interceptors pace the calls of each target,
// understand what servers say (RESOURCE_EXHAUSTED, RetryInfo, pushback), and
// make again what may be made again:
//
//	var paced Client
//	conn, err := grpc.NewClient("dns:///api.example.com:443",
//		grpc.WithUnaryInterceptor(paced.Unary),
//		grpc.WithStreamInterceptor(paced.Stream),
//		grpc.WithDisableRetry(), // one layer retries
//		...)
//
// [Server] is for owners. Its interceptors refuse by RESOURCE_EXHAUSTED what is
// above a limit, and say when to come again:
//
//	limited := Server{
//		Limit: limit.Limit{Count: 100, Period: time.Minute}, // of each
//		Key:   PeerIP,                          // address
//	}
//	server := grpc.NewServer(
//		grpc.UnaryInterceptor(limited.Unary),
//		grpc.StreamInterceptor(limited.Stream))
package throttlegrpc
