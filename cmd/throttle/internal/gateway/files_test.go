package gateway

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
)

// TestAffordable: connections leave files to reach upstreams, also for streams beside them.
func TestAffordable(t *testing.T) {
	for _, c := range []struct{ most, files, sockets, want, besides int }{
		{10_000, 0, 1, 10_000, 10_000},       // unknown
		{10_000, 1 << 20, 1, 10_000, 10_000}, // enough
		{100_000, 1 << 20, 1, 100_000, 100_000},
		{10_000, 30_000, 1, 10_000, 9936},
		{10_000, 29_998, 1, 9978, 9978},
		{10_000, 30_064, 4, 2500, 10_000},
		{10_000, 120_000, 4, 10_000, 39_936},
		{10_000, 1024, 1, 320, 320},
		{100, 1024, 1, 100, 760},
		{10_000, 40, 1, 10, 10},
		{10_000, 3, 8, 1, 1},
	} {
		got := affordable(c.most, c.files, c.sockets)
		if also := besides(got*c.sockets, c.files); got != c.want || also != c.besides {
			t.Errorf("of %d connections with %d files and %d sockets: %d, with %d streams beside; want %d and %d", c.most, c.files, c.sockets, got, also, c.want, c.besides)
		}
	}
}

// TestShares: of the places that are free an upstream takes three quarters, the next as much of the rest,
// so that some are left however many hang; all come back.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		places int
		want   []int // that each takes, one after the other
	}{
		{1, []int{1, 0}},
		{2, []int{2, 0}},
		{4, []int{3, 1}},
		{64, []int{48, 12, 3, 1, 0}},
		{10_000, []int{7500, 1875, 469, 117, 30, 7, 2, 0}},
	} {
		var s shares
		pools := make([]*upstream.Pool, len(c.want))
		got := make([]int, len(c.want))
		for i := range pools {
			for pools[i] = new(upstream.Pool); s.take(pools[i], c.places); got[i]++ {
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %d places, one after the other takes %v, want %v", c.places, got, c.want)
		}
		for i, p := range pools {
			for range got[i] {
				s.give(p)
			}
		}
		if s.sum != 0 || len(s.held) != 0 {
			t.Errorf("of %d places, given back: %d are held by %d, want none", c.places, s.sum, len(s.held))
		}
	}
}

// TestStreamsOfOneRoute: streams to an upstream that hangs leave places beside the first of
// each connection to other routes. With one route alone there is no such bound.
func TestStreamsOfOneRoute(t *testing.T) {
	for _, alone := range []bool{false, true} {
		var hung atomic.Int64
		hangs := service(t, func(_ http.ResponseWriter, r *http.Request) {
			hung.Add(1)
			defer hung.Add(-1)
			<-r.Context().Done()
		})
		routes := []Route{{Match: "/hangs", To: []string{hangs}}, {To: []string{service(t, func(http.ResponseWriter, *http.Request) {})}}}
		if alone {
			routes = routes[:1]
		}
		g, err := New(Config{Routes: routes, Listen: []Listen{{Addr: "127.0.0.1:0"}}, Drain: Drain{Timeout: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		g.beside = make(chan struct{}, 4)
		e := run(t, g)
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		one := &http.Transport{Protocols: protocols}
		defer one.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		refused := make(chan string, 5)
		for range 5 { // the first, and four beside it
			go func() {
				if status, after := e.by(ctx, one, "/hangs"); status == http.StatusServiceUnavailable {
					refused <- after
				}
			}()
		}
		want := map[bool]int64{false: 4, true: 5}[alone]
		for hung.Load() < want && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		if alone {
			cancel()
			continue
		}
		select {
		case after := <-refused:
			if after != "1" {
				t.Errorf("Retry-After is %q, want 1", after)
			}
		case <-ctx.Done():
			t.Fatal("no stream is refused")
		}
		if status, _ := e.by(ctx, one, "/quick"); status != http.StatusOK {
			t.Errorf("the other route: %d, want 200", status)
		}
		cancel()
	}
}

// TestManyStreams: the streams of one connection of HTTP/2 take no more connections to
// upstreams than the one that is kept for it and those that all share. Others wait, and are
// answered 503 in the end; other callers are served. Upstreams that speak HTTP/2 are asked at once.
func TestManyStreams(t *testing.T) {
	var slow atomic.Int64
	serves := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/quick" {
			return
		}
		slow.Add(1)
		defer slow.Add(-1)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	g, err := New(Config{Routes: []Route{
		{Match: "/h2/*", To: []string{h2cService(t)}},
		{To: []string{service(t, serves)}, Timeout: time.Second},
	}, Listen: []Listen{{Addr: "127.0.0.1:0"}}, Drain: Drain{Timeout: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	g.beside = make(chan struct{}, 2)
	e := run(t, g)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	flood, other := &http.Transport{Protocols: protocols}, &http.Transport{Protocols: protocols}
	defer flood.CloseIdleConnections()
	defer other.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	refused, served := make(chan string, 5), make(chan string, 5)
	for range 5 {
		go func() {
			if status, after := e.by(ctx, flood, "/slow"); status == 503 {
				refused <- after
			} else {
				served <- after
			}
		}()
	}
	for range 2 {
		select {
		case after := <-refused:
			if after != "1" {
				t.Errorf("Retry-After is %q, want 1", after)
			}
		case <-ctx.Done():
			t.Fatal("no stream is refused")
		}
	}
	if n := slow.Load(); n != 3 {
		t.Errorf("%d streams of one connection are with the upstream, want 3", n)
	}
	for range 2 {
		if status, _ := e.by(t.Context(), other, "/quick"); status != 200 {
			t.Errorf("another caller: %d, want 200", status)
		}
		if status, _ := e.by(t.Context(), flood, "/h2/quick"); status != 200 {
			t.Errorf("to an upstream by HTTP/2: %d, want 200", status)
		}
	}
	cancel()
	for range 3 {
		<-served
	}
	if status, _ := e.by(t.Context(), flood, "/quick"); status != 200 {
		t.Errorf("after the flood: %d, want 200", status)
	}
}

// by asks for a path, and returns the status and the field Retry-After of the answer.
func (e *engine) by(ctx context.Context, transport *http.Transport, path string) (status int, after string) {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+e.addr+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	a, err := transport.RoundTrip(r)
	if err != nil {
		return 0, err.Error()
	}
	defer a.Body.Close()
	io.Copy(io.Discard, a.Body) // what is cut is seen by its status
	return a.StatusCode, a.Header.Get("Retry-After")
}
