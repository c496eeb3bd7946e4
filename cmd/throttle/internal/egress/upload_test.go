package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	text "google.golang.org/grpc/health/grpc_health_v1" // for messages of one text
	grpcstatus "google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
)

// pausing returns a body of which only the first byte comes. It fails when it is closed.
func pausing() io.ReadCloser {
	end, _ := io.Pipe()
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader("x"), end), end}
}

// pauses is a request whose caller pauses in its body, for at most 20 s. A length of -1 is not told.
func pauses(t *testing.T, url string, length int64) *http.Request {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	body := pausing()
	context.AfterFunc(ctx, func() { body.Close() }) // the client waits for it
	r, _ := http.NewRequestWithContext(ctx, "POST", url, body)
	r.ContentLength = length
	return r
}

// way is how a caller reaches an API.
type way struct {
	name string
	*engine
	*http.Client
	url string
}

// ways serve the same API by all ways: by path or inside CONNECT, by HTTP/1 or HTTP/2.
func ways(t *testing.T, a API, h http.HandlerFunc) []way {
	t.Helper()
	plain := before(t, a, h)
	secure, s := intercepting(t, Config{Intercept: new(Intercept)}, a, h)
	own := new(http.Transport)
	t.Cleanup(own.CloseIdleConnections)
	return []way{
		{"HTTP/1 by path", plain, &http.Client{Transport: own}, plain.url + "/api/"},
		{"HTTP/2 by path", plain, plainHTTP2(t), plain.url + "/api/"},
		{"HTTP/1 inside CONNECT", secure, secure.client(false), s.URL + "/"},
		{"HTTP/2 inside CONNECT", secure, secure.client(true), s.URL + "/"},
	}
}

// left is what requests hold still: waiting, in flight, in the proxy, bytes of bodies.
func (e *engine) left() (all [4]int) {
	group, _ := e.Observed("api")
	for _, t := range group.All() {
		all[0], all[1] = all[0]+t.Waiting(), all[1]+t.InFlight()
	}
	all[2], all[3] = len(e.room), int(e.bodies.Load())
	return all
}

// TestPausingCaller: a caller that pauses in its body gets an answer that came before its end, and
// learns that the API has gone; nothing is held for it then.
func TestPausingCaller(t *testing.T) {
	for _, c := range []struct {
		answer http.HandlerFunc
		want   string
	}{
		{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(413); io.WriteString(w, "too much") }, `413 "" too much`},
		{func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 {
				panic(http.ErrAbortHandler)
			}
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		}, `502 "unreachable" throttle egress: api: throttle: no tries left, after 1 try, may have been executed: `},
	} {
		for _, way := range ways(t, API{}, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 has it always
			io.ReadFull(r.Body, make([]byte, 1))
			c.answer(w, r)
		}) {
			for _, length := range []int64{-1, 10 << 20} {
				a, err := way.Do(pauses(t, way.url, length))
				if err != nil {
					t.Fatalf("%s, length %d: %v, want %s", way.name, length, err, c.want)
				}
				got := way.read(a)
				if text := fmt.Sprintf("%d %q %s", got.StatusCode, got.mark(), got.body); !strings.HasPrefix(text, c.want) || a.ProtoMajor == 1 && !a.Close {
					t.Errorf("%s, length %d: %s, the last: %t; want %s, and by HTTP/1 the last", way.name, length, text, a.Close, c.want)
				}
				soon(t, way.name+": it goes on", func() bool { return way.left() == [4]int{} })
			}
		}
	}
}

// parts is a body that comes in many parts.
type parts struct{ io.Reader }

func (p parts) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), 4<<10)]) }

// TestFastCaller: a caller by HTTP/1 that goes on sending has an answer that came early, whole.
func TestFastCaller(t *testing.T) {
	e := before(t, API{}, func(w http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, 1))
		w.Header().Set("Connection", "close")
		w.WriteHeader(413)
	})
	long := strings.Repeat("x", 3<<20)
	for i := range 100 {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", e.url+"/api/", parts{strings.NewReader(long)})
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatalf("call %d: %v, want 413", i, err)
		}
		if got := e.read(a); got.StatusCode != 413 && got.mark() != "unreachable" { // the API closes while more comes
			t.Fatalf("call %d: %d %q, want 413", i, got.StatusCode, got.body)
		}
	}
}

// TestLostAPI: a caller that pauses in its body learns that an API by https has gone with its connection.
func TestLostAPI(t *testing.T) {
	reads := make(chan struct{})
	for _, protocol := range []int{1, 2} { // to the API
		e, s := intercepting(t, Config{Intercept: new(Intercept)}, API{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != protocol {
				t.Errorf("the API gets HTTP/%d, want %d", r.ProtoMajor, protocol)
			}
			io.ReadFull(r.Body, make([]byte, 1))
			reads <- struct{}{}
			io.Copy(io.Discard, r.Body)
		}))
		e.apis[0].plain.Base.(*http.Transport).Protocols.SetHTTP2(protocol == 2)
		for _, http2 := range []bool{false, true} {
			go func() {
				<-reads
				s.CloseClientConnections()
			}()
			a, err := e.client(http2).Do(pauses(t, s.URL, -1))
			if err != nil {
				t.Fatalf("to the API HTTP/%d, HTTP/2 from the caller %t: %v, want 502", protocol, http2, err)
			}
			if got := e.read(a); got.StatusCode != 502 || got.mark() != "unreachable" {
				t.Errorf("to the API HTTP/%d, HTTP/2 from the caller %t: %d %q, want 502 unreachable", protocol, http2, got.StatusCode, got.mark())
			}
			soon(t, "it goes on", func() bool { return e.left() == [4]int{} })
		}
	}
}

// TestRefusedUpload: the connection of a caller by HTTP/1 that pauses in a body, and is refused before the body
// was read, ends with the refusal.
func TestRefusedUpload(t *testing.T) {
	e := before(t, API{Rate: limit.Limit{Count: 1, Period: time.Hour}}, status(200))
	e.send("GET", "/api/", nil)
	c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, "POST /api/ HTTP/1.1\r\nHost: localhost\r\nThrottle-Max-Wait: 1ms\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
	if all, err := io.ReadAll(c); !strings.HasPrefix(string(all), "HTTP/1.1 429 ") || err != nil {
		t.Errorf("answered %q, then %v; want 429, and the end", all, err)
	}
}

// TestWholeUpload: a connection on which a body that was streamed came whole carries further requests.
func TestWholeUpload(t *testing.T) {
	for _, way := range ways(t, API{}, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }) {
		long := strings.Repeat("x", 2<<20)
		for i, body := range []io.Reader{chunked("hello"), chunked(long), strings.NewReader(long)} {
			a, err := way.Post(way.url, "", body)
			if err != nil || a.StatusCode != 200 || a.Close {
				t.Fatalf("%s, body %d: %v, %v; want 200, and not the last", way.name, i, a, err)
			}
			a.Body.Close()
		}
	}
}

// TestUploadAgain: a body that was closed before it was read is read where net/http sends it on another
// connection. One that was read, or whose connection is closed already, is not.
func TestUploadAgain(t *testing.T) {
	closed := &line{TCPConn: new(net.TCPConn)}
	closed.Close() // before the request has it
	for _, c := range []struct {
		name  string
		first int // bytes read before Close
		on    net.Conn
		want  error
	}{
		{"unread", 0, &line{TCPConn: new(net.TCPConn)}, nil},
		{"read", 1, &line{TCPConn: new(net.TCPConn)}, errTaken},
		{"unread, on one that is closed", 0, closed, errTaken},
	} {
		_, u := streamed(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader("hello")))
		if c.first > 0 {
			u.Read(make([]byte, c.first))
		}
		u.Close()
		u.got(httptrace.GotConnInfo{Conn: c.on})
		if _, err := u.Read(make([]byte, 5)); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		u.leave()
	}
}

// TestUploadCut: that a read from its caller was cut off does not end a request by HTTP/1, whose answer may have
// begun, for 5 min. Any other ends with its caller at once.
func TestUploadCut(t *testing.T) {
	for _, c := range []struct {
		protocol int
		body     func() io.ReadCloser
		want     time.Duration
	}{{1, pausing, bodyIdle}, {1, hello, 0}, {2, pausing, 0}, {2, hello, 0}} {
		bubble.Test(t, func(t *testing.T) {
			ctx, gone := context.WithCancel(t.Context())
			in := httptest.NewRequestWithContext(ctx, "POST", "/", c.body())
			in.ProtoMajor = c.protocol
			out, u := streamed(httptest.NewRecorder(), in)
			defer u.leave()
			go io.Copy(io.Discard, u)
			synctest.Wait()
			u.Close()
			began := time.Now()
			gone()
			<-out.Context().Done()
			if took := time.Since(began); took != c.want {
				t.Errorf("HTTP/%d: it ends after %v, want %v", c.protocol, took, c.want)
			}
			in.Body.Close()
		})
	}
}

// TestGRPC: a conversation in both directions passes, and its status reaches the caller, who
// has not ended its side.
func TestGRPC(t *testing.T) {
	desc := grpc.StreamDesc{StreamName: "Echo", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		for {
			var m text.HealthCheckRequest
			if err := s.RecvMsg(&m); err != nil || m.Service == "end" {
				return grpcstatus.Error(codes.ResourceExhausted, "slow down")
			}
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	}}
	api := grpc.NewServer()
	api.RegisterService(&grpc.ServiceDesc{ServiceName: "test", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{desc}}, struct{}{})
	e, s := intercepting(t, Config{Intercept: new(Intercept)}, API{}, api)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := e.grpc(strings.TrimPrefix(s.URL, "https://")).NewStream(ctx, &desc, "/test/Echo")
	if err != nil {
		t.Fatal(err)
	}
	var back text.HealthCheckRequest
	for i := range 3 {
		if err := stream.SendMsg(&text.HealthCheckRequest{Service: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&back); err != nil || back.Service != fmt.Sprint(i) {
			t.Fatalf("message %d came back as %q, %v", i, back.Service, err)
		}
	}
	if err := stream.SendMsg(&text.HealthCheckRequest{Service: "end"}); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&back); grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("it ends with %v, want ResourceExhausted", err)
	}
	soon(t, "it goes on", func() bool { return e.left() == [4]int{} })
}

// grpc is a client of a target, inside CONNECT.
func (e *engine) grpc(target string) *grpc.ClientConn {
	roots := x509.NewCertPool()
	roots.AddCert(e.connects.Authority.Certificate())
	trust := grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots}))
	conn, err := grpc.NewClient("passthrough:///"+target, trust, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
		c, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target)
		_, err = http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect}) // the client speaks first after it
		return c, err
	}))
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { conn.Close() })
	return conn
}
