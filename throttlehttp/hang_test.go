package throttlehttp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// A connection that hangs, or a long poll, holds up other requests to the host
// for a second. What counts is the header: a body may take its time.
func TestHungRequestHoldsNobody(t *testing.T) {
	for _, c := range []struct {
		path string
		want time.Duration
	}{
		{"/hangs", 350 * time.Millisecond},
		{"/streams", 0},
	} {
		bubble.Test(t, func(t *testing.T) {
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				body := io.Reader(strings.NewReader("ok"))
				switch r.URL.Path {
				case "/hangs":
					<-r.Context().Done()
					return nil, r.Context().Err()
				case "/streams":
					body = endless{r.Context(), 0}
				}
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body), Request: r}, nil
			})
			client := http.Client{Transport: &Transport{Base: base}}
			ctx, cancel := context.WithCancel(t.Context())
			begin := time.Now()
			var ended atomic.Bool
			go func() {
				if a, err := get(ctx, &client, c.path); err == nil {
					io.Copy(io.Discard, a.Body)
				}
				ended.Store(true)
			}()
			synctest.Wait()
			for i := range 5 {
				a, err := get(t.Context(), &client, "/")
				if err != nil || a.StatusCode != 200 {
					t.Fatalf("%s: request %d: %v, %v", c.path, i+2, a, err)
				}
			}
			if d := time.Since(begin); d < c.want || d > c.want+100*time.Millisecond || ended.Load() {
				t.Errorf("%s: five requests beside it took %v, want %v", c.path, d, c.want)
			}
			cancel()
			synctest.Wait()
		})
	}
}

func get(ctx context.Context, c *http.Client, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://api.example.com"+path, nil)
	if err != nil {
		return nil, err
	}
	return c.Do(r)
}

// endless is a body that never ends: with a byte each time, or with none.
type endless struct {
	ctx  context.Context
	each time.Duration
}

func (e endless) Read(p []byte) (int, error) {
	var tick <-chan time.Time
	if e.each > 0 {
		tick = time.After(e.each)
	}
	select {
	case <-tick:
		return copy(p, "x"), nil
	case <-e.ctx.Done():
		return 0, e.ctx.Err()
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
