//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/browsertest"
)

// wire is what is between a browser and an instance. It may be cut.
type wire struct {
	mu    sync.Mutex
	to    *gatewayProcess
	cut   int           // what requests get: 0 what they ask for, 1 a closed connection, else a status
	now   chan struct{} // closed when it is cut
	after []string      // after which tick each stream was asked for
	ids   []int64       // of the ticks that were sent
}

// ServeHTTP passes requests on, and counts the ticks of streams.
func (l *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	to, cut, now := l.to, l.cut, l.now
	l.mu.Unlock()
	switch {
	case cut == 1:
		panic(http.ErrAbortHandler) // closes the connection
	case cut != 0:
		w.WriteHeader(cut)
	case r.URL.Path == "/api/v1/stream":
		l.stream(w, r, to, now)
	default:
		p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // the Host stays
			r.Out.URL.Scheme, r.Out.URL.Host = "http", to.admin
		}}
		p.ServeHTTP(w, r)
	}
}

// stream passes a stream on, line by line, until it is cut.
func (l *wire) stream(w http.ResponseWriter, r *http.Request, to *gatewayProcess, now <-chan struct{}) {
	q := r.Clone(r.Context())
	q.URL.Scheme, q.URL.Host, q.RequestURI = "http", to.admin, ""
	q.Header.Del("Accept-Encoding")
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer a.Body.Close()
	go func() {
		select {
		case <-now:
		case <-r.Context().Done():
		}
		a.Body.Close()
	}()
	if a.StatusCode != http.StatusOK {
		w.WriteHeader(a.StatusCode)
		return
	}
	l.asked(r)
	w.Header().Set("Content-Type", a.Header.Get("Content-Type"))
	id := int64(0)
	for s := bufio.NewScanner(a.Body); s.Scan(); {
		fmt.Fprintln(w, s.Text())
		_ = http.NewResponseController(w).Flush() // an error means that the reader has gone
		if text, is := strings.CutPrefix(s.Text(), "id: "); is {
			id, _ = strconv.ParseInt(text, 10, 64)
		}
		if s.Text() == "" && id > 0 { // the end of a tick
			l.mu.Lock()
			l.ids = append(l.ids, id)
			l.mu.Unlock()
			id = 0
		}
	}
	panic(http.ErrAbortHandler)
}

func (l *wire) asked(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		l.after = append(l.after, id)
		return
	}
	l.after = append(l.after, r.FormValue("after"))
}

// cuts ends all streams, and answers requests as said from now on.
func (l *wire) cuts(as int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = as
	close(l.now)
	l.now = make(chan struct{})
}

// heals passes requests on again, to an instance.
func (l *wire) heals(to *gatewayProcess) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to, l.cut = to, 0
}

// sent is after which tick each stream was asked for, and the ticks of all.
func (l *wire) sent() (after []string, ids []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.after), slices.Clone(l.ids)
}

// TestPageStreamCut: a page whose stream is cut says so, and goes on behind the last tick
// that it had, with those that were missed, once each; after a restart of its instance it
// leads to the form that signs in.
func TestPageStreamCut(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t)
	g := startAlone(t)
	l := &wire{to: g, now: make(chan struct{})}
	site := httptest.NewServer(l)
	t.Cleanup(site.Close)
	t.Cleanup(func() { l.cuts(1) })
	signIn(b, site.URL, exampleToken, "/")
	b.Await(isLive)
	b.Await(`document.querySelector("path.passed").getAttribute("d").length > 20`)
	for _, as := range []int{1, http.StatusBadGateway} { // the connection is closed; a proxy cannot reach the instance
		l.cuts(as)
		b.Await(`document.getElementById("live").textContent === "reconnecting"`)
		before, had := l.sent()
		time.Sleep(3 * time.Second) // three ticks, of real time
		l.heals(g)
		b.Await(isLive)
		after, ids := l.sent()
		if last := had[len(had)-1]; len(after) <= len(before) || after[len(before)] != fmt.Sprint(last) || len(ids) <= len(had) {
			t.Errorf("cut by %d: streams behind %q after %q, %d ticks after %d; want the first more behind %d", as, after, before, len(ids), len(had), last)
		}
		missing(t, g, ids)
		b.Await(`document.querySelector("path.passed").getAttribute("d").split("Z").length === 2`) // no gap
	}
	if err := g.end(); err != nil {
		t.Errorf("it ended by %v: %s", err, g.log)
	}
	l.cuts(1)
	b.Await(`document.getElementById("live").textContent === "reconnecting"`)
	l.heals(startAlone(t))
	b.Await(`document.body.dataset.view === "signin"`)
	signIn(b, site.URL, exampleToken, "/")
	b.Await(isLive)
	b.ForgiveNetwork()
	b.Clean(site.URL + "/")
}

// missing fails the test unless ids are all that an instance has measured since the first
// of them, once each and in order.
func missing(t *testing.T, g *gatewayProcess, ids []int64) {
	t.Helper()
	var ring struct{ Ticks []struct{ ID int64 } }
	if err := json.Unmarshal([]byte(g.api("GET", "/api/v1/series", "")), &ring); err != nil {
		t.Fatal(err)
	}
	var want []int64
	for _, one := range ring.Ticks {
		if one.ID >= ids[0] && one.ID <= ids[len(ids)-1] {
			want = append(want, one.ID)
		}
	}
	if !slices.Equal(ids, want) {
		t.Errorf("the page had ticks %v, want %v", ids, want)
	}
}
