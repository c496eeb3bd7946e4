package gateway

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// refusing is an upstream by HTTP/2 in plain text. It refuses the first requests once they
// have come whole, and answers the others.
type refusing struct {
	first  int32 // how many it refuses
	refuse func(f *http2.Framer, stream uint32) error
	asked  atomic.Int32
	body   atomic.Pointer[[]byte] // of the last that it has answered
}

// serve serves one connection.
func (u *refusing) serve(c net.Conn) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	err := f.WriteSettings()
	var body []byte
	for err == nil {
		var frame http2.Frame
		if frame, err = f.ReadFrame(); err != nil {
			return
		}
		stream := frame.Header().StreamID
		if d, ok := frame.(*http2.DataFrame); ok && len(d.Data()) > 0 {
			body = append(body, d.Data()...)
			err = f.WriteWindowUpdate(0, uint32(len(d.Data())))
		}
		if e, ok := frame.(interface{ StreamEnded() bool }); !ok || !e.StreamEnded() {
			continue
		}
		if u.asked.Add(1) <= u.first {
			body, err = nil, u.refuse(f, stream)
			continue
		}
		u.body.Store(new(bytes.Clone(body)))
		var block bytes.Buffer
		err = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
		if err == nil {
			err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		}
	}
}

// TestRefusedUnprocessed: a request that an upstream refuses unprocessed, as at the end of a
// connection, is sent again with its body, and is no failure of the upstream; one that may
// have been processed is not.
func TestRefusedUnprocessed(t *testing.T) {
	goAway := func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }
	reset := func(code http2.ErrCode) func(*http2.Framer, uint32) error {
		return func(f *http2.Framer, stream uint32) error { return f.WriteRSTStream(stream, code) }
	}
	for _, c := range []struct {
		name   string
		first  int32
		refuse func(*http2.Framer, uint32) error
		size   int
		status int
		asked  int32
		spent  string // what is left of the limit of 5
	}{
		{"GOAWAY", 1, goAway, 5, 200, 2, "r=4"},
		{"GOAWAY, the largest body", 1, goAway, maxKept, 200, 2, "r=4"},
		{"GOAWAY, a larger body", 1, goAway, maxKept + 1, 502, 1, ""},
		{"REFUSED_STREAM", 2, reset(http2.ErrCodeRefusedStream), 5, 200, 3, "r=4"},
		{"REFUSED_STREAM without end", 99, reset(http2.ErrCodeRefusedStream), 5, 502, maxTries, ""},
		{"PROTOCOL_ERROR", 1, reset(http2.ErrCodeProtocol), 5, 502, 1, "r=4"},
		{"INTERNAL_ERROR", 1, reset(http2.ErrCodeInternal), 5, 502, 1, "r=4"},
	} {
		u := &refusing{first: c.first, refuse: c.refuse}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go u.serve(c)
			}
		}()
		e := serve(t, Config{
			Routes: []Route{{To: []string{"h2c://" + l.Addr().String()}}}, Control: control(t, `{"rules": {"name": "a", "limits": "5/h"}}`),
		})
		body := strings.Repeat("x", c.size)
		a, err := http.DefaultTransport.RoundTrip(e.request("POST", "/", strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if left := a.Header.Get("Ratelimit"); a.StatusCode != c.status || u.asked.Load() != c.asked || !strings.Contains(left, c.spent) || c.spent == "" && left != "" {
			t.Errorf("%s: %d, after %d requests, %q; want %d, %d, %q", c.name, a.StatusCode, u.asked.Load(), left, c.status, c.asked, c.spent)
		}
		if got := u.body.Load(); c.status == 200 && (got == nil || string(*got) != body) {
			t.Errorf("%s: the body did not come whole", c.name)
		}
		if s := e.Upstreams()[0]; c.spent == "" && !s.Until.IsZero() {
			t.Errorf("%s: the upstream is ejected", c.name)
		}
	}
}
