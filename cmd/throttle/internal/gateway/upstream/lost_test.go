//go:build unix

package upstream

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// silent is an upstream that answers each request but those of /end, at which all of its
// connections end, and it with them if last.
func silent(t *testing.T, last bool) (to string, asked *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	asked = new(atomic.Int64)
	serve := func(c net.Conn) {
		defer c.Close()
		for in := bufio.NewReader(c); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			asked.Add(1)
			if r.URL.Path == "/end" {
				if last {
					l.Close()
				}
				return
			}
			if _, err := c.Write([]byte(short)); err != nil {
				return
			}
		}
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go serve(c)
		}
	}()
	return "http://" + l.Addr().String(), asked
}

// get sends a request for a path, and returns what became of it.
func get(ctx context.Context, t *testing.T, w *wires, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.RoundTrip(r)
}

// keepSome has wires keep n connections.
func keepSome(t *testing.T, w *wires, url string, n int) {
	t.Helper()
	var open []*http.Response
	for range n {
		a, err := get(t.Context(), t, w, url)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, a)
	}
	for _, a := range open {
		for b := make([]byte, 8); ; {
			if _, err := a.Body.Read(b); err != nil {
				break
			}
		}
	}
	if len(w.idle) != n {
		t.Fatalf("%d connections are kept, want %d", len(w.idle), n)
	}
}

// TestWireLostTwice: a request that makes the upstream close its connection is not sent
// on each that is kept.
func TestWireLostTwice(t *testing.T) {
	url, asked := silent(t, false)
	w := wired(t, url)
	keepSome(t, w, url, 5)
	if a, err := get(t.Context(), t, w, url+"/end"); err == nil {
		t.Error("an answer", a.StatusCode)
	}
	if n := asked.Load() - 5; n != 2 || len(w.idle) != 4 {
		t.Errorf("it was sent %d times, and %d connections are left; want 2 and 4", n, len(w.idle))
	}
}

// TestWireLostIsSent: where a request was written, and then nobody can be connected to,
// the error does not say that it is unsent.
func TestWireLostIsSent(t *testing.T) {
	url, _ := silent(t, true)
	w := wired(t, url)
	keepSome(t, w, url, 1)
	_, err := get(t.Context(), t, w, url+"/end")
	if err == nil || errors.As(err, new(*Unsent)) {
		t.Errorf("%v, want an error that is not Unsent", err)
	}
	if _, err := get(t.Context(), t, w, url); !errors.As(err, new(*Unsent)) {
		t.Errorf("%v, want one that is", err)
	}
}

// TestWireOfEndedContext: a request whose context has ended is not sent.
func TestWireOfEndedContext(t *testing.T) {
	url, asked := silent(t, false)
	w := wired(t, url)
	keepSome(t, w, url, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := get(ctx, t, w, url); !errors.Is(err, context.Canceled) || asked.Load() != 1 || len(w.idle) != 1 {
		t.Errorf("%v, %d requests, %d kept; want canceled, 1 and 1", err, asked.Load(), len(w.idle))
	}
}

// TestWireUnwritable: a request that nobody can be sent is its caller's error, and is not
// tried again.
func TestWireUnwritable(t *testing.T) {
	url, asked := silent(t, false)
	w := wired(t, url)
	keepSome(t, w, url, 2)
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "xn--0ü"
	if _, err := w.RoundTrip(r); !errors.As(err, new(*Callers)) || asked.Load() != 2 || len(w.idle) != 1 {
		t.Errorf("%v, %d requests, %d kept; want an error of Callers, 2 and 1", err, asked.Load(), len(w.idle))
	}
}
