package throttlehttp

import (
	"net/http"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// The next page is often asked for with the context of the answer that names it.
// It is a request of its own: paced, retried, and executed or not by itself.
func TestNextRequestOfAnAnswersContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := replies(says(200), says(429, "Retry-After", "7"), says(200), says(429, "Retry-After", "86400"))
		once := func(string) *throttle.Throttle {
			return &throttle.Throttle{Control: &pace.Fixed{Rate: 1}, Tries: 2}
		}
		client := http.Client{Transport: &Transport{Base: w, Throttles: &throttle.Group{New: once}}}
		req := request(t, "POST", "query")
		var last *http.Response
		var err error
		for range 3 {
			if last, err = client.Do(req); err != nil {
				break
			}
			last.Body.Close()
			req = request(t, "POST", "query").WithContext(last.Request.Context())
		}
		begun := w.seen[0].at
		for i, want := range []time.Duration{0, time.Second, 8 * time.Second} {
			if i >= len(w.seen) || w.seen[i].at.Sub(begun) != want {
				t.Fatalf("request %d of %d was sent at %v; want %v", i, len(w.seen), w.seen[min(i, len(w.seen)-1)].at.Sub(begun), want)
			}
		}
		if MayHaveRun(last, err) {
			t.Errorf("%v, %v may have run, by the context of one that has; want not", last, err)
		}
	})
}
