package throttlehttp

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
)

// Five clients that know nothing of each other share a limit of 10/s: all
// their work is done, no faster than that, and few tries are refused.
func TestFiveClients(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const clients, work = 5, 200
		served, refused := 0, 0
		var mu sync.Mutex
		h := &Handler{Control: &admit.Control{Limit: limit.Limit{Count: 10, Period: time.Second}}, Next: hello}
		base := &wire{reply: func(_ int, r *http.Request) (*http.Response, error) {
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			a := ask(h, r.Method)
			if a.StatusCode == 200 {
				served++
			} else {
				refused++
			}
			return a, nil
		}}
		began := time.Now()
		var all sync.WaitGroup
		for range clients {
			tr := &Transport{Base: base}
			all.Go(func() {
				for range work {
					a, err := tr.RoundTrip(request(t, "POST", "text"))
					if err != nil || a.StatusCode != 200 {
						t.Errorf("%v, %v; want 200", a, err)
						return
					}
					a.Body.Close()
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		if served != clients*work || took < 99*time.Second || took > 10*time.Minute || refused > served/4 {
			t.Errorf("%d served and %d refused in %v; want %d, at most a quarter of that, in 100 s or not much more", served, refused, took, clients*work)
		}
	})
}

// Over real sockets: what is refused costs no connection, bodies arrive whole
// with each try, and HEAD works like the rest.
func TestOverSockets(t *testing.T) {
	var tries, connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if n := tries.Add(1); n%3 != 0 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, strings.Repeat("slow down ", 1000))
			return
		}
		w.Header().Set("X-Method", r.Method)
		fmt.Fprintf(w, "got %s", text)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := http.Client{Transport: &Transport{Base: new(http.Transport), Throttles: &throttle.Group{New: unpaced}}}
	defer client.CloseIdleConnections()
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		var sent io.Reader
		want := "got "
		if method == "POST" || method == "PUT" || method == "PATCH" {
			sent, want = strings.NewReader("a text"), "got a text"
		}
		if method == "HEAD" {
			want = ""
		}
		req, err := http.NewRequest(method, server.URL, sent)
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != 200 || string(text) != want || a.Header.Get("X-Method") != method {
			t.Errorf("%s: %d %q, %v by %s; want 200 %q", method, a.StatusCode, text, err, a.Header.Get("X-Method"), want)
		}
	}
	if tries.Load() != 18 || connections.Load() != 1 {
		t.Errorf("%d tries over %d connections; want 18 over 1", tries.Load(), connections.Load())
	}
}

// A Handler behind a real server says by HTTP what it says by hand.
func TestHandlerOverSockets(t *testing.T) {
	server := httptest.NewServer(&Handler{Control: &admit.Control{Store: &book{now: t0}, Limit: limit.Limit{Count: 1, Period: time.Minute}}, Next: hello})
	defer server.Close()
	for i, want := range []string{
		`200 | RateLimit: "default";r=0;t=60 | RateLimit-Policy: "default";q=1;w=60`,
		`429 | Retry-After: 60 | RateLimit: "default";r=0;t=60 | RateLimit-Policy: "default";q=1;w=60`,
		`429 | Retry-After: 60 | RateLimit: "default";r=0;t=60 | RateLimit-Policy: "default";q=1;w=60`,
	} {
		method := []string{"GET", "GET", "HEAD"}[i]
		req, err := http.NewRequest(method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		a.Body.Close()
		if got := told(a); got != want || err != nil || len(text) == 0 != (method == "HEAD") {
			t.Errorf("request %d, %s:\ngot  %s, %d bytes, %v\nwant %s", i, method, got, len(text), err, want)
		}
	}
}
