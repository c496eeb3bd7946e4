package upstream

import (
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// resetting answers each request on a connection in HTTP/2 by RST_STREAM.
func resetting(c net.Conn, code http2.ErrCode) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if _, asks := frame.(*http2.HeadersFrame); asks && f.WriteRSTStream(frame.Header().StreamID, code) != nil {
			return
		}
	}
}

// TestReset: an upstream that resets streams is ejected, but not where it cancels them, as
// servers of gRPC do at a deadline that the caller has set.
func TestReset(t *testing.T) {
	for code, ejects := range map[http2.ErrCode]bool{http2.ErrCodeCancel: false, http2.ErrCodeInternal: true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go resetting(c, code)
			}
		}()
		p := poolOf(t, Options{}, "h2c://"+l.Addr().String())
		for range 2 * tolerated {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://h/", nil)
			if err != nil {
				t.Fatal(err)
			}
			e := pick(t, p)
			if _, err := e.RoundTrip(r); err == nil {
				t.Fatalf("%v: answered", code)
			}
			e.Release()
		}
		if got := !p.States()[0].Until.IsZero(); got != ejects {
			t.Errorf("%d streams reset by %v: ejected is %v, want %v", 2*tolerated, code, got, ejects)
		}
	}
}
