package rig

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// echo is a server that answers with what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// there and back sends text and reads as much of it as comes within d.
func exchange(c net.Conn, text []byte, d time.Duration) ([]byte, error) {
	c.SetDeadline(time.Now().Add(d))
	go c.Write(text)
	back := make([]byte, len(text))
	n, err := io.ReadFull(c, back)
	return back[:n], err
}

func TestProxyFaults(t *testing.T) {
	t.Parallel()
	text := make([]byte, 100_000)
	rand.Read(text)
	const delay = 30 * time.Millisecond
	for _, test := range []struct {
		fault Fault
		send  int
		back  int
		err   error
	}{
		{Fault{}, 100_000, 100_000, nil},
		{Fault{Slice: true}, 5_000, 5_000, nil},
		{Fault{Delay: delay}, 100, 100, nil},
		{Fault{Truncate: 70_000}, 100_000, 70_000, io.ErrUnexpectedEOF},
		{Fault{Truncate: 7}, 7, 7, nil},
		{Fault{Reset: 7}, 100, 7, syscall.ECONNRESET},
	} {
		p := NewProxy(t, echo(t))
		p.Set(test.fault)
		began := time.Now()
		back, err := exchange(dial(t, p), text[:test.send], patience)
		if !bytes.Equal(back, text[:test.back]) && test.fault.Reset == 0 || !errors.Is(err, test.err) {
			t.Errorf("%+v: sent %d bytes, %d came back and %v, want %d and %v", test.fault, test.send, len(back), err, test.back, test.err)
		}
		if len(back) > test.back { // a reset may overtake the last answers
			t.Errorf("%+v: %d bytes came back, want at most %d", test.fault, len(back), test.back)
		}
		if took := time.Since(began); took < 2*test.fault.Delay {
			t.Errorf("%+v: there and back took %v, want at least twice the delay", test.fault, took)
		}
	}
}

func TestProxyStall(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echo(t))
	before := dial(t, p)
	if _, err := exchange(before, []byte("a"), patience); err != nil {
		t.Fatal(err)
	}
	p.Set(Fault{Stall: true})
	during := dial(t, p)
	for _, c := range []net.Conn{before, during} {
		if back, err := exchange(c, []byte("b"), 50*time.Millisecond); err == nil {
			t.Errorf("%q came through a stall", back)
		}
	}
	p.Heal()
	for _, c := range []net.Conn{before, during} {
		c.SetDeadline(time.Now().Add(patience))
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil || b[0] != 'b' {
			t.Errorf("after the stall came %q, %v, want b", b, err)
		}
	}
	p.Cut()
	if _, err := exchange(before, []byte("c"), patience); err == nil {
		t.Error("a cut connection answers")
	}
	if _, err := exchange(dial(t, p), []byte("d"), patience); err != nil {
		t.Error("after Cut a new connection gives", err)
	}
	p.Set(Fault{Stall: true, From: source(1)})
	if _, err := exchange(dial(t, p), []byte("e"), patience); err != nil {
		t.Error("a stall of another address hits this one:", err)
	}
	p.Set(Fault{Stall: true})
	dial(t, p)
	p.Close() // returns, though connections are held back
	if n := p.Links(); n != 0 {
		t.Errorf("after Close there are %d links, want 0", n)
	}
}
