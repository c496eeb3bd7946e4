package throttlehttp

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// OpenAI states when a limit is full again: in a day, of a bucket of 10,000 a day that is used up
// now, and has another request in nine seconds.
func TestResetOfABucketOfADay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const size, calls, left = 10_000.0, 100, 40.0
		var (
			mu     sync.Mutex
			all    sync.WaitGroup
			began  = time.Now()
			tokens = left
			last   = began
		)
		tr := &Transport{Base: &wire{reply: func(int, *http.Request) (*http.Response, error) {
			time.Sleep(300 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			tokens, last = tokens+size*now.Sub(last).Hours()/24, now
			a := answer(200, "{}")
			if tokens >= 1 {
				tokens--
			} else {
				a = answer(429, "", "Retry-After", "9")
			}
			a.Header.Set("X-RateLimit-Limit-Requests", "10000")
			a.Header.Set("X-RateLimit-Remaining-Requests", fmt.Sprint(int(tokens)))
			a.Header.Set("X-RateLimit-Reset-Requests", time.Duration((size-tokens)/size*24*float64(time.Hour)).Round(time.Second).String())
			return a, nil
		}}}
		for range calls {
			all.Go(func() {
				a, err := tr.RoundTrip(to(t, "POST", "https://api.openai.com/v1/chat/completions"))
				if err != nil {
					t.Error(err)
					return
				}
				a.Body.Close()
			})
		}
		all.Wait()
		if took := time.Since(began); took > 15*time.Minute {
			t.Errorf("it took %v, want the 9 minutes in which 60 requests come back, or not much more", took)
		}
	})
}
