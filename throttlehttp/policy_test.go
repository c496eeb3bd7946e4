package throttlehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// The policy of the Throttles that a Transport makes is set in its fields.
func TestPolicyFields(t *testing.T) {
	second := pace.Backoff{Base: time.Second, Jitter: pace.PlusMinusJitter, Spread: 1e-17}
	for _, c := range []struct {
		name   string
		tr     *Transport
		status int
		tries  int
		took   time.Duration // exact only without jitter
	}{
		{"Retries and Backoff", &Transport{Retries: 4, Backoff: second}, 502, 5, 15 * time.Second},
		{"no retries", &Transport{Retries: -1}, 502, 1, 0},
		{"Tries", &Transport{Tries: 2}, 429, 2, -1},
		{"the defaults", &Transport{}, 502, 4, -1},
	} {
		bubble.Test(t, func(t *testing.T) {
			w := replies(says(c.status))
			c.tr.Base = w
			began := time.Now()
			a, err := c.tr.RoundTrip(request(t, "GET", ""))
			if took := time.Since(began); err != nil || a.StatusCode != c.status || len(w.seen) != c.tries || c.took >= 0 && took != c.took {
				t.Errorf("%s: %v, %v after %d tries and %v; want %d after %d and %v", c.name, a, err, len(w.seen), took, c.status, c.tries, c.took)
			}
			for i := 1; i < len(w.seen) && c.took != 0; i++ {
				if rest := w.seen[i].at.Sub(w.seen[i-1].at); rest == 0 {
					t.Errorf("%s: no rest before try %d", c.name, i+1)
				}
			}
		})
	}
}

// Without a deadline, and whatever the server says, a request ends.
func TestAlwaysThrottledEnds(t *testing.T) {
	for _, after := range []string{"", "1", "3600", "86400", "99999999", "1e300"} {
		bubble.Test(t, func(t *testing.T) {
			w := replies(says(429))
			if after != "" {
				w = replies(says(429, "Retry-After", after))
			}
			began := time.Now()
			_, err := (&Transport{Base: w}).RoundTrip(request(t, "GET", ""))
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > time.Hour || MayHaveRun(nil, err) {
				t.Errorf("Retry-After %q: %v after %v; want it given up within an hour, not executed", after, err, took)
			}
		})
	}
}

// A body without GetBody is sent again if it was kept; one that is longer is
// sent once, and all of it.
func TestBodyIsKept(t *testing.T) {
	for _, c := range []struct {
		most  int64
		size  int
		tries int
	}{
		{0, 5, 1},
		{10, 0, 2},
		{10, 10, 2},
		{10, 11, 1},
		{10, 100_000, 1},
		{1<<63 - 1, 100_000, 2},
	} {
		for _, known := range []bool{false, true} {
			bubble.Test(t, func(t *testing.T) {
				text := strings.Repeat("z", c.size)
				w := replies(says(429), says(200))
				r := request(t, "POST", "")
				r.Body = io.NopCloser(strings.NewReader(text))
				if known {
					r.ContentLength = int64(c.size)
				}
				a, err := (&Transport{Base: w, MaxRequestBody: c.most}).RoundTrip(r)
				if err != nil || len(w.seen) != c.tries || (a.StatusCode == 200) != (c.tries == 2) {
					t.Fatalf("%d bytes with MaxRequestBody %d: %v, %v, %d tries; want %d", c.size, c.most, a, err, len(w.seen), c.tries)
				}
				for i := range w.seen {
					if w.seen[i].body != text {
						t.Errorf("try %d sent %d bytes, want %d", i+1, len(w.seen[i].body), c.size)
					}
				}
			})
		}
	}
}

// What reads the body of a request fails, or never ends.
func TestBodyIsNotKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			text, err := io.ReadAll(r.Body)
			if string(text) != "half" || !errors.Is(err, errCut) {
				t.Errorf("the body is %q, %v; want half of it and the error", text, err)
			}
			return nil, err
		})
		r := request(t, "PUT", "")
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{errCut}))
		if _, err := (&Transport{Base: base, MaxRequestBody: 100}).RoundTrip(r); !errors.Is(err, errCut) {
			t.Errorf("%v, want %v", err, errCut)
		}
		pr, _ := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r = request(t, "PUT", "").WithContext(ctx)
		r.Body = pr
		began := time.Now()
		w := replies(says(200))
		if _, err := (&Transport{Base: w, MaxRequestBody: 100}).RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second || MayHaveRun(nil, err) {
			t.Errorf("%v after %v; want the deadline after a second, not executed", err, time.Since(began))
		}
	})
}

// A refusal that says that no retry helps is the answer, and others are not
// slowed down by it.
func TestFinalRefusalIsReturned(t *testing.T) {
	for _, c := range []struct {
		kind, body string
		tries      int
	}{
		{"application/problem+json", `{"type":"about:blank","retryable":false}`, 1},
		{"Application/Problem+JSON; charset=utf-8", `{"retryable":false}`, 1},
		{"application/problem+json", `{"retryable":true}`, 2},
		{"application/problem+json", `{"type":"about:blank"}`, 2},
		{"application/problem+json", `{"retryable":false`, 2},
		{"application/problem+json", `{"retryable":"no"}`, 2},
		{"application/json", `{"retryable":false}`, 2},
	} {
		bubble.Test(t, func(t *testing.T) {
			refused := func() (*http.Response, error) {
				h := http.Header{"Content-Type": {c.kind}}
				return &http.Response{StatusCode: 429, Header: h, Body: io.NopCloser(strings.NewReader(c.body))}, nil
			}
			w := replies(refused, says(200))
			th := new(throttle.Throttle)
			a, err := (&Transport{Base: w, Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return th }}}).RoundTrip(request(t, "GET", ""))
			if err != nil || len(w.seen) != c.tries {
				t.Fatalf("%s %s: %v after %d tries, want %d", c.kind, c.body, err, len(w.seen), c.tries)
			}
			if c.tries > 1 {
				return
			}
			if text, _ := io.ReadAll(a.Body); a.StatusCode != 429 || string(text) != c.body || MayHaveRun(a, nil) {
				t.Errorf("%d %s; want the refusal as it came, not executed", a.StatusCode, text)
			}
			if wait := th.Forecast(1); wait > 0 {
				t.Errorf("the next request waits %v, want not at all", wait)
			}
		})
	}
}
