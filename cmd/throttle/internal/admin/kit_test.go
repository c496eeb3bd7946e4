package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	readSecret  = "reading-only-0123456789"
	writeSecret = "may-write-too-0123456789"
)

var tokens = []Token{{"dash", readSecret, false}, {"jane", writeSecret, true}}

// running is an admin role that serves.
type running struct {
	t    *testing.T
	base string
	http *http.Client
	stop func() error // ends it, once
}

// start serves c on loopback until the test ends.
func start(t *testing.T, c Config) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, c, l)
}

func startOn(t *testing.T, c Config, l net.Listener) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, c, l) }()
	scheme := "http://"
	if c.TLS != nil {
		scheme = "https://"
	}
	transport := &http.Transport{}
	r := &running{t: t, base: scheme + l.Addr().String(), http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
	r.stop = sync.OnceValue(func() error { cancel(); transport.CloseIdleConnections(); return <-ended })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request; fields are NAME, VALUE, ... of its header.
func (r *running) send(method, path, body string, fields ...string) answer {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Host" {
			q.Host = fields[i+1]
		} else {
			q.Header.Set(fields[i], fields[i+1])
		}
	}
	a, err := r.http.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{a.StatusCode, a.Header, string(text)}
}

// get reads JSON into v, by the token that may read.
func (r *running) get(path string, v any) {
	r.t.Helper()
	a := r.send("GET", path, "", "Authorization", "Bearer "+readSecret)
	if a.status != 200 {
		r.t.Fatalf("GET %s: %d %s", path, a.status, a.body)
	}
	decode(r.t, a.body, v)
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// write sends JSON, by the token that may write.
func (r *running) write(method, path string, v any) answer {
	r.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send(method, path, string(text), "Authorization", "Bearer "+writeSecret)
}

// must is write that succeeds.
func (r *running) must(method, path string, v any) {
	r.t.Helper()
	if a := r.write(method, path, v); a.status != 200 {
		r.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
}

// raw sends bytes as they are, and returns all that comes back until the
// connection is closed.
func (r *running) raw(text string) string {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		return fmt.Sprint(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	back, _ := io.ReadAll(c)
	return string(back)
}

// locked is a buffer that goroutines may write to.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
