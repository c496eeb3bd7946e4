package probe

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/signal"
)

// A service that cannot be asked costs one line, and one request.
func TestCannotAsk(t *testing.T) {
	var requests atomic.Int32
	answer := func(status int, location string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			if location != "" {
				w.Header().Set("Location", location)
			}
			w.WriteHeader(status)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	dead := "http://" + clitest.Vacant(t)
	quiet := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		<-r.Context().Done()
	}))
	t.Cleanup(quiet.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for _, test := range []struct {
		url, want string
		requests  int32
	}{
		{dead, "nothing listens there: connection refused", 0},
		{secure.URL, "TLS: the certificate is signed by an unknown authority; -insecure accepts any", 0},
		{"https" + strings.TrimPrefix(answer(200, ""), "http"), "TLS: the server speaks plain HTTP; write http://", 0},
		{answer(302, "https://elsewhere.example/login?token=secret"), "it redirects to https://elsewhere.example/login?…; name that URL", 1},
		{answer(301, "/there/"), "/there/; name that URL", 1},
		{answer(500, ""), "it answers 500 Internal Server Error", 1},
	} {
		requests.Store(0)
		stdout, stderr, code := clitest.Play(t.Context(), Run, "-limit", "-yes", test.url)
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, "throttle: find: "+test.url+": ") || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "secret") {
			t.Errorf("find -limit %s: got code %d, stdout %q, stderr %q\nwant code 1, nothing, one line with %q", test.url, code, stdout, stderr, test.want)
		}
		if n := requests.Load(); n != test.requests {
			t.Errorf("find -limit %s sent %d requests, want %d", test.url, n, test.requests)
		}
	}
	_, stderr, code := clitest.Play(t.Context(), Run, "-limit", "-timeout=50ms", quiet.URL)
	if want := "throttle: find: " + quiet.URL + ": no answer within 50ms\n"; code != 1 || stderr != want {
		t.Errorf("find -limit of a service that never answers: code %d, %q; want 1, %q", code, stderr, want)
	}
}

// What is sent is what the flags say, over few connections; what is read is what
// a dialect needs.
func TestTarget(t *testing.T) {
	connections, got := atomic.Int32{}, make(chan string, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 10)
		n, _ := r.Body.Read(body)
		got <- fmt.Sprintf("%s %s %s %s %s", r.Method, r.Host, r.Header.Get("X-A"), r.Header.Get("User-Agent"), body[:n])
		w.Header().Add("RateLimit", `"a";r=3;t=2`)
		w.Header().Add("RateLimit", `"b";r=4;t=2`)
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Else", "nothing")
		w.WriteHeader(429)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	o, err := optionsOf([]string{"-limit", "-H", "X-A: b: c", "-H", "Host: api.example.com", "-d", "{}", s.URL})
	if err != nil {
		t.Fatal(err)
	}
	o.to.dialect = signal.For("")
	o.to.connect(1)
	defer o.to.close()
	for range 2 {
		before := time.Now()
		a, err := o.to.send(t.Context())
		if want := "POST api.example.com b: c throttle-find {}"; <-got != want || err != nil {
			t.Errorf("sent something else than %s, or %v", want, err)
		}
		if a.status != 429 || a.field("Retry-After") != "7" || a.field("ratelimit") != `"a";r=3;t=2, "b";r=4;t=2` || a.field("X-Else") != "" {
			t.Errorf("read %d %v", a.status, a.fields)
		}
		if a.sent.Before(before) || a.ended.Before(a.sent) || a.ended.After(time.Now()) {
			t.Errorf("sent at %v, answered at %v, begun at %v", a.sent, a.ended, before)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// A server that closes the connection is named as the cause.
func TestNoAnswer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer s.Close()
	_, err := http.Get(s.URL)
	if got, want := plainError(err, time.Second), "the connection was closed before an answer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A name that does not resolve is told from one that could not be asked for.
func TestNoSuchHost(t *testing.T) {
	err := &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "no-such-host.invalid", IsNotFound: true}}}
	if got, want := plainError(err, time.Second), "there is no host no-such-host.invalid"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := plainError(&net.DNSError{Err: "server misbehaving", Name: "x", IsTemporary: true}, time.Second); strings.Contains(got, "no host") {
		t.Errorf("a server of names that fails: %q", got)
	}
}

// A user and password of the URL are sent, unless a header field is in their place.
func TestUserOfURL(t *testing.T) {
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Authorization") }))
	defer s.Close()
	address := strings.Replace(s.URL, "http://", "http://me:secret@", 1)
	for want, args := range map[string][]string{
		"Basic bWU6c2VjcmV0": {"-limit", address}, "Bearer x": {"-limit", "-H", "Authorization: Bearer x", address},
	} {
		o, err := optionsOf(args)
		if err != nil {
			t.Fatal(err)
		}
		o.to.dialect = signal.For("")
		o.to.connect(1)
		_, err = o.to.send(t.Context())
		o.to.close()
		if a := <-got; a != want || err != nil {
			t.Errorf("sent %q, %v, want %q", a, err, want)
		}
	}
}

// A name of this machine that leads elsewhere is not connected to.
func TestLoopbackOnly(t *testing.T) {
	o, err := optionsOf([]string{"-limit", "http://localhost:1/"})
	if err != nil {
		t.Fatal(err)
	}
	o.to.connect(1)
	_, err = o.to.client.DialContext(t.Context(), "tcp", "192.0.2.1:80")
	if err == nil || !strings.Contains(err.Error(), "192.0.2.1:80: not an address of this machine") {
		t.Errorf("connecting elsewhere: %v", err)
	}
}

// An interrupt ends a request that waits for its answer, at once.
func TestInterrupt(t *testing.T) {
	begun := make(chan bool, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	stdout, stderr, code := clitest.Play(ctx, Run, "-limit", "-timeout=1h", s.URL)
	if want := "throttle: find: interrupted: 1 request sent, 0 refused\n"; code != 1 || stdout != "" || stderr != want {
		t.Errorf("got code %d, stdout %q, stderr %q; want 1, nothing, %q", code, stdout, stderr, want)
	}
}
