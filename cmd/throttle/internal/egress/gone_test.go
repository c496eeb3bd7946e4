package egress

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// state is how far a request is when its caller goes away.
type state struct {
	name   string
	body   func() io.ReadCloser
	length int64  // of the body; -1: none is told
	left   [4]int // of engine.left, when it is that far
	api    http.HandlerFunc
	whole  chan struct{} // receives when api has read all of the body; nil: that is not waited for
	begun  bool          // the caller has the beginning of the answer
}

func none() io.ReadCloser  { return http.NoBody }
func hello() io.ReadCloser { return io.NopCloser(strings.NewReader("hello")) }
func long() io.ReadCloser  { return io.NopCloser(strings.NewReader(strings.Repeat("x", 2<<20))) }

// states are those of a request to an API whose handlers end with their requests, or with the test.
func states(t *testing.T) []state {
	over, whole := t.Context(), make(chan struct{})
	wait := func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case whole <- struct{}{}:
		case <-r.Context().Done():
		case <-over.Done():
		}
		select {
		case <-r.Context().Done():
		case <-over.Done():
		}
	}
	part := func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 has it always
		io.WriteString(w, "part")
		http.NewResponseController(w).Flush()
		wait(w, r)
	}
	return []state{
		{"in line", none, 0, [4]int{1, 0, 1, 0}, nil, nil, false},
		{"in line, its body kept", hello, 5, [4]int{1, 0, 1, 5}, nil, nil, false},
		{"its body incomplete", pausing, 100, [4]int{0, 0, 1, 100}, nil, nil, false},
		{"resting before a retry", hello, 5, [4]int{1, 0, 1, 5}, status(429, "Retry-After", "30"), nil, false},
		{"in flight", none, 0, [4]int{0, 1, 1, 0}, wait, whole, false},
		{"uploading", pausing, -1, [4]int{0, 1, 1, 0}, wait, nil, false},
		{"uploading by length", pausing, 10 << 20, [4]int{0, 1, 1, 0}, wait, nil, false},
		{"uploaded", hello, -1, [4]int{0, 1, 1, 0}, wait, whole, false},
		{"uploaded by length", long, 2 << 20, [4]int{0, 1, 1, 0}, wait, whole, false},
		{"answered in part", none, 0, [4]int{0, 0, 1, 0}, part, whole, true},
		{"answered in part, uploading", pausing, -1, [4]int{0, 0, 1, 0}, part, nil, true},
		{"answered in part, uploaded", hello, -1, [4]int{0, 0, 1, 0}, part, whole, true},
	}
}

// TestGoneAnywhere: a caller that goes away, however far its request is, leaves nothing behind.
func TestGoneAnywhere(t *testing.T) {
	for _, s := range states(t) {
		a, h := API{}, s.api
		if h == nil { // all after the first wait
			a, h = API{Rate: limit.Limit{Count: 1, Period: time.Hour}, MaxWait: 100 * time.Hour}, status(200)
		}
		for i, way := range ways(t, a, h) {
			if s.api == nil && i%2 == 0 { // two by two they are of the same proxy
				a, err := way.Get(way.url)
				if err != nil {
					t.Fatal(err)
				}
				way.read(a)
			}
			if !t.Run(s.name+", "+way.name, func(t *testing.T) { way.leaves(t, s) }) {
				return // each waits for long
			}
		}
	}
}

// await waits for c, or for its end.
func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal(what)
	}
}

// leaves has a caller go away from a request that is as far as s.
func (way way) leaves(t *testing.T, s state) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := s.body()
	context.AfterFunc(ctx, func() { body.Close() }) // the client waits for it
	r, _ := http.NewRequestWithContext(ctx, "POST", way.url, body)
	r.ContentLength = s.length
	begun, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		if a, err := way.Do(r); err == nil {
			close(begun)
			<-ctx.Done()
			a.Body.Close()
		}
	}()
	if s.begun {
		await(t, "the answer does not begin", begun)
	}
	if s.whole != nil {
		await(t, "the body does not reach the API", s.whole)
	}
	soon(t, "it does not come that far", func() bool { return way.left() == s.left })
	cancel()
	await(t, "the client does not return", gone)
	soon(t, "its caller has gone and it goes on", func() bool { return way.left() == [4]int{} })
}
