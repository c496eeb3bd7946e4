//go:build unix

package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// scripted is an upstream that answers the requests of each connection with the texts
// that answer returns for the n-th of them, from 1, until it returns none.
func scripted(t *testing.T, answer func(r *http.Request, n int) string) (to string, connections *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	connections = new(atomic.Int64)
	serve := func(c net.Conn) {
		defer c.Close()
		in := bufio.NewReader(c)
		for n := 1; ; n++ {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			text := answer(r, n)
			last := strings.HasSuffix(text, "!") // and then the connection ends
			if _, err := io.WriteString(c, strings.TrimSuffix(text, "!")); err != nil || text == "" || last {
				return
			}
		}
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			connections.Add(1)
			go serve(c)
		}
	}()
	return "http://" + l.Addr().String(), connections
}

// wired returns the wires of a pool of one address.
func wired(t *testing.T, to string) *wires {
	t.Helper()
	p := poolOf(t, Options{}, to)
	t.Cleanup(p.Close)
	return pick(t, p).transport.(*wires)
}

// asked is what a request brings.
func asked(t *testing.T, by http.RoundTripper, method, url string, header ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range header {
		r.Header.Set(name, "x")
	}
	a, err := by.RoundTrip(r)
	if err != nil {
		return "no answer"
	}
	body, err := io.ReadAll(a.Body)
	a.Body.Close()
	broken := ""
	if err != nil {
		broken = " broken"
	}
	return fmt.Sprintf("%d %v %d %q%s %v %v", a.StatusCode, a.Header, a.ContentLength, body, broken, a.Trailer, a.Close)
}

// TestWiresAreTransport: wires return of each answer what an http.Transport does, and
// keep the connection where it does.
func TestWiresAreTransport(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: 1\r\nX: 2\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab!",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nab",
		"HTTP/1.1 200 OK\r\n\r\nuntil the end!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n2\r\nab\r\n0\r\nX-End: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n!",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
		"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n!", "HTTP/1.1 200 OK\r\nbad\r\n\r\n!", "SSH-2.0\r\n!", "!",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeader) + "\r\n\r\n!",
	} {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			if method == "HEAD" && hasBody(text) {
				continue // it must not be there: it is chance whether http.Transport sees it before its next request
			}
			got, want := "", ""
			for _, to := range []*string{&got, &want} {
				url, connections := scripted(t, func(*http.Request, int) string { return text })
				w := wired(t, url)
				by := http.RoundTripper(w)
				if to == &want {
					by = w.others
				}
				first := asked(t, by, method, url)
				*to = fmt.Sprint(first, asked(t, by, method, url) == first, connections.Load())
				w.CloseIdleConnections()
			}
			if got != want {
				t.Errorf("%s, %.70q: %.200s\nwant as http.Transport: %.200s", method, text, got, want)
			}
		}
	}
}

// hasBody reports whether anything follows the header of the last response in text;
// what closes the connection is none.
func hasBody(text string) bool {
	_, body, _ := strings.Cut(text[max(strings.LastIndex(text, "HTTP/1."), 0):], "\r\n\r\n")
	return strings.TrimSuffix(body, "!") != ""
}

const short = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"

// TestWireClosedMeanwhile: an upstream that closes a connection after an answer, without
// a word, is asked on another, also what must not be sent twice.
func TestWireClosedMeanwhile(t *testing.T) {
	url, connections := scripted(t, func(*http.Request, int) string { return short + "!" })
	w := wired(t, url)
	for i := range 3 {
		if got := asked(t, w, "POST", url); !strings.HasPrefix(got, "200 ") {
			t.Fatalf("request %d: %s", i, got)
		}
		for l := w.last(); l != nil; l = nil { // until the end has come
			for l.quiet() {
				time.Sleep(time.Millisecond)
			}
			w.keep(l)
		}
	}
	if n := connections.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
}

// TestWireLost: a request that a kept connection ends on is sent again where that does
// no harm, and one on a new connection is not.
func TestWireLost(t *testing.T) {
	for _, c := range []struct {
		method string
		header []string
		again  bool
	}{
		{"GET", nil, true},
		{"HEAD", nil, true},
		{"OPTIONS", nil, true},
		{"POST", nil, false},
		{"DELETE", nil, false},
		{"POST", []string{"Idempotency-Key"}, true},
		{"PATCH", []string{"X-Idempotency-Key"}, true},
	} {
		url, connections := scripted(t, func(r *http.Request, n int) string {
			switch {
			case n > 1 || r.URL.Path == "/never":
				return ""
			case r.Method == "HEAD":
				return "HTTP/1.1 200 OK\r\n\r\n"
			}
			return short
		})
		w := wired(t, url)
		asked(t, w, "GET", url)
		if got := asked(t, w, c.method, url, c.header...); strings.HasPrefix(got, "200 ") != c.again {
			t.Errorf("%s with %v: %s; sent again: want %v", c.method, c.header, got, c.again)
		}
		before := connections.Load()
		w.CloseIdleConnections()
		if got := asked(t, w, "GET", url+"/never"); got != "no answer" || connections.Load() != before+1 {
			t.Errorf("%s: on %d new connections; want one, and no answer", got, connections.Load()-before)
		}
	}
}

// TestWireCancelled: the end of the context ends an exchange, before its answer and in
// the middle, and its connection.
func TestWireCancelled(t *testing.T) {
	come := make(chan bool, 1)
	url, _ := scripted(t, func(r *http.Request, _ int) string {
		come <- true
		if r.URL.Path == "/body" {
			return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na"
		}
		return "HTTP/1.1 103 Early Hints\r\n\r\n"
	})
	w := wired(t, url)
	for _, path := range []string{"/header", "/body"} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/header" {
			go func() { <-come; cancel() }()
		}
		a, err := w.RoundTrip(r)
		if err == nil {
			<-come
			cancel()
			_, err = io.ReadAll(a.Body)
			a.Body.Close()
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want that it was cancelled", path, err)
		}
		if cancel(); err == nil || w.last() != nil {
			t.Errorf("%s: %v, and the connection is kept: want an error, and none", path, err)
		}
	}
}

// TestWireLeft: an answer that nobody reads to its end ends its connection.
func TestWireLeft(t *testing.T) {
	url, _ := scripted(t, func(*http.Request, int) string { return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" })
	w := wired(t, url)
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if w.last() != nil {
		t.Error("the connection is kept")
	}
}

// TestWiresSwept: wires that nobody uses are closed after a time, the others stay, and
// no timer is left behind.
func TestWiresSwept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &wires{others: new(http.Transport)}
		var far []net.Conn
		for range 3 {
			a, b := net.Pipe()
			far = append(far, b)
			w.keep(&wire{Conn: a, of: w})
			time.Sleep(idleTimeout / 3)
		}
		open := func() (n int) {
			for _, c := range far {
				_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
				if _, err := c.Read(make([]byte, 1)); err != io.EOF {
					n++
				}
			}
			return n
		}
		for _, want := range []int{2, 1, 0} {
			synctest.Wait()
			w.mu.Lock()
			timed := w.timer != nil
			w.mu.Unlock()
			if got := open(); got != want || timed != (want > 0) {
				t.Errorf("%d are open, want %d; timer %v", got, want, timed)
			}
			time.Sleep(idleTimeout / 3)
		}
	})
}
