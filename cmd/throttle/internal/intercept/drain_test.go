package intercept

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestShutdown: requests in flight end as they would, by HTTP/1.1 and HTTP/2, and their
// connections after them; what idles is closed, and a new CONNECT is refused.
func TestShutdown(t *testing.T) {
	arrived, release := make(chan string, 9), make(chan bool)
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- r.Proto
			<-release
		}
		fmt.Fprint(w, "done")
	})
	e := serve(t, &Proxy{Next: next}, "api.example.com")
	idle := e.secure("api.example.com:443", "api.example.com")
	if got := roundTrip(t, idle, "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n"); !strings.Contains(got, "done") {
		t.Fatal(got)
	}
	answers := make(chan string, 2)
	clients := []*http.Client{e.client(false), e.client(true)}
	for _, c := range clients {
		go func() { answers <- get(t, c, "https://api.example.com/slow") }()
		<-arrived
	}
	ended := make(chan error, 1)
	go func() { ended <- e.end(10 * time.Second) }()
	until(t, "draining", func() bool {
		select {
		case <-e.draining:
			return true
		default:
			return false
		}
	})
	if _, a := e.ask("CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n"); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new CONNECT: %v", a)
	}
	close(release)
	for range clients {
		if got := <-answers; got != "200 done" {
			t.Errorf("a request in flight: %s", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("what idled: %v, want EOF", err)
	}
	until(t, "no connection", func() bool { return e.open.counts() == [states]int{} })
}

// TestFresh: a connection whose first request comes after Shutdown has begun is served.
func TestFresh(t *testing.T) {
	e := serve(t, &Proxy{}, "api.example.com")
	c := e.secure("api.example.com:443", "api.example.com")
	ended := make(chan error, 1)
	go func() { ended <- e.end(10 * time.Second) }()
	<-e.draining
	if got := roundTrip(t, c, "GET /first HTTP/1.1\r\nHost: api.example.com\r\n\r\n"); !strings.Contains(got, "/first") || !strings.Contains(got, "close: true") {
		t.Errorf("a first request in the drain: %s", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestCut: at the end of the context requests are cut, and so are tunnels and upgraded
// connections; the error counts the requests.
func TestCut(t *testing.T) {
	addr, conns := service(t)
	arrived := make(chan bool)
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		if r.URL.Path == "/upgrade" {
			c, in, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			io.Copy(c, in)
			return
		}
		<-r.Context().Done()
	})
	e := serve(t, &Proxy{Next: next, Tunnel: listOf(t, addr)}, "api.example.com")
	tunnel := e.connect(addr)
	up := <-conns
	defer up.Close()
	upgraded, stuck := e.secure("api.example.com:443", "api.example.com"), e.secure("api.example.com:443", "api.example.com")
	io.WriteString(upgraded, "GET /upgrade HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	<-arrived
	in := bufio.NewReader(upgraded)
	if a, err := http.ReadResponse(in, nil); err != nil || a.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(a, err)
	}
	io.WriteString(upgraded, "moves")
	if got, err := io.ReadAll(io.LimitReader(in, 5)); string(got) != "moves" {
		t.Errorf("after an upgrade: %q, %v", got, err)
	}
	io.WriteString(stuck, "GET /stuck HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
	<-arrived
	if n := e.open.counts(); n[active] != 1 || n[tunneled] != 2 {
		t.Errorf("counts = %v, want 1 active and 2 tunneled", n)
	}
	if err := e.end(50 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "still on 1 connections") {
		t.Errorf("Shutdown = %v, want that one was in flight", err)
	}
	for name, r := range map[string]io.Reader{"tunnel": tunnel, "upgraded": in, "stuck": stuck, "service": up} {
		if _, err := io.Copy(io.Discard, r); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: is open still: %v", name, err)
		}
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Errorf("a second Shutdown: %v", err)
	}
}

// TestShutdownRaces: while callers come and go, a Shutdown loses no request whose CONNECT was
// answered before, and leaves no connection.
func TestShutdownRaces(t *testing.T) {
	addr, conns := service(t)
	go func() { // until the service ends
		for up := range conns {
			up.Close()
		}
	}()
	e := serve(t, &Proxy{Tunnel: listOf(t, addr)}, "api.example.com")
	var callers sync.WaitGroup
	served := make(chan bool, 1<<16)
	for range 8 {
		callers.Go(func() {
			for {
				c := e.dial()
				to := "api.example.com:443"
				if len(served)%4 == 3 {
					to = addr
				}
				fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: a\r\n\r\n", to)
				a, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, 39)), &http.Request{Method: http.MethodConnect})
				switch {
				case err != nil || a.StatusCode != http.StatusOK: // it has ended
					c.Close()
					return
				case to == addr:
					c.Close()
				default:
					inside := tls.Client(c, e.trust("api.example.com"))
					if got := roundTrip(t, inside, "GET / HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "200 OK") {
						t.Errorf("a request after CONNECT: %s", got)
					}
					c.Close()
				}
				served <- true
			}
		})
	}
	for range 40 {
		<-served
	}
	if err := e.end(20 * time.Second); err != nil {
		t.Error(err)
	}
	callers.Wait()
	until(t, "no connection", func() bool { return e.open.counts() == [states]int{} })
}

// TestEndsWhileDialling: a connection that is not taken yet as the Proxy ends is closed and
// not served later.
func TestEndsWhileDialling(t *testing.T) {
	p := &Proxy{Authority: authority(t, time.Now(), "api.example.com")}
	p.begin()
	c, no := p.enter(Target{"api.example.com", 443})
	if no != nil {
		t.Fatal(no)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if near, _ := net.Pipe(); c.of.hold(c, near) || c.Conn != nil {
		t.Error("it is held after the end")
	}
	if n := p.open.counts(); n != [states]int{} {
		t.Errorf("counts = %v", n)
	}
}

// TestStreams: a connection of HTTP/2 has as many requests at once as MaxStreams, and no
// more: a client makes more connections.
func TestStreams(t *testing.T) {
	arrived, release := make(chan string, 16), make(chan bool)
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			arrived <- r.RemoteAddr
			<-release
		}
	})
	e := serve(t, &Proxy{Next: next, MaxStreams: 2}, "api.example.com")
	client := e.client(true)
	if got := get(t, client, "https://api.example.com/"); got != "200 " { // the client knows the bound by now
		t.Fatal(got)
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if got := get(t, client, "https://api.example.com/held"); got != "200 " {
				t.Error(got)
			}
		})
	}
	at := map[string]int{} // requests, by connection
	for range 10 {
		at[<-arrived]++
	}
	for addr, n := range at {
		if n > 2 {
			t.Errorf("%d requests at once on the connection of %s, want 2 at most", n, addr)
		}
	}
	close(release)
	all.Wait()
}

// TestHeader: a header that is too long, or does not end, is bounded inside as outside.
func TestHeader(t *testing.T) {
	e := serve(t, &Proxy{MaxHeader: 8 << 10, HeaderTimeout: 300 * time.Millisecond}, "api.example.com")
	long := "GET / HTTP/1.1\r\nHost: api.example.com\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n"
	if got := roundTrip(t, e.secure("api.example.com:443", "api.example.com"), long); !strings.Contains(got, "431") {
		t.Errorf("a long header: %s", got)
	}
	slow := e.secure("api.example.com:443", "api.example.com")
	if got := roundTrip(t, slow, "GET / HTTP/1.1\r\nHost: api"); !strings.Contains(got, "EOF") {
		t.Errorf("half a header: %s, want EOF", got)
	}
}

// TestResumed: a second handshake of a caller resumes the first, after CONNECT too.
func TestResumed(t *testing.T) {
	e := serve(t, &Proxy{}, "api.example.com")
	trust := e.trust("api.example.com")
	trust.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		c := tls.Client(e.connect("api.example.com:443"), trust)
		if got := roundTrip(t, c, "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n"); !strings.Contains(got, "200 OK") || c.ConnectionState().DidResume != (i == 1) {
			t.Errorf("handshake %d: resumed: %t, %s", i, c.ConnectionState().DidResume, got)
		}
	}
}

// TestSparse: one line a second, and how many were left out.
func TestSparse(t *testing.T) {
	log := new(bytes.Buffer)
	s := sparse{log: slog.New(slog.NewTextHandler(log, nil))}
	for i := range 25 {
		s.warn(at.Add(time.Duration(i)*100*time.Millisecond), "refused", "i", i)
	}
	if got := log.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, "i=0\n") || !strings.Contains(got, "i=10 left_out=9\n") || !strings.Contains(got, "i=20 left_out=9\n") {
		t.Errorf("logged %s", got)
	}
}
