package egress

import (
	"errors"
	"net"
	"testing"
	"time"
)

// TestBounded: a connection waits until another one has ended, and Close ends an Accept that
// waits for room.
func TestBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBounded(l, 1, time.Minute)
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 2 {
		c, err := b.Accept()
		if err != nil || len(b.room) != 1 {
			t.Fatalf("Accept: %v, with %d connections", err, len(b.room))
		}
		c.Close()
		c.Close() // makes room once
		if len(b.room) != 0 {
			t.Fatalf("%d connections after Close", len(b.room))
		}
	}
	if _, err := b.Accept(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.Accept()
		ended <- err
	}()
	b.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v, want %v", err, net.ErrClosed)
	}
	b.Close() // again
}
