// Jetstream consumes a stream of NATS JetStream through a worker.Worker: paced,
// bounded, retried, each message acknowledged when its work is done.
//
//	go run . -url nats://127.0.0.1:4222 -stream ORDERS -consumer writer
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/worker"
)

// window bounds the messages that are here and not acknowledged.
const window = 500

func main() {
	url := flag.String("url", nats.DefaultURL, "of the server")
	stream := flag.String("stream", "ORDERS", "to consume")
	name := flag.String("consumer", "writer", "durable name, which keeps the place in the stream")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	write := func(_ context.Context, data []byte) error { // put yours here
		fmt.Printf("%s\n", data)
		return nil
	}
	if err := run(ctx, *url, *stream, *name, write); err != nil {
		log.Fatalf("jetstream: %v", err)
	}
}

// run consumes until ctx ends. What is in work then gets 10 s to be done; the
// server delivers again what is not acknowledged.
func run(ctx context.Context, url, stream, name string, write func(context.Context, []byte) error) error {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", url, err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable:       name,
		AckWait:       time.Minute, // longer than a message waits and rests here
		MaxAckPending: window,
	})
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s: %w", name, stream, err)
	}
	var held sync.Map // of messages that are not acknowledged
	w := newWorker(write, held.Delete)
	a := w.Assign(context.WithoutCancel(ctx), stream, -1)
	defer a.Lost()
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		held.Store(m, true)
		_ = a.Put(ctx, m) // waits for room, which holds back the server (backpressure)
	}, jetstream.PullMaxMessages(window/2))
	if err != nil {
		return fmt.Errorf("consuming %s: %w", stream, err)
	}
	<-ctx.Done()
	consuming.Drain()
	<-consuming.Closed()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = w.Drain(drain)
	for m := range held.Range { // delivered again at once, not after AckWait
		err = errors.Join(err, m.(jetstream.Msg).Nak())
	}
	return err
}

// newWorker returns a Worker that acknowledges what write has done, and calls
// acked with it.
func newWorker(write func(context.Context, []byte) error, acked func(any)) *worker.Worker[jetstream.Msg] {
	return &worker.Worker[jetstream.Msg]{
		Handle: func(ctx context.Context, m jetstream.Msg) error {
			// The server shall not deliver it again while it is in work.
			if err := errors.Join(m.InProgress(), write(ctx, m.Data())); err != nil {
				return err
			}
			if err := m.DoubleAck(ctx); err != nil {
				return throttle.Failed(err) // write must be idempotent
			}
			acked(m)
			return nil
		},
		Window:      window,
		MaxInFlight: 64,
		Tries:       5,
		Timeout:     10 * time.Second,
		Dead: func(_ context.Context, m jetstream.Msg, err error) error {
			log.Printf("given up: %s: %v", m.Subject(), err)
			acked(m)
			return m.TermWithReason(err.Error())
		},
	}
}
