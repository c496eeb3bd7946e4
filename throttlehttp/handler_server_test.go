package throttlehttp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// serve is h behind a real server.
func serve(t *testing.T, h http.Handler, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// send is one request, and the answer with its body read.
func send(t *testing.T, s *httptest.Server, method, path string, body io.Reader) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a, string(text)
}

// idle waits until nothing is in flight: the server may be later than its answer.
func idle(t *testing.T, f *store.InFlight) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); f.Stats().Holds != 0; {
		if time.Now().After(end) {
			t.Fatalf("%+v after 10s, want nothing held", f.Stats())
		}
	}
}

const oneAtATime = `{"rules": [{"name": "one", "in_flight": 1}, {"name": "n", "limits": "1000/s"}]}`

// Every method is limited alike, HEAD and OPTIONS too, over HTTP/1.1 and HTTP/2.
func TestServerMethods(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		h := &Handler{Control: &admit.Control{Store: &book{now: t0}, Limit: limit.Limit{Count: 7, Period: time.Hour}}, Next: hello}
		s := serve(t, h, http2)
		for i, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"} {
			a, text := send(t, s, method, "/", nil)
			want := 200
			if i >= 7 {
				want = 429
			}
			if a.StatusCode != want || (a.ProtoMajor == 2) != http2 || (text == "") != (method == "HEAD") || a.Header.Get("RateLimit") == "" {
				t.Errorf("HTTP/%d, request %d, %s: %s %q, want %d", a.ProtoMajor, i, method, told(a), text, want)
			}
		}
	}
}

// A body that was not read does not spoil the next request on the connection, and
// one that waits for leave is not sent at all.
func TestServerUnreadBody(t *testing.T) {
	h := &Handler{Control: &admit.Control{Store: &book{now: t0}, Limit: limit.Limit{Period: time.Hour}}}
	s := serve(t, h, false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	from := bufio.NewReader(conn)
	body := strings.Repeat("x", 64<<10)
	for i := range 2 {
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		a, err := http.ReadResponse(from, nil)
		if err != nil || a.StatusCode != 429 {
			t.Fatalf("request %d: %v, %v; want 429 on the same connection", i, a, err)
		}
		io.Copy(io.Discard, a.Body)
	}
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	if a, err := http.ReadResponse(from, nil); err != nil || a.StatusCode != 429 {
		t.Errorf("a request that waits for leave: %v, %v; want 429 and not 100", a, err)
	}
}

// What Next sends before it is done is received before it is done.
func TestServerStreams(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		counting, goOn := new(store.InFlight), make(chan bool)
		h := &Handler{
			Control: &admit.Control{InFlight: counting, Rules: live(t, oneAtATime)},
			Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, "first\n")
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Errorf("Flush: %v", err)
				}
				<-goOn
				io.WriteString(w, "second\n")
			}),
		}
		s := serve(t, h, http2)
		a, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		from := bufio.NewReader(a.Body)
		if line, err := from.ReadString('\n'); line != "first\n" || err != nil {
			t.Errorf("first line %q, %v", line, err)
		}
		if st := counting.Stats(); st.Holds != 1 {
			t.Errorf("%+v while it streams, want 1 held", st)
		}
		if busy, _ := send(t, s, "GET", "/", nil); busy.StatusCode != 503 {
			t.Errorf("another at the same time: %s, want 503", told(busy))
		}
		close(goOn)
		io.Copy(io.Discard, from)
		a.Body.Close()
		idle(t, counting)
		send(t, s, "GET", "/", nil)
	}
}

// A connection that is taken over counts until Next returns.
func TestServerHijack(t *testing.T) {
	counting := new(store.InFlight)
	h := &Handler{
		Control: &admit.Control{InFlight: counting, Rules: live(t, oneAtATime)},
		Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, both, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Errorf("Hijack: %v", err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			line, _ := both.ReadString('\n')
			io.WriteString(conn, line)
		}),
	}
	s := serve(t, h, false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	from := bufio.NewReader(conn)
	if line, err := from.ReadString('\n'); !strings.Contains(line, "101") || err != nil {
		t.Fatalf("%q, %v; want 101", line, err)
	}
	if st := counting.Stats(); st.Holds != 1 {
		t.Errorf("%+v while it is open, want 1 held", st)
	}
	io.WriteString(conn, "hello\n")
	if rest, _ := io.ReadAll(from); !strings.HasSuffix(string(rest), "hello\n") {
		t.Errorf("echo %q, want hello", rest)
	}
	idle(t, counting)
}

// Next panics, callers go away: nothing stays in flight.
func TestServerPanicsAndCancels(t *testing.T) {
	counting := new(store.InFlight)
	entered := make(chan bool, 1)
	h := &Handler{
		Control: &admit.Control{InFlight: counting, Rules: live(t, oneAtATime), Shed: &admit.Shedder{MaxInFlight: 1, MaxWait: time.Minute}},
		Next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("in Next")
			}
			entered <- true
			<-r.Context().Done()
		}),
	}
	for _, http2 := range []bool{false, true} {
		s := serve(t, h, http2)
		if a, err := s.Client().Get(s.URL + "/panic"); err == nil {
			t.Errorf("a panic of Next is answered by %v, want none", a)
		}
		idle(t, counting)
		ctx, cancel := context.WithCancel(t.Context())
		var caller sync.WaitGroup
		caller.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if a, err := s.Client().Do(req); err == nil {
				t.Errorf("answered by %v, want none", a)
			}
		})
		<-entered
		cancel()
		caller.Wait()
		idle(t, counting)
		// The Hold is released before the Pass, as it was taken after it.
		for i := 0; i < 1_000_000 && h.Control.Shed.Stats().InFlight > 0; i++ {
			runtime.Gosched()
		}
		if st := h.Control.Shed.Stats(); st.InFlight != 0 || st.Took != 0 {
			t.Errorf("%+v, want none, and nothing learnt from a panic and from a caller that left", st)
		}
	}
}

// Real callers over sockets: of 40 at once 10 pass by a limit of 10, and in flight
// there are never more than 3.
func TestServerCounts(t *testing.T) {
	var mu sync.Mutex
	now, most, passed := 0, 0, 0
	counting := new(store.InFlight)
	h := &Handler{
		Control: &admit.Control{InFlight: counting, Rules: live(t, `{"rules": [{"name": "at-once", "in_flight": 3, "limits": "10/h"}]}`)},
		Next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			now, passed = now+1, passed+1
			most = max(most, now)
			mu.Unlock()
			defer func() { mu.Lock(); now--; mu.Unlock() }()
		}),
	}
	s := serve(t, h, false)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			for range 20 { // busy ones come again
				a, err := s.Client().Get(s.URL)
				if err != nil {
					t.Error(err)
					return
				}
				a.Body.Close()
				if a.StatusCode != 503 {
					return
				}
			}
		})
	}
	all.Wait()
	idle(t, counting)
	if passed > 10 || passed < 3 || most > 3 {
		t.Errorf("%d passed, %d at once; want 10 at most, 3 at once", passed, most)
	}
}
