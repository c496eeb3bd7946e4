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
}

func none() io.ReadCloser  { return http.NoBody }
func hello() io.ReadCloser { return io.NopCloser(strings.NewReader("hello")) }

// states are those of a request to an API whose handlers end with their requests.
func states() []state {
	wait := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	return []state{
		{"in line", none, 0, [4]int{1, 0, 1, 0}, nil},
		{"in line, its body kept", hello, 5, [4]int{1, 0, 1, 5}, nil},
		{"its body incomplete", pausing, 100, [4]int{0, 0, 1, 100}, nil},
		{"resting before a retry", hello, 5, [4]int{1, 0, 1, 5}, status(429, "Retry-After", "30")},
		{"in flight", none, 0, [4]int{0, 1, 1, 0}, wait},
		{"uploading", pausing, -1, [4]int{0, 1, 1, 0}, wait},
		{"uploading by length", pausing, 10 << 20, [4]int{0, 1, 1, 0}, wait},
		{"answered in part", none, 0, [4]int{0, 0, 1, 0}, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "part")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
	}
}

// TestGoneAnywhere: a caller that goes away, however far its request is, leaves nothing behind.
func TestGoneAnywhere(t *testing.T) {
	for _, s := range states() {
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
			ctx, cancel := context.WithCancel(t.Context())
			body := s.body()
			context.AfterFunc(ctx, func() { body.Close() }) // the client waits for it
			r, _ := http.NewRequestWithContext(ctx, "POST", way.url, body)
			r.ContentLength = s.length
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if a, err := way.Do(r); err == nil {
					<-ctx.Done()
					a.Body.Close()
				}
			}()
			soon(t, func() bool { return way.left() == s.left })
			cancel()
			<-gone
			soon(t, func() bool { return way.left() == [4]int{} })
		}
	}
}
