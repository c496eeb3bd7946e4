package throttlehttp

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// A service that answers 503 to a few requests, whatever their rate, is not slowed down,
// whether it states what remains or not.
func TestFew503sDoNotSlowDown(t *testing.T) {
	bubble.Long(t)
	for _, fields := range [][]string{nil, {"RateLimit", `"a";r=400;t=1`, "RateLimit-Policy", `"a";q=500;w=1`}} {
		bubble.Test(t, func(t *testing.T) {
			var sent, served atomic.Int64
			base := &wire{reply: func(int, *http.Request) (*http.Response, error) {
				time.Sleep(50 * time.Millisecond)
				if sent.Add(1)%100 == 50 {
					return answer(503, "", fields...), nil
				}
				return answer(200, "", fields...), nil
			}}
			tr, end := &Transport{Base: base}, time.Now().Add(30*time.Second)
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					for time.Now().Before(end) {
						a, err := tr.RoundTrip(to(t, "GET", "https://x.test/"))
						if err != nil {
							t.Error(err)
							return
						}
						a.Body.Close()
						served.Add(1)
					}
				})
			}
			all.Wait()
			if got, most := served.Load(), int64(20*20*30); got < most*9/10 {
				t.Errorf("%q: %d served of %d at no limit", fields, got, most)
			}
		})
	}
}

// The page of nginx's own 503 is a refusal, as limit_req answers so by default.
func TestPageOfNginxSlowsDown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const page = "<center><h1>503 Service Temporarily Unavailable</h1></center>\r\n<hr><center>nginx</center>"
		base := replies(
			func() (*http.Response, error) { return answer(503, page), nil },
			func() (*http.Response, error) { return answer(200, ""), nil })
		tr, began := &Transport{Base: base}, time.Now()
		a, err := tr.RoundTrip(to(t, "GET", "https://x.test/"))
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if waited := time.Since(began); waited < 100*time.Millisecond {
			t.Errorf("the retry came after %v, want it paced", waited)
		}
	})
}
