package throttlehttp_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

// flaky is a Base whose server allows 50 a second, and in an outage answers with each of
// codes in turn.
type flaky struct {
	mu     sync.Mutex
	bucket limit.State
	codes  []int
	down   bool
	calls  int
	served int
}

func (f *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(50 * time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	code := f.codes[f.calls%len(f.codes)]
	if !f.down {
		code = http.StatusOK
		var d limit.Decision
		f.bucket, d = limit.Take(f.bucket, time.Now(), limit.Ask{Limit: limit.Limit{Count: 50, Period: time.Second}, N: 1})
		if !d.OK {
			code = http.StatusTooManyRequests
		}
	}
	if code == http.StatusOK {
		f.served++
	}
	return &http.Response{StatusCode: code, Header: make(http.Header), Body: http.NoBody, Request: r}, nil
}

func (f *flaky) set(down bool) (served int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	served, f.served, f.down = f.served, 0, down
	return served
}

// A 500 in an outage is no service: between plain 503s, and refusals, it does not make
// each of them a limit that was reached.
func TestLimitAfterAnOutageOfMixedStatuses(t *testing.T) {
	for _, codes := range [][]int{{500, 503}, {500, 502, 503, 504}, {521, 429}} {
		bubble.Test(t, func(t *testing.T) {
			f := &flaky{codes: codes}
			client := http.Client{Transport: &throttlehttp.Transport{Base: f}}
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer func() { stop(); all.Wait() }()
			for range 16 {
				all.Go(func() { fetch(ctx, &client) })
			}
			time.Sleep(3 * time.Minute)
			f.set(true)
			time.Sleep(time.Minute)
			f.set(false)
			time.Sleep(2 * time.Minute)
			f.set(false)
			time.Sleep(time.Minute)
			served := f.set(false)
			t.Logf("%v: %d served in the third minute after an outage of one, at 50 a second", codes, served)
			if served < 1500 {
				t.Errorf("%v: %d served in the third minute after an outage of one, at 50 a second; want 1500 at least", codes, served)
			}
		})
	}
}

// fetch makes one request after the other.
func fetch(ctx context.Context, client *http.Client) {
	for ctx.Err() == nil {
		r, _ := http.NewRequestWithContext(ctx, "GET", "https://api.example.com/", nil)
		a, err := client.Do(r)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		_, _ = io.Copy(io.Discard, a.Body)
		_ = a.Body.Close()
	}
}
