package throttlehttp_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttlehttp"
)

// flaky is a Base whose server allows 50 a second, and in an outage answers with each of
// codes in turn. A share of what it allows comes to a part that is broken, and answers 503.
type flaky struct {
	mu     sync.Mutex
	bucket limit.State
	codes  []int
	down   bool
	broken float64
	chance *rand.Rand
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
		switch {
		case !d.OK:
			code = http.StatusTooManyRequests
		case f.broken > 0 && f.chance.Float64() < f.broken:
			code = http.StatusServiceUnavailable
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
	bubble.Long(t)
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

// Where one instance of ten is down, or one of five, its 503s do not stop the calls that the
// others answer.
func TestPartOfAServiceIsDown(t *testing.T) {
	bubble.Long(t)
	for _, broken := range []float64{0.1, 0.2} {
		var all []int
		for seed := range uint64(3) {
			bubble.Test(t, func(t *testing.T) {
				f := &flaky{codes: []int{503}, broken: broken, chance: rand.New(rand.NewPCG(seed, 1))}
				client := http.Client{Transport: &throttlehttp.Transport{Base: f}}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				var workers sync.WaitGroup
				for range 16 {
					workers.Go(func() { fetch(ctx, &client) })
				}
				workers.Wait()
				all = append(all, f.set(false))
			})
		}
		slices.Sort(all)
		t.Logf("%.0f %% are down: %d of 15000 served in five minutes, the median of %v", 100*broken, all[1], all)
		if want := int(15000 * (0.55 - 2*broken)); all[1] < want {
			t.Errorf("%.0f %% are down: %d of 15000 served in five minutes, want %d or more", 100*broken, all[1], want)
		}
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
