package envoy

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/certificate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// serving is a role on a socket of this machine, and a connection to it.
type serving struct {
	rlspb.RateLimitServiceClient
	healthpb.HealthClient
	addr string
	log  *bytes.Buffer
	stop func()
	done chan error
}

func serve(t *testing.T, c Config, as credentials.TransportCredentials) *serving {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &serving{addr: l.Addr().String(), log: new(bytes.Buffer), done: make(chan error, 1)}
	c.Listener, c.Log = l, slog.New(slog.NewTextHandler(s.log, nil))
	if c.Control == nil {
		c.Control = &admit.Control{Limit: limit.Limit{Count: 2, Period: time.Hour}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.done <- New(c).Serve(ctx) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(as))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s.RateLimitServiceClient, s.HealthClient = rlspb.NewRateLimitServiceClient(conn), healthpb.NewHealthClient(conn)
	return s
}

var question = &rlspb.RateLimitRequest{Domain: "edge", Descriptors: []*descriptorpb.RateLimitDescriptor{
	{Entries: []*descriptorpb.RateLimitDescriptor_Entry{{Key: "user", Value: "jane"}}},
}}

func (s *serving) ask(t *testing.T) string {
	t.Helper()
	out, err := s.ShouldRateLimit(t.Context(), question)
	if err != nil {
		return status.Code(err).String()
	}
	return out.GetOverallCode().String()
}

func (s *serving) check(t *testing.T, name string) string {
	t.Helper()
	out, err := s.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
	if err != nil {
		return status.Code(err).String()
	}
	return out.GetStatus().String()
}

// TestDrain: the health turns red first, calls are answered until the delay is over, and
// neither a connection at rest nor a watch of the health holds up the end.
func TestDrain(t *testing.T) {
	s := serve(t, Config{Delay: 300 * time.Millisecond, Timeout: 10 * time.Second}, insecure.NewCredentials())
	for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
		if got := s.check(t, name); got != "SERVING" {
			t.Errorf("health of %q: %s", name, got)
		}
	}
	watch, err := s.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.ask(t) + s.ask(t) + s.ask(t); got != "OKOKOVER_LIMIT" {
		t.Errorf("answers: %s", got)
	}
	began := time.Now()
	s.stop()
	for got := "SERVING"; got == "SERVING"; {
		out, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got = out.GetStatus().String()
	}
	if got := s.check(t, "ratelimit") + " " + s.ask(t); got != "NOT_SERVING OVER_LIMIT" {
		t.Errorf("during the delay: %s", got)
	}
	if err := <-s.done; err != nil || time.Since(began) < 300*time.Millisecond || time.Since(began) > 5*time.Second {
		t.Errorf("ended after %v: %v", time.Since(began), err)
	}
}

// TestDrainCuts: calls that take longer than the timeout are cut, and that is said.
func TestDrainCuts(t *testing.T) {
	asked := make(chan struct{})
	hangs := store.Func(func(ctx context.Context, _ []limit.Ask, _ []limit.Decision) (bool, error) {
		close(asked)
		<-ctx.Done()
		return false, ctx.Err()
	})
	s := serve(t, Config{Timeout: 50 * time.Millisecond, Control: &admit.Control{Store: hangs, Limit: limit.Limit{Count: 1, Period: time.Hour}}}, insecure.NewCredentials())
	answer := make(chan string, 1)
	go func() { answer <- s.ask(t) }()
	<-asked
	s.stop()
	if err := <-s.done; err == nil || !strings.Contains(err.Error(), "1 call was in flight still after 50ms of draining") {
		t.Errorf("Serve = %v", err)
	}
	if got := <-answer; got != "Unavailable" {
		t.Errorf("the call that was cut: %s", got)
	}
}

// TestGuard: a call that panics is answered, and so is the next; what is malformed is
// logged once.
func TestGuard(t *testing.T) {
	calls := 0
	panics := store.Func(func(_ context.Context, _ []limit.Ask, d []limit.Decision) (bool, error) {
		if calls++; calls == 1 {
			panic("a bug")
		}
		d[0].OK = true
		return true, nil
	})
	s := serve(t, Config{Timeout: time.Second, Control: &admit.Control{Store: panics, Limit: limit.Limit{Count: 1, Period: time.Hour}}}, insecure.NewCredentials())
	if got := s.ask(t) + " " + s.ask(t); got != "Internal OK" {
		t.Errorf("a panic, and the next call: %s", got)
	}
	for range 3 {
		if _, err := s.ShouldRateLimit(t.Context(), new(rlspb.RateLimitRequest)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a malformed request: %v", err)
		}
	}
	s.stop()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
	if log := s.log.String(); strings.Count(log, "a call panicked") != 1 || strings.Count(log, "cannot be decided") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

// TestTLS: where there are authorities, callers must show a certificate; once a minute the
// log says why one was refused.
func TestTLS(t *testing.T) {
	now, dir := time.Now(), t.TempDir()
	cert, key := clitest.Certificate(t, now.Add(-time.Hour), now.Add(time.Hour))
	for name, text := range map[string][]byte{"cert": cert, "key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := &certificate.Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "cert")}
	if err := files.Load(now); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		as        credentials.TransportCredentials
		want, log string
	}{
		{insecure.NewCredentials(), "Unavailable", "first record does not look like a TLS handshake"},
		{credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}), "Unavailable", "client didn't provide a certificate"},
		{credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}), "OK", ""},
	} {
		s := serve(t, Config{Files: files, Timeout: time.Second}, x.as)
		probe, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		probe.Close()
		if got := s.ask(t); got != x.want {
			t.Errorf("as %v: %s, want %s", x.as.Info(), got, x.want)
		}
		_ = s.ask(t) // which is logged no more
		s.stop()
		if err := <-s.done; err != nil {
			t.Error(err)
		}
		if log := s.log.String(); !strings.Contains(log, x.log) || strings.Count(log, "a connection is refused") != min(len(x.log), 1) {
			t.Errorf("as %v: log %q, want once: %s", x.as.Info(), log, x.log)
		}
	}
}

// TestNoGRPC: the log says once a minute what a caller speaks that cannot be answered, as
// an Envoy whose cluster lacks http2_protocol_options; gRPC is none of it.
func TestNoGRPC(t *testing.T) {
	for _, x := range []struct{ first, want string }{
		{"POST /envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit HTTP/1.1\r\n\r\n", "HTTP/1.1, not gRPC; write http2_protocol_options"},
		{"\x16\x03\x01\x00\x05hello of TLS, which is longer", "it speaks TLS, and the listener has none"},
		{"\x00 something else, which is long enough", "it does not speak gRPC"},
		{"", ""},
	} {
		s := serve(t, Config{Timeout: time.Second}, insecure.NewCredentials())
		for range 2 {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			if x.first != "" {
				_, _ = c.Write([]byte(x.first))
				_, _ = io.Copy(io.Discard, c) // until it is refused
			}
			c.Close()
		}
		if got := s.ask(t); got != "OK" {
			t.Errorf("after %q: %s", x.first, got)
		}
		s.stop()
		if err := <-s.done; err != nil {
			t.Error(err)
		}
		if log := s.log.String(); !strings.Contains(log, x.want) || strings.Count(log, "a connection is refused") != min(len(x.want), 1) {
			t.Errorf("%q: log %q, want once: %s", x.first, log, x.want)
		}
	}
}

// TestBound: connections beyond the bound wait until one is closed, and not beyond the
// end of the socket.
func TestBound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := bound(l, 1)
	for range 2 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn)
	accept := func() {
		c, _ := b.Accept()
		accepted <- c
	}
	go accept()
	select {
	case <-accepted:
		t.Fatal("a second connection beside the first")
	case <-time.After(20 * time.Millisecond):
	}
	first.Close()
	first.Close()
	if c := <-accepted; c == nil {
		t.Fatal("no second connection after the first")
	}
	go accept()
	b.Close()
	if c := <-accepted; c != nil {
		t.Fatal("a connection after the end")
	}
}
