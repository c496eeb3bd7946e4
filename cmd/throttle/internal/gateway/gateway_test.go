package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
)

// running is a gateway that serves.
type running struct {
	t    *testing.T
	url  string
	stop func() (said string, code int) // ends it, once
	said func() string
}

// start starts a gateway in front of a service on a free port.
func start(t *testing.T, service http.Handler, args ...string) *running {
	t.Helper()
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	return startTo(t, upstream.URL, args...)
}

var listens = regexp.MustCompile(`throttle gateway: (http://[^ ]+) to `)

func startTo(t *testing.T, to string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var all bytes.Buffer
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	go func() {
		err := Run(ctx, append([]string{"-to", to, "-listen", "127.0.0.1:0"}, args...), nil, io.Discard, writer)
		code <- exit.Code(err, writer)
		writer.Close()
	}()
	r := &running{t: t, said: func() string { mu.Lock(); defer mu.Unlock(); return all.String() }}
	addresses := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			mu.Lock()
			fmt.Fprintln(&all, lines.Text())
			mu.Unlock()
			if m := listens.FindStringSubmatch(lines.Text()); m != nil {
				addresses <- m[1]
			}
		}
	}()
	stop := sync.OnceValues(func() (string, int) {
		cancel()
		<-ended
		return r.said(), <-code
	})
	r.stop = stop
	t.Cleanup(func() { stop() })
	select {
	case r.url = <-addresses:
	case <-ended:
		t.Fatalf("the gateway ended: %s", r.said())
	}
	return r
}

// get sends a request with fields, and returns the status and the body.
func (r *running) get(path string, fields ...string) (int, string) {
	r.t.Helper()
	q, err := http.NewRequest("GET", r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		q.Header.Add(fields[i], fields[i+1])
	}
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return a.StatusCode, string(body)
}

// statuses are those of the same request several times.
func (r *running) statuses(n int, path string, fields ...string) string {
	r.t.Helper()
	var all []string
	for range n {
		status, _ := r.get(path, fields...)
		all = append(all, fmt.Sprint(status))
	}
	return strings.Join(all, " ")
}

var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, r.Method, " ", r.URL, " ", r.Header.Get("X-Forwarded-For"), " ", r.Header.Get("X-Real-Ip"))
})

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		args []string
		send func(r *running) string
		want string
	}{
		{[]string{"-limit", "2/h by address"}, func(r *running) string { return r.statuses(3, "/", "X-Forwarded-For", "192.0.2.1") }, "200 200 429"},
		{[]string{"-limit", "1/h by header:X-Key"}, func(r *running) string {
			return r.statuses(2, "/", "X-Key", "a") + " " + r.statuses(2, "/", "X-Key", "b")
		}, "200 429 200 429"},
		{[]string{"-limit", "3/h", "-limit", "1/h by path:1"}, func(r *running) string {
			return r.statuses(2, "/a/x") + " " + r.statuses(2, "/b") + " " + r.statuses(2, "/c")
		}, "200 429 200 429 200 429"},
		{[]string{"-limit", "1/h by address + path:1"}, func(r *running) string { return r.statuses(2, "/a") + " " + r.statuses(1, "/b") }, "200 429 200"},
		{[]string{"-limit", "1/h by address", "-trust", "127.0.0.0/8,::1"}, func(r *running) string {
			return r.statuses(2, "/", "X-Forwarded-For", "192.0.2.1") + " " + r.statuses(1, "/", "X-Forwarded-For", "192.0.2.2")
		}, "200 429 200"},
		{[]string{"-shed"}, func(r *running) string { return r.statuses(3, "/") }, "200 200 200"},
	} {
		if got := c.send(start(t, echo, c.args...)); got != c.want {
			t.Errorf("throttle gateway %q: %s, want %s", c.args, got, c.want)
		}
	}
}

// TestForwardedFor: the service sees the address that the gateway saw; what is
// before it comes from proxies that are trusted.
func TestForwardedFor(t *testing.T) {
	if _, body := start(t, echo, "-limit", "9/s").get("/x?y=1", "X-Forwarded-For", "6.6.6.6", "X-Real-IP", "6.6.6.6"); body != "GET /x?y=1 127.0.0.1 127.0.0.1" {
		t.Errorf("the service sees %q", body)
	}
	if _, body := start(t, echo, "-limit", "9/s", "-trust", "127.0.0.1").get("/", "X-Forwarded-For", "192.0.2.1"); body != "GET / 192.0.2.1, 127.0.0.1 192.0.2.1" {
		t.Errorf("behind a trusted proxy the service sees %q", body)
	}
	path := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(path, []byte(`{"proxies": {"trusted": "127.0.0.1"}, "rules": [{"name": "a", "limits": "9/s"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, body := start(t, echo, "-rules", path).get("/", "X-Forwarded-For", "192.0.2.1"); body != "GET / 192.0.2.1, 127.0.0.1 192.0.2.1" {
		t.Errorf("behind a proxy that the rules trust the service sees %q", body)
	}
}

// TestServiceFails: what a service does not answer is told from what it is too
// late with.
func TestServiceFails(t *testing.T) {
	r := startTo(t, "http://"+clitest.Vacant(t), "-limit", "9/s")
	if status, body := r.get("/"); status != 502 || !strings.Contains(body, "Bad Gateway") || strings.Contains(body, "refused") {
		t.Errorf("nobody listens: %d %q", status, body)
	}
	if said, _ := r.stop(); !strings.Contains(said, "no upstream answered") || !strings.Contains(said, "connection refused") {
		t.Errorf("the log says\n%s", said)
	}
	hung := make(chan struct{})
	r = start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }), "-limit", "9/s", "-timeout", "50ms")
	status, _ := r.get("/")
	close(hung)
	if status != 504 {
		t.Errorf("a service that hangs: %d, want 504", status)
	}
}

// TestStreams: answers flow as they are written, and other protocols pass.
func TestStreams(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Upgrade") != "" {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			io.CopyN(conn, rw, 5)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		http.NewResponseController(w).Flush()
		<-q.Context().Done()
	}), "-limit", "9/s")
	ctx, cancel := context.WithCancel(t.Context())
	q, _ := http.NewRequestWithContext(ctx, "GET", r.url, nil)
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(a.Body).ReadString('\n')
	if err != nil || line != "data: 1\n" {
		t.Errorf("an event before the end of the answer: %q, %v", line, err)
	}
	cancel()
	a.Body.Close()

	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	if a, err = http.ReadResponse(in, nil); err != nil || a.StatusCode != 101 {
		t.Fatalf("%v, %v; want 101", a, err)
	}
	fmt.Fprint(conn, "hello")
	text := make([]byte, 5)
	if _, err := io.ReadFull(in, text); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v through an upgraded connection", text, err)
	}
}

// TestDrain: requests in flight end before the gateway does, or -drain does.
func TestDrain(t *testing.T) {
	for _, c := range []struct {
		drain  string
		status int
		code   int
	}{{"10s", 200, 0}, {"20ms", 0, 1}} {
		begun, goOn := make(chan struct{}), make(chan struct{})
		r := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-goOn
			fmt.Fprint(w, "done")
		}), "-limit", "9/s", "-drain", c.drain)
		status := make(chan int, 1)
		go func() {
			a, err := http.Get(r.url)
			if err != nil {
				status <- 0
				return
			}
			a.Body.Close()
			status <- a.StatusCode
		}()
		<-begun
		stopped := make(chan int, 1)
		go func() { _, code := r.stop(); stopped <- code }()
		if c.code == 0 {
			select {
			case <-stopped:
				t.Error("the gateway ended before the request")
			case <-time.After(50 * time.Millisecond):
			}
			close(goOn)
		}
		if got := <-stopped; got != c.code {
			t.Errorf("-drain %s: exit code %d, want %d: %s", c.drain, got, c.code, r.said())
		}
		if got := <-status; got != c.status {
			t.Errorf("-drain %s: the request ended with %d, want %d", c.drain, got, c.status)
		}
		if c.code != 0 {
			close(goOn)
		}
	}
}

// TestRulesFile: new rules count without a restart; wrong ones change nothing.
func TestRulesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"version": "one", "rules": [{"name": "a", "limits": "1/h"}]}`)
	r := start(t, echo, "-rules", path, "-refresh", "10ms")
	until := func(what string) {
		t.Helper()
		for range 500 {
			if strings.Contains(r.said(), what) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("no %q in\n%s", what, r.said())
	}
	if got := r.statuses(2, "/"); got != "200 429" {
		t.Errorf("under one: %s", got)
	}
	write(`{"version": "bad", "rules": [{"name": "a", "limits": "1/fortnight"}]}`)
	until("the rules stay as they are")
	if got := r.statuses(1, "/"); got != "429" {
		t.Errorf("while the file is wrong: %s", got)
	}
	write(`{"version": "two", "rules": [{"name": "a", "limits": "3/h"}]}`)
	until("version=two")
	if got := r.statuses(3, "/"); got != "200 200 429" {
		t.Errorf("under two: %s; want what was used to count", got)
	}
}

// TestStoreAway: the gateway starts without its store, says so, and goes on as
// -away says.
func TestStoreAway(t *testing.T) {
	for away, want := range map[string]string{"share": "200 200 429", "pass": "200 200 200", "refuse": "429 429 429"} {
		r := start(t, echo, "-limit", "4/h", "-instances", "2", "-store", "redis://127.0.0.1:1", "-away", away)
		if got := r.statuses(3, "/"); got != want {
			t.Errorf("-away %s: %s, want %s", away, got, want)
		}
		if said, _ := r.stop(); !strings.Contains(said, "the store does not decide") || !strings.Contains(said, "in redis://127.0.0.1:1") {
			t.Errorf("-away %s: the log says\n%s", away, said)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{\n \"rules\": [{\"name\": \"a\", \"limits\": \"no\"}]}"), 0o644); err != nil {
		t.Fatal(err)
	}
	to := []string{"-to", "http://127.0.0.1:1"}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{2, nil, "-to is missing; write where requests go"},
		{2, []string{"-to", "127.0.0.1:3000"}, "-to 127.0.0.1:3000: must be like http://HOST:PORT"},
		{2, []string{"-to", "http://"}, "-to http://: must be like http://HOST:PORT"},
		{2, []string{"-to", "http://u:secret@x"}, "must have no user"},
		{2, []string{"-to", "http://u:secret/x@x"}, "-to (not shown): must be like"},
		{2, []string{"-to", "http://u:secret"}, "-to (not shown): must be like"},
		{2, []string{"-to", "http://x?secret"}, "-to (not shown): must have no user, no query"},
		{2, []string{"-to", "http://x:99999"}, "-to http://x:99999: the port must be a number from 1 to 65535"},
		{2, to, "nothing is limited; write -limit"},
		{2, append(to, "x"), "x is too much"},
		{2, append(to, "-limit", "3"), "gateway: -limit 3: has no '/'; write COUNT/"},
		{2, append(to, "-limit", "3/s", "-limit", "9/h", "-store", "redis://h/?cluster=true&slots=1024"), "gateway: -store: slots puts the keys of several -limit in different slots"},
		{2, append(to, "-limit", "x/min by address"), `-limit "x/min by address": COUNT is not`},
		{2, append(to, "-limit", "3/min by colour"), `-limit "3/min by colour": `},
		{2, append(to, "-limit", "3/min by client"), "authenticates nobody"},
		{2, append(to, "-limit", "3/min by header:X-Forwarded-For"), "no request has X-Forwarded-For: the gateway removes it, as no proxy is trusted to set it; write another field, or address with -trust"},
		{2, append(to, "-trust", "10.0.0.0/8", "-limit", "3/min by address+header:X_Key"), "no request has X_Key: the gateway removes fields with _ in their names"},
		{2, append(to, "-limit", "3/min", "-rules", bad), "write the limits into the file"},
		{2, append(to, "-rules", bad, "-trust", "10.0.0.0/8"), `write "proxies" into the file`},
		{2, append(to, "-rules", bad), "bad.json:2:"},
		{2, append(to, "-rules", bad+"no"), "bad.jsonno: no such file"},
		{2, append(to, "-limit", "3/min", "-trust", "10.0.0.0/99"), "-trust 10.0.0.0/99: must be an address or a network"},
		{2, append(to, "-limit", "3/min", "-away", "maybe"), "must be share, pass or refuse"},
		{2, append(to, "-limit", "3/min", "-instances", "0"), "-instances 0: must be at least 1"},
		{2, append(to, "-limit", "3/min", "-instances", "2"), "-instances is for a store in the network; write -store URL too"},
		{2, append(to, "-limit", "3/min", "-store", "memory:", "-away", "pass"), "-away is for a store in the network"},
		{2, append(to, "-limit", "3/min", "-refresh", "1s"), "-refresh is for -rules, which is missing"},
		{2, append(to, "-limit", "3/min", "-trust", ""), "flag -trust: is empty, as by a variable that is not set; write a value, or leave it out; run"},
		{2, append(to, "-limit", "3/min", "-client-ca", ""), "flag -client-ca: is empty, as by a variable that is not set"},
		{2, append(to, "-limit", "3/min", "-timeout", "0s"), "-timeout 0s: must be above zero"},
		{2, append(to, "-limit", "3/min", "-timeout", "5"), "-timeout: want a duration such as 5s"},
		{2, append(to, "-limit", "3/min", "-drain", "-1s"), "-drain -1s: must be above zero"},
		{2, append(to, "-limit", "3/min", "-refresh", "0"), "-refresh 0s: must be above zero"},
		{2, append(to, "-limit", "3/min", "-store", "memory:/tmp/x"), "write memory:"},
		{2, append(to, "-limit", "3/min", "-store", ""), "-store: is empty, as by a variable that is not set; write a value"},
		{1, append(to, "-limit", "3/min", "-listen", "192.0.2.1:1"), "gateway: -listen 192.0.2.1:1: bind: "},
		{2, append(to, "-limit", "3/min", "-listen", "8080"), "-listen 8080: must be HOST:PORT"},
		{2, append(to, "-limit", "3/min", "-listen", ":99999"), "-listen :99999: must be HOST:PORT"},
		{2, append(to, "-limit", "3/min", "-cert", bad, "-key", bad), "-cert, -key, -client-ca: cert " + bad},
		{2, append(to, "-limit", "3/min", "-cert", bad+"no", "-key", bad), "bad.jsonno: no such file"},
		{2, append(to, "-limit", "3/min", "-trust", "0.0.0.0/0"), "-trust: trusts everybody"},
		{2, append(to, "-limit", "3/min", "-identity", "X-C from 0.0.0.0/0"), "gateway: -identity: trusts everybody"},
		{2, append(to, "-limit", "3/min", "-proxy-protocol", "0.0.0.0/0"), "gateway: -proxy-protocol: trusts everybody"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		stdout, stderr, code := clitest.Play(ctx, Run, c.args...)
		cancel()
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "secret") {
			t.Errorf("throttle gateway %q: code %d, %q, %q; want code %d, ...%q...", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	if stdout, _, code := clitest.Play(t.Context(), Run, "-h"); code != 0 || stdout != help {
		t.Errorf("-h: code %d, %q", code, stdout)
	}
}
