package intercept

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// service accepts one connection after the other and hands them on.
func service(t *testing.T) (addr string, conns chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = make(chan net.Conn, 1)
	go func() {
		defer close(conns)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), conns
}

// listOf reads a list that is right.
func listOf(t *testing.T, texts ...string) List {
	t.Helper()
	list, err := ParseList(texts)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestTunnel: bytes pass in both directions, those that came with the CONNECT too, and
// either end may say that nothing follows while the other goes on.
func TestTunnel(t *testing.T) {
	addr, conns := service(t)
	e := serve(t, &Proxy{Tunnel: listOf(t, addr)}, "api.example.com")
	for _, first := range []string{"caller", "service"} {
		c, _ := e.ask("CONNECT " + addr + " HTTP/1.1\r\nHost: a\r\n\r\nearly ")
		up := <-conns
		defer up.Close()
		io.WriteString(c, "asked")
		io.WriteString(up, "answered")
		near, far := io.ReadWriter(c), io.ReadWriter(up)
		nearWants, farWants := "answered", "early asked"
		if first == "service" {
			near, far, nearWants, farWants = far, near, farWants, nearWants
		}
		if err := closeWrite(near.(net.Conn)); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(far); string(got) != farWants || err != nil {
			t.Errorf("%s first: the other end got %q, %v; want %q", first, got, err, farWants)
		}
		io.WriteString(far, ", later")
		far.(net.Conn).Close()
		if got, err := io.ReadAll(near); string(got) != nearWants+", later" || err != nil {
			t.Errorf("%s first: it got %q, %v; want %q", first, got, err, nearWants+", later")
		}
		until(t, "an end", func() bool { return e.open.counts() == [states]int{} })
	}
}

// TestTunnelBytes: a large body arrives as it was sent.
func TestTunnelBytes(t *testing.T) {
	addr, conns := service(t)
	e := serve(t, &Proxy{Tunnel: listOf(t, addr)}, "api.example.com")
	c := e.connect(addr)
	up := <-conns
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() { // ends when all is sent
		io.Copy(up, bytes.NewReader(sent))
		up.Close()
	}()
	if got, err := io.ReadAll(c); !bytes.Equal(got, sent) || err != nil {
		t.Errorf("got %d bytes of %d, %v", len(got), len(sent), err)
	}
}

// TestPrivate: a name that leads to an address that is not public is refused before anything
// is connected, unless the address is listed; so is an address that is not listed.
func TestPrivate(t *testing.T) {
	addr, conns := service(t)
	port := netip.MustParseAddrPort(addr).Port()
	for _, c := range []struct {
		list   []string
		target string
		status int
	}{
		{[]string{fmt.Sprint("localhost:", port)}, fmt.Sprint("localhost:", port), 403},
		{[]string{fmt.Sprint("*:", port)}, fmt.Sprint("localhost:", port), 403},
		{[]string{fmt.Sprint("*:", port)}, addr, 403},
		{[]string{fmt.Sprint("localhost:", port), "127.0.0.0/8"}, fmt.Sprint("localhost:", port), 403}, // at port 443 only
		{[]string{fmt.Sprint("localhost:", port), fmt.Sprint("127.0.0.0/8:", port)}, fmt.Sprint("localhost:", port), 200},
		{[]string{fmt.Sprint("127.0.0.0/8:", port)}, addr, 200},
		{[]string{addr}, addr, 200},
	} {
		e := serve(t, &Proxy{Tunnel: listOf(t, c.list...)}, "api.example.com")
		conn, a := e.ask("CONNECT " + c.target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		body := ""
		if a.StatusCode != 200 {
			text, _ := io.ReadAll(io.LimitReader(conn, a.ContentLength))
			body = string(text)
		}
		if a.StatusCode != c.status {
			t.Errorf("CONNECT %s with %q: %d %s; want %d", c.target, c.list, a.StatusCode, body, c.status)
		}
		if strings.HasPrefix(c.target, "localhost") && c.status == 403 && !strings.Contains(body, "which is not public; list the address too") {
			t.Errorf("CONNECT %s with %q: %s", c.target, c.list, body)
		}
		if c.status == 200 {
			(<-conns).Close()
		}
		select {
		case up := <-conns:
			up.Close()
			t.Errorf("CONNECT %s with %q: is connected", c.target, c.list)
		default:
		}
	}
}

// TestTunnelIdle: a tunnel in which nothing moves for Idle is cut, and not before; once the
// Proxy ends, within a second of nothing.
func TestTunnelIdle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &Proxy{Idle: time.Minute}
		p.begin()
		caller, near := net.Pipe()
		far, service := net.Pipe()
		began := time.Now()
		ended := make(chan time.Duration)
		carry := func() {
			p.carry(&conn{Conn: near, of: &p.open}, far)
			ended <- time.Since(began)
		}
		go carry()
		go io.Copy(io.Discard, service)
		go io.Copy(io.Discard, caller)
		for range 3 {
			time.Sleep(50 * time.Second) // of a bubble
			caller.Write([]byte("x"))
			time.Sleep(50 * time.Second)
			service.Write([]byte("x"))
		}
		if at := <-ended; at != 6*50*time.Second+time.Minute {
			t.Errorf("it ended after %v, want a minute after the last byte", at)
		}
		began = time.Now()
		go carry()
		time.Sleep(10 * time.Second)
		close(p.draining)
		if at := <-ended; at != 11*time.Second {
			t.Errorf("the Proxy ended after 10 s, and the tunnel after %v", at)
		}
		close(p.cut) // the server inside
		for _, c := range []net.Conn{caller, near, far, service} {
			c.Close()
		}
		synctest.Wait()
	})
}

// TestFull: beyond MaxConns a CONNECT is refused, whatever it is for, until one ends.
func TestFull(t *testing.T) {
	addr, conns := service(t)
	e := serve(t, &Proxy{MaxConns: 3, Tunnel: listOf(t, addr)}, "api.example.com")
	first := e.connect("api.example.com:443") // and no handshake
	e.secure("api.example.com:443", "api.example.com")
	e.connect(addr)
	defer (<-conns).Close()
	for _, target := range []string{"api.example.com:443", addr} {
		_, a := e.ask("CONNECT " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "1" || a.Header.Get("Throttle-Generated") != "busy" {
			t.Errorf("the fourth: %v", a)
		}
	}
	first.Close()
	until(t, "room", func() bool { n := e.open.counts(); return n[waiting]+n[active]+n[resting]+n[tunneled] == 2 })
	e.secure("api.example.com:443", "api.example.com")
}

// TestThousands: thousands of CONNECTs that do nothing take their place and no more, and
// all are gone at the end.
func TestThousands(t *testing.T) {
	e := serve(t, &Proxy{MaxConns: 1000, HeaderTimeout: time.Minute}, "api.example.com")
	served, full := 0, 0
	for range 1500 {
		_, a := e.ask("CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n")
		switch a.StatusCode {
		case http.StatusOK:
			served++
		case http.StatusServiceUnavailable:
			full++
		}
	}
	if served != 1000 || full != 500 {
		t.Errorf("%d were served and %d refused, want 1000 and 500", served, full)
	}
	if err := e.end(0); err != nil {
		t.Error(err)
	}
	until(t, "the end", func() bool { return e.open.counts() == [states]int{} })
}

// TestUpstreamGone: the end of one side breaks the other.
func TestUpstreamGone(t *testing.T) {
	addr, conns := service(t)
	e := serve(t, &Proxy{Tunnel: listOf(t, addr)}, "api.example.com")
	c := e.connect(addr)
	up := <-conns
	_ = up.(*net.TCPConn).SetLinger(0) // a reset
	up.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if _, err := io.ReadAll(c); ctx.Err() != nil {
		t.Errorf("the caller waits still: %v", err)
	}
	until(t, "an end", func() bool { return e.open.counts() == [states]int{} })
}
