package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func mustPrefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// TestDrainDelay: while it waits for load balancers to notice, it serves, and
// asks each connection to end: by Connection: close, or GOAWAY in HTTP/2.
func TestDrainDelay(t *testing.T) {
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Drain: Drain{Delay: 2 * time.Second}})
	var opened atomic.Int64
	two := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		opened.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	two.Protocols.SetUnencryptedHTTP2(true)
	defer two.CloseIdleConnections()
	ask := func(rt http.RoundTripper) *http.Response {
		t.Helper()
		a, err := rt.RoundTrip(e.request("GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a
	}
	if ask(two); ask(http.DefaultTransport).Close {
		t.Error("a connection ends before there is a reason")
	}
	done := make(chan error, 1)
	go func() { done <- e.end() }()
	for !e.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	if a := ask(http.DefaultTransport); a.StatusCode != 200 || !a.Close {
		t.Errorf("while it drains: %d, close %v; want 200 and the end of the connection", a.StatusCode, a.Close)
	}
	ask(two) // GOAWAY
	for range 100 {
		if ask(two); opened.Load() > 1 {
			break
		}
	}
	if n := opened.Load(); n < 2 {
		t.Errorf("HTTP/2 used %d connections, want a new one after GOAWAY", n)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestDrainTunnels: upgraded connections may end by themselves while it drains,
// and are cut in the end, which is no failure.
func TestDrainTunnels(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(c, rw)
	})
	for name, ends := range map[string]bool{"ends": true, "stays": false} {
		e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Drain: Drain{Timeout: 2 * time.Second}})
		c := e.dial()
		io.WriteString(c, lines("GET / HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket"))
		in := bufio.NewReader(c)
		if a, err := http.ReadResponse(in, nil); err != nil || a.StatusCode != 101 {
			t.Fatalf("%v, %v", a, err)
		}
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- e.end() }()
		for !e.draining.Load() {
			time.Sleep(time.Millisecond)
		}
		io.WriteString(c, "hello")
		if text := make([]byte, 5); ends {
			if _, err := io.ReadFull(in, text); err != nil || string(text) != "hello" {
				t.Errorf("%s: %q, %v while it drains", name, text, err)
			}
			c.Close()
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); ends != (took < 2*time.Second) {
			t.Errorf("%s: drained for %v of 2s", name, took)
		}
		if n := e.tunnels.Load(); n != 0 {
			t.Errorf("%s: %d connections are counted still", name, n)
		}
	}
}

// TestRestart: when the next gateway takes over the socket, as by socket
// activation, no request is lost, however often.
func TestRestart(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, _ *http.Request) { time.Sleep(time.Millisecond) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	next := func() *engine {
		f, err := l.(*net.TCPListener).File() // as a process inherits it
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		inherited, err := net.FileListener(f)
		if err != nil {
			t.Fatal(err)
		}
		return serve(t, Config{Listen: []Listen{{Addr: "inherited", Listener: inherited}}, Routes: []Route{{To: []string{to}}}})
	}
	at := next()
	url := "http://" + at.addr
	stop := make(chan struct{})
	var served atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			own := &http.Transport{DisableKeepAlives: true}
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
				a, err := own.RoundTrip(r)
				if err != nil {
					t.Errorf("request %d: %v", served.Load(), err)
					return
				}
				a.Body.Close()
				served.Add(1)
			}
		})
	}
	for range 100 {
		after := next()
		if err := at.end(); err != nil {
			t.Error(err)
		}
		at = after
	}
	close(stop)
	group.Wait()
	if served.Load() == 0 {
		t.Error("nothing was served")
	}
}
