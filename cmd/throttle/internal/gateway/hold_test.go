package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/throttle-go/throttle/rules"
)

// dial connects to the gateway, with a deadline for the test.
func (e *engine) dial() net.Conn {
	e.t.Helper()
	c, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		e.t.Fatal(err)
	}
	return c
}

// ends reports whether the other side closes the connection.
func ends(c net.Conn) bool {
	_, err := io.Copy(io.Discard, c)
	return err == nil || !strings.Contains(err.Error(), "timeout")
}

// stalls is a service in which nothing moves from some time on.
func stalls(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/answer":
		io.WriteString(w, "begun")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case "/upload":
		io.ReadAll(r.Body) // fails when the gateway gives up
	case "/unread":
		for part := make([]byte, 1<<20); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	case "/socket":
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(io.Discard, c)
	}
}

// TestIdle: an exchange in which nothing moves is cut: an answer that stalls, an
// upload that stalls, a caller that reads no answer, a WebSocket.
func TestIdle(t *testing.T) {
	to := service(t, stalls)
	statuses := make(chan Served, 9)
	e := serve(t, Config{Routes: []Route{{To: []string{to}, Idle: 500 * time.Millisecond}}, OnServed: func(s Served) { statuses <- s }})
	for _, c := range []struct {
		text   string
		status int
		next   string // once the answer has begun
	}{
		{lines("GET /answer HTTP/1.1", "Host: h"), 200, ""},
		{lines("GET /answer HTTP/1.1", "Host: h"), 200, "G"}, // with it net/http does not look any more whether the caller is there
		{lines("POST /upload HTTP/1.1", "Host: h", "Content-Length: 9"), 408, ""},
		{lines("POST /upload HTTP/1.1", "Host: h", "Transfer-Encoding: chunked") + "1\r\nx\r\n", 408, ""},
		{lines("GET /socket HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket"), 101, ""},
	} {
		conn := e.dial()
		io.WriteString(conn, c.text)
		a, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || a.StatusCode != c.status {
			t.Errorf("%.30q: %v, %v; want %d", c.text, a, err, c.status)
		}
		io.WriteString(conn, c.next)
		if !ends(conn) {
			t.Errorf("%.30q%s: the connection is held", c.text, c.next)
			continue
		}
		if s := <-statuses; s.Status != c.status {
			t.Errorf("%.30q: OnServed has %+v", c.text, s)
		}
	}
	two := &http.Transport{Protocols: new(http.Protocols)}
	two.Protocols.SetUnencryptedHTTP2(true)
	defer two.CloseIdleConnections()
	a, err := two.RoundTrip(e.request("GET", "/answer", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if body, err := io.ReadAll(a.Body); string(body) != "begun" || err == nil {
		t.Errorf("by HTTP/2: %q, %v; want an answer that is cut", body, err)
	}
	<-statuses
	io.WriteString(e.dial(), lines("GET /unread HTTP/1.1", "Host: h"))
	select {
	case <-statuses:
	case <-time.After(10 * time.Second):
		t.Error("a caller that reads nothing holds its request")
	}
}

// TestIdleUnread: an upload that an upstream does not go on reading is cut by 504: its
// caller is not to blame.
func TestIdleUnread(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and reads nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := serve(t, Config{Routes: []Route{{To: []string{"http://" + l.Addr().String()}, Idle: 500 * time.Millisecond}}})
	conn := e.dial()
	go func() {
		io.WriteString(conn, lines("POST / HTTP/1.1", "Host: h", "Content-Length: 1000000000"))
		for part := make([]byte, 1<<20); ; { // more than sockets hold
			if _, err := conn.Write(part); err != nil {
				return
			}
		}
	}()
	a, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || a.StatusCode != 504 || !a.Close {
		t.Errorf("%v, %v; want 504, and that the connection ends", a, err)
	}
}

// TestIdleGoesOn: what moves slowly is not cut.
func TestIdleGoesOn(t *testing.T) {
	to := service(t, func(w http.ResponseWriter, r *http.Request) {
		for range 25 { // longer than Idle
			time.Sleep(100 * time.Millisecond)
			fmt.Fprint(w, "x")
			http.NewResponseController(w).Flush()
		}
	})
	e := serve(t, Config{Routes: []Route{{To: []string{to}, Idle: 2 * time.Second}}})
	if status, body := do(t, e.request("GET", "/", nil)); status != 200 || body != strings.Repeat("x", 25) {
		t.Errorf("%d %q", status, body)
	}
}

// TestSlowloris: connections that send no whole header end, and meanwhile do not
// keep others out.
func TestSlowloris(t *testing.T) {
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Limits: Limits{HeaderTimeout: 2 * time.Second}})
	var slow []net.Conn
	for i := range 300 {
		c := e.dial()
		text := "GET / HTTP/1.1\r\nHost: h\r\nX: "
		if i%2 == 1 { // HTTP/2 in plain text
			text = "PRI * HTTP/2.0\r\n\r\nSM\r\n"
		}
		io.WriteString(c, text)
		slow = append(slow, c)
	}
	if status, _ := do(t, e.request("GET", "/", nil)); status != 200 {
		t.Errorf("meanwhile: %d", status)
	}
	for i, c := range slow {
		if !ends(c) {
			t.Fatalf("connection %d is held", i)
		}
	}
}

// TestMaxConns: of one address some connections are served, the others closed;
// of all together as many as there is room for, and the rest waits.
func TestMaxConns(t *testing.T) {
	to := service(t, func(http.ResponseWriter, *http.Request) {})
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}, Limits: Limits{MaxConnsPerAddress: 2}})
	get := func(c net.Conn) int {
		io.WriteString(c, lines("GET / HTTP/1.1", "Host: h"))
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0
		}
		return a.StatusCode
	}
	one, two, three := e.dial(), e.dial(), e.dial()
	if a, b, c := get(one), get(two), get(three); a != 200 || b != 200 || c != 0 {
		t.Errorf("three connections of an address: %d %d %d, want 200 200 and an end", a, b, c)
	}
	one.Close()
	again := 0
	for range 500 {
		if again = get(e.dial()); again == 200 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if again != 200 {
		t.Error("a connection that has ended is counted still")
	}

	e = serve(t, Config{Routes: []Route{{To: []string{to}}}, Limits: Limits{MaxConns: 1}})
	first, second := e.dial(), e.dial()
	io.WriteString(first, "GET / HTTP/1.1\r\n")
	answered := make(chan int, 1)
	go func() { answered <- get(second) }()
	select {
	case status := <-answered:
		t.Errorf("the second connection is answered %d, want it to wait", status)
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	if status := <-answered; status != 200 {
		t.Errorf("after the first has ended: %d", status)
	}
}

// TestProxyProtocol: the address that it states counts, from the networks that
// are named; from elsewhere it is no request.
func TestProxyProtocol(t *testing.T) {
	to := service(t, header("X-Real-Ip"))
	for network, want := range map[string]int{"127.0.0.0/8": 200, "10.0.0.0/8": 400} {
		e := serve(t, Config{
			Listen: []Listen{{Addr: "127.0.0.1:0", ProxyProtocol: rules.Networks{mustPrefix(network)}}}, Routes: []Route{{To: []string{to}}},
			Control: control(t, `{"rules": [{"name": "each", "key": "address", "limits": "1/h"}]}`),
		})
		get := "PROXY TCP4 192.0.2.7 127.0.0.1 5555 80\r\n" + lines("GET / HTTP/1.1", "Host: h")
		status, body := e.raw(get)
		if status != want || want == 200 && body != "X-Real-Ip=192.0.2.7;" {
			t.Errorf("%s: %d %q, want %d", network, status, body, want)
		}
		if want != 200 {
			continue
		}
		if status, _ := e.raw(get); status != 429 {
			t.Errorf("the same address again: %d, want 429", status)
		}
		if status, _ := e.raw(strings.Replace(get, "192.0.2.7", "192.0.2.8", 1)); status != 200 {
			t.Errorf("another address: %d, want 200", status)
		}
		if status, body := e.raw(lines("GET / HTTP/1.1", "Host: h")); status == 200 {
			t.Errorf("without the header: %d %q, want no answer", status, body)
		}
	}
}

// TestSwap: under load 200 swaps drop no request, and each is served by one
// version of the routes.
func TestSwap(t *testing.T) {
	answers := func(text string) string {
		return service(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text+r.URL.Path) })
	}
	a, b := answers("a"), answers("b")
	routes := func(to string) []Route {
		return []Route{{Match: "/x/*", To: []string{to}, Shed: &Shed{MaxWait: time.Minute}}, {To: []string{to + "/rest"}}} // and no machine is too slow
	}
	e := serve(t, Config{Routes: routes(a)})
	bound, end := context.WithTimeout(t.Context(), 30*time.Second)
	defer end()
	ctx, cancel := context.WithCancel(bound)
	defer cancel()
	var group sync.WaitGroup
	var served atomic.Int64
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				status, body := do(t, e.request("GET", "/x/y", nil).WithContext(bound))
				if served.Add(1); status != 200 || body != "a/x/y" && body != "b/x/y" {
					t.Errorf("%d %q", status, body)
					return
				}
			}
		})
	}
	for i := range 200 {
		if err := e.Swap(routes([]string{a, b}[i%2])); err != nil {
			t.Fatal(err)
		}
	}
	for served.Load() < 100 && bound.Err() == nil && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	group.Wait()
	if n := served.Load(); n < 100 {
		t.Fatalf("%d requests were served, want 100", n)
	}
	before := *e.routes.Load()
	if err := e.Swap(routes(b)); err != nil {
		t.Fatal(err)
	}
	if after := *e.routes.Load(); after[0].pool != before[0].pool || after[0].shed != before[0].shed {
		t.Error("a route to the same upstream has lost its connections or its shedder")
	}
	if err := e.Swap([]Route{{To: []string{b}}, {Match: "x", To: []string{b}}}); err == nil || err.Error() != `routes[1].match: "x": must have a path, as /api/* or api.example.org/*` {
		t.Errorf("a wrong route: %v", err)
	}
	if status, body := do(t, e.request("GET", "/x/y", nil)); status != 200 || body != "b/x/y" {
		t.Errorf("after a swap that was refused: %d %q", status, body)
	}
}

// TestSwapRemembers: a route that replaces another begins with the addresses that are known
// of its upstreams: the name server may be away.
func TestSwapRemembers(t *testing.T) {
	to := strings.Replace(service(t, func(http.ResponseWriter, *http.Request) {}), "127.0.0.1", "localhost", 1)
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
	if status, _ := do(t, e.request("GET", "/", nil)); status != 200 {
		t.Fatal(status)
	}
	before := e.Upstreams()
	if err := e.Swap([]Route{{To: []string{to}, Timeout: time.Second}}); err != nil {
		t.Fatal(err)
	}
	if after := e.Upstreams(); len(after) != 1 || after[0] != before[0] {
		t.Errorf("%+v are known, want %+v", after, before)
	}
}

// TestSwapForgets: routes that were replaced are forgotten with their last request, not
// when their exchanges would have been idle for long. net/http may keep one for the 90 s
// of an idle connection, where it closes that while it is put aside.
func TestSwapForgets(t *testing.T) {
	to := service(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	e := serve(t, Config{Routes: []Route{{To: []string{to}}}})
	var old []weak.Pointer[route]
	for i := range 20 {
		if status, _ := do(t, e.request("POST", "/", strings.NewReader("x"))); status != 200 {
			t.Fatal(status)
		}
		old = append(old, weak.Make((*e.routes.Load())[0]))
		if err := e.Swap([]Route{{To: []string{to}, Timeout: time.Duration(i+1) * time.Second}}); err != nil {
			t.Fatal(err)
		}
	}
	held := len(old)
	for late := time.Now().Add(10 * time.Second); held > len(old)/2 && time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		held = 0
		for _, p := range old {
			if p.Value() != nil {
				held++
			}
		}
	}
	if held > len(old)/2 {
		t.Errorf("%d of %d routes are held still", held, len(old))
	}
}
