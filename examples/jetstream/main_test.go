package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/throttle-go/throttle"
)

// serve starts a server with a stream of n messages.
func serve(t *testing.T, n int) (url string, stream jetstream.Stream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := js.Publish(t.Context(), "orders", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	return s.ClientURL(), stream
}

// Each message is written once, or given up, and acknowledged, also across a
// restart of the program.
func TestRun(t *testing.T) {
	const n = 2000
	url, stream := serve(t, n)
	var mu sync.Mutex
	written, unlucky := map[string]int{}, map[string]bool{}
	for _, upTo := range []int{n / 2, n - 1} { // two runs of the program
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		err := run(ctx, url, "ORDERS", "writer", func(_ context.Context, data []byte) error {
			mu.Lock()
			defer mu.Unlock()
			key := string(data)
			switch {
			case key == "7":
				return errors.New("not an order")
			case strings.HasSuffix(key, "5") && !unlucky[key]:
				unlucky[key] = true
				return throttle.Failed(errors.New("connection reset"))
			}
			if written[key]++; len(written) >= upTo {
				end()
			}
			return nil
		})
		if end(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		want := 1
		if i == 7 {
			want = 0
		}
		if got := written[fmt.Sprint(i)]; got != want {
			t.Errorf("message %d is written %d times, want %d", i, got, want)
		}
	}
	consumer, err := stream.Consumer(t.Context(), "writer")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := consumer.Info(t.Context()); err != nil || info.NumPending != 0 || info.NumAckPending != 0 {
		t.Errorf("%v: %d messages pending and %d not acknowledged, want none", err, info.NumPending, info.NumAckPending)
	}
}

// Bad input is one clear line.
func TestBadInput(t *testing.T) {
	url, _ := serve(t, 0)
	for want, at := range map[string][2]string{
		"connecting to nats://127.0.0.1:1: ": {"nats://127.0.0.1:1", "ORDERS"},
		"consumer writer of stream NONE: ":   {url, "NONE"},
	} {
		err := run(t.Context(), at[0], at[1], "writer", nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("run = %v, want %q and why", err, want)
		}
	}
}
