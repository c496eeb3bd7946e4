package throttlegrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlegrpc"
)

// serve is a server with a limit, on a socket of this machine.
func serve(limited *throttlegrpc.Server) (address string, stop func()) {
	server := grpc.NewServer(
		grpc.UnaryInterceptor(limited.Unary),
		grpc.StreamInterceptor(limited.Stream),
	)
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go server.Serve(listener)
	return listener.Addr().String(), server.Stop
}

// What the server has no room for waits; nothing of that surfaces.
func ExampleClient() {
	address, stop := serve(&throttlegrpc.Server{
		Control: &admit.Control{Limit: limit.Limit{Count: 50, Period: time.Second, Burst: 1}}, // for each address
	})
	defer stop()

	paced := throttlegrpc.Client{Throttles: &throttle.Group{New: func(name string) *throttle.Throttle {
		return &throttle.Throttle{Tries: 10} // and hooks, a pace, lanes
	}}}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(paced.Unary),
		grpc.WithStreamInterceptor(paced.Stream),
		grpc.WithDisableRetry(), // one layer retries
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)
	for range 3 {
		answer, err := client.Check(context.Background(), new(healthpb.HealthCheckRequest))
		fmt.Println(answer.GetStatus(), err)
	}
	// Output:
	// SERVING <nil>
	// SERVING <nil>
	// SERVING <nil>
}

// A wait that is too long for the context fails at once, with all that is known.
func ExampleClient_deadline() {
	address, stop := serve(&throttlegrpc.Server{
		Control: &admit.Control{Limit: limit.Limit{Count: 1, Period: time.Hour}, Name: "hourly"},
	})
	defer stop()

	var paced throttlegrpc.Client
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(paced.Unary),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := healthpb.NewHealthClient(conn)
	for err == nil {
		_, err = client.Check(ctx, new(healthpb.HealthCheckRequest))
	}
	var gaveUp *throttle.Error
	if errors.As(err, &gaveUp) {
		fmt.Println(status.Code(err), "-", gaveUp.Reason)
		fmt.Println("may have run:", gaveUp.MayHaveRun)
		fmt.Println("too long a wait:", gaveUp.Wait > 59*time.Minute)
	}
	// Output:
	// DeadlineExceeded - context deadline exceeded
	// may have run: false
	// too long a wait: true
}

// Two calls an hour for each customer, whose key was checked before.
func ExampleServer() {
	address, stop := serve(&throttlegrpc.Server{
		Control: &admit.Control{Limit: limit.Limit{Count: 2, Period: time.Hour}},
		Request: func(ctx context.Context, in any, q admit.Request) admit.Request {
			q.Key = "customer-42" // from ctx, where the authentication put it
			return q
		},
	})
	defer stop()

	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), new(healthpb.HealthCheckRequest))
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
}
