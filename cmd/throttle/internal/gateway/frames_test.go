//go:build unix

package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestFloodsOfFrames: frames that cost more to answer or to keep than to send end
// their connection, or are not kept: CONTINUATION without end (CVE-2023-45288), pings
// whose answers are not read, empty data (CVE-2019-9518).
func TestFloodsOfFrames(t *testing.T) {
	to := service(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
	chunk := bytes.Repeat([]byte{0x00, 0x01, 'x', 0x01, 'y'}, 3000) // fields without an index
	for _, c := range []struct {
		name  string
		begin func(a *attacker) error
		next  func(a *attacker) (int, error)
		most  int  // bytes that are sent before the test gives up
		ends  bool // else it goes on as long as the caller does
	}{
		{
			"continuation",
			func(a *attacker) error {
				return a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82, 0x86, 0x84}})
			},
			func(a *attacker) (int, error) { return len(chunk), a.WriteContinuation(1, false, chunk) }, 64 << 20, true,
		},
		{
			"ping", nil,
			func(a *attacker) (int, error) { return 17, a.WritePing(false, [8]byte{}) }, 64 << 20, true,
		},
		{
			"empty data",
			func(a *attacker) error {
				a.block.Reset()
				for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "h"}, {Name: ":path", Value: "/"}} {
					if err := a.fields.WriteField(f); err != nil {
						return err
					}
				}
				return a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: a.block.Bytes(), EndHeaders: true})
			},
			func(a *attacker) (int, error) { return 9, a.WriteData(1, false, nil) }, 1 << 20, false,
		},
	} {
		sent, err := 0, error(nil)
		heap, _ := footprint(func() {
			a := attack(t, e)
			defer a.Close()
			if c.begin != nil {
				err = c.begin(a)
			}
			w := bufio.NewWriterSize(reader{a.Conn}, 64<<10)
			a.Framer = http2.NewFramer(w, a.Conn)
			for n := 0; err == nil && sent < c.most; sent += n {
				n, err = c.next(a)
			}
			if c.ends && !ended(a.Conn) {
				t.Errorf("%s: the connection is held", c.name)
			}
			if status, _ := do(t, e.request("GET", "/", nil)); status != 200 {
				t.Errorf("%s: another is answered %d", c.name, status)
			}
		})
		t.Logf("%s: ended after %d kB by %v, +%d kB", c.name, sent>>10, err, heap>>10)
		if errors.Is(err, os.ErrDeadlineExceeded) || c.ends && err == nil {
			t.Errorf("%s: after %d kB the server neither reads nor ends the connection, or goes on: %v", c.name, sent>>10, err)
		}
		if heap > 32<<20 {
			t.Errorf("%s: %d MB were taken, and %d MB held", c.name, sent>>20, heap>>20)
		}
	}
}

// reader is a connection whose other side reads: what is written goes out within 20
// seconds each time, however slow the machine is in all.
type reader struct{ net.Conn }

func (r reader) Write(b []byte) (int, error) {
	if err := r.SetWriteDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return 0, err
	}
	return r.Conn.Write(b)
}

// ended reports whether the other side ends the connection, with what it had not read
// or without.
func ended(c net.Conn) bool {
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return false
	}
	_, err := io.Copy(io.Discard, c)
	return err == nil || errors.Is(err, syscall.ECONNRESET)
}
