package egress

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestBodies: beyond the bound of all bodies one is streamed, and its request is sent once.
func TestBodies(t *testing.T) {
	e := before(t, API{}, status(429))
	if e.bodies.Store(maxBodies - 4); e.send("POST", "/api/", strings.NewReader("12345")).mark() != "" {
		t.Error("a request whose body there was no room for was retried")
	}
	if n := e.bodies.Load(); n != maxBodies-4 {
		t.Errorf("%d bytes are left", n-maxBodies+4)
	}
	if a := e.send("POST", "/api/", strings.NewReader("1234"), waitField, "1ms"); a.mark() != "wait" {
		t.Errorf("a request whose body there was room for was answered %d %q", a.StatusCode, a.mark())
	}
}

// TestRequestTrailers: what follows a body that is streamed reaches the API.
func TestRequestTrailers(t *testing.T) {
	e := before(t, API{}, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Seen", r.Trailer.Get("X-Sum"))
	})
	r, _ := http.NewRequestWithContext(t.Context(), "POST", e.url+"/api/", chunked("hello"))
	r.Trailer = http.Header{"X-Sum": {"5d41"}}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.read(a).Header.Get("X-Seen"); got != "5d41" {
		t.Errorf("the API saw the trailer %q", got)
	}
}

// TestGone: a caller that goes away leaves the line, also behind its body.
func TestGone(t *testing.T) {
	e := before(t, API{Rate: limit.Limit{Count: 1, Period: time.Hour}, MaxWait: 100 * time.Hour}, status(200))
	e.bodyIn = time.Millisecond // once the body is here it bounds nothing
	e.send("GET", "/api/", nil)
	group, _ := e.Observed("api")
	waiting := func() (n int) {
		for _, t := range group.All() {
			n = t.Waiting()
		}
		return n
	}
	for _, body := range []string{"", "hello"} {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "POST", e.url+"/api/", strings.NewReader(body))
		ended := make(chan error, 1)
		go func() {
			_, err := http.DefaultTransport.RoundTrip(r)
			ended <- err
		}()
		soon(t, "it does not wait", func() bool { return waiting() == 1 })
		select {
		case err := <-ended:
			t.Errorf("a request with the body %q ended: %v", body, err)
		case <-time.After(20 * time.Millisecond):
		}
		cancel()
		<-ended
		soon(t, "it waits still", func() bool { return waiting() == 0 })
	}
}

// TestBrokenBody: where a body that is streamed breaks off, the API may have executed what came
// before.
func TestBrokenBody(t *testing.T) {
	began := make(chan struct{})
	e := before(t, API{}, func(_ http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, 3))
		close(began)
		io.Copy(io.Discard, r.Body)
	})
	c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST /api/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
	<-began
	io.WriteString(c, "none\r\n")
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != 400 || a.Header.Get(generated) != "bad-body" || a.Header.Get(mayHaveRun) != "true" {
		t.Errorf("answered %d, %v; want 400, which may have run", a.StatusCode, a.Header)
	}
}

// soon waits for something that comes soon, and else says what does not.
func soon(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.After(10 * time.Second); !done(); {
		select {
		case <-late:
			t.Fatal(what)
		case <-time.After(time.Millisecond):
		}
	}
}
