package migrating

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/go-chi/httprate"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
)

// These tests hold the rows of the page that are marked.

// second returns when the second of two waiters starts, if the first gives up
// halfway: after a start at zero, at one a second.
func second(t *testing.T, wait func(context.Context) error) time.Duration {
	t.Helper()
	began := time.Now()
	if err := wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, giveUp := context.WithCancel(t.Context())
	ended := make(chan time.Duration)
	go func() { _ = wait(first) }()
	synctest.Wait()
	go func() {
		if err := wait(t.Context()); err != nil {
			t.Error(err)
		}
		ended <- time.Since(began)
	}()
	time.Sleep(time.Second / 2)
	giveUp()
	return <-ended
}

func TestXTimeRateHole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		theirs := rate.NewLimiter(1, 1)
		if got := second(t, theirs.Wait); got != 2*time.Second {
			t.Errorf("with x/time/rate the second waiter starts after %v, want 2s", got)
		}
		ours := throttle.Throttle{Control: &pace.Fixed{Rate: 1}}
		wait := func(ctx context.Context) error {
			return ours.Do(ctx, func(context.Context) error { return nil })
		}
		if got := second(t, wait); got != time.Second {
			t.Errorf("with a Throttle the second waiter starts after %v, want 1s", got)
		}
	})
}

func TestXTimeRateZeroes(t *testing.T) {
	var theirs rate.Limiter
	var ours store.Limiter
	if theirs.Allow() || !ours.Allow() {
		t.Error("zero limiters: want theirs to refuse, ours to admit")
	}
	ours = store.Limiter{Limit: limit.Limit{Count: 4, Period: time.Hour}}
	for i := range 5 {
		if got := ours.Allow(); got != (i < 4) {
			t.Errorf("Allow %d without a Burst = %t", i, got)
		}
	}
	if rate.NewLimiter(4, 0).Allow() {
		t.Error("theirs admits with a burst of zero")
	}
}

func TestBackoffRetries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		plain := errors.New("plain")
		tries := 0
		_, err := backoff.Retry(t.Context(), func() (int, error) { tries++; return 0, plain }, backoff.WithMaxTries(4))
		if tries != 4 || err != plain {
			t.Errorf("backoff tries %d times, error %v; want 4, %v itself", tries, err, plain)
		}
		var api throttle.Throttle
		tries = 0
		err = api.Do(t.Context(), func(context.Context) error { tries++; return plain })
		if tries != 1 || err != plain {
			t.Errorf("a Throttle tries %d times, error %v; want 1", tries, err)
		}
		err = api.Do(t.Context(), func(context.Context) error { return throttle.Failed(plain) })
		var gaveUp *throttle.Error
		if !errors.Is(err, plain) || !errors.As(err, &gaveUp) || gaveUp.Tries != 4 {
			t.Errorf("a failed call returns %v, want a *throttle.Error around it after 4 tries", err)
		}
	})
}

func TestBackoffEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tries := 0
	_, _ = backoff.Retry(ctx, func() (int, error) { tries++; return 0, errors.New("no") })
	if tries != 1 {
		t.Errorf("backoff runs it %d times, want once", tries)
	}
	var api throttle.Throttle
	if err := api.Do(ctx, func(context.Context) error { tries++; return nil }); err == nil || tries != 1 {
		t.Errorf("a Throttle has run it, error %v", err)
	}
}

// answers is a RoundTripper that always gives one answer, and counts.
type answers struct{ status, n int }

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.n++
	return &http.Response{
		StatusCode: a.status, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("why")),
	}, nil
}

// post posts once through each library over a server with that status. It
// returns the numbers of requests, and the error of the first library.
func post(t *testing.T, status int) (theirs, ours int, last *http.Response, theirErr error) {
	t.Helper()
	a, b := &answers{status: status}, &answers{status: status}
	c := retryablehttp.NewClient()
	c.Logger, c.HTTPClient = nil, &http.Client{Transport: a}
	if resp, err := c.StandardClient().Post("http://a.test", "text/plain", strings.NewReader("x")); err != nil {
		theirErr = err
	} else {
		resp.Body.Close()
	}
	client := http.Client{Transport: &throttlehttp.Transport{Base: b, Tries: 5, Retries: 4}}
	last, err := client.Post("http://a.test", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	return a.n, b.n, last, theirErr
}

func TestRetryableHTTPLastAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		theirs, ours, last, err := post(t, http.StatusTooManyRequests)
		defer last.Body.Close()
		if theirs != 5 || err == nil || !strings.Contains(err.Error(), "giving up after 5 attempt(s)") {
			t.Errorf("theirs: %d requests, %v", theirs, err)
		}
		body, _ := io.ReadAll(last.Body)
		if ours != 5 || last.StatusCode != http.StatusTooManyRequests || string(body) != "why" {
			t.Errorf("ours: %d requests, %s %q; want 5 and the last answer", ours, last.Status, body)
		}
	})
}

func TestRetryableHTTPRepeatsPosts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway} {
			theirs, ours, last, _ := post(t, status)
			last.Body.Close()
			if theirs != 5 || ours != 1 || last.StatusCode != status {
				t.Errorf("%d to a POST: theirs sends %d, ours %d; want 5 and 1", status, theirs, ours)
			}
		}
	})
}

// get gets path from h, and returns the status, Retry-After and RateLimit-Reset.
func get(h http.Handler, path string) (status int, retryAfter, reset string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Header().Get("Retry-After"), w.Header().Get("RateLimit-Reset")
}

var empty = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func TestHTTPRateRetryAfter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		theirs := httprate.LimitBy(2, time.Minute, httprate.Key("all"))(empty)
		ours := throttlehttp.Limit(limit.Limit{Kind: limit.SlidingWindow, Count: 2, Period: time.Minute}, nil)(empty)
		for _, h := range []http.Handler{theirs, ours, theirs, ours} {
			get(h, "/")
		}
		time.Sleep(45 * time.Second)
		if status, after, _ := get(theirs, "/"); status != 429 || after != "60" {
			t.Errorf("httprate: %d, Retry-After %s; want the whole window", status, after)
		}
		if status, after, _ := get(ours, "/"); status != 429 || after != "30" {
			t.Errorf("ours: %d, Retry-After %s; want 30", status, after)
		}
		time.Sleep(30 * time.Second)
		if status, _, _ := get(ours, "/"); status != 200 {
			t.Errorf("ours after those 30 s: %d", status)
		}
	})
}

func TestTollbooth(t *testing.T) {
	free := tollbooth.LimitHandler(tollbooth.NewLimiter(1, nil), empty)
	for range 3 {
		if status, _, _ := get(free, "/"); status != 200 {
			t.Errorf("without a lookup: %d, want no limit", status)
		}
	}
	l := tollbooth.NewLimiter(1, nil)
	l.SetIPLookup(limiter.IPLookup{Name: "RemoteAddr"})
	paths := tollbooth.LimitHandler(l, empty)
	ours := throttlehttp.Limit(limit.Limit{Count: 1, Period: time.Minute}, nil)(empty)
	for i, c := range []struct {
		path         string
		theirs, ours int
	}{{"/a", 200, 200}, {"/b", 200, 429}, {"/a", 429, 429}} {
		status, after, reset := get(paths, c.path)
		if status != c.theirs || after != "" || reset != "1" {
			t.Errorf("%d: tollbooth answers %s by %d, Retry-After %q, reset %q; want %d", i, c.path, status, after, reset, c.theirs)
		}
		if status, after, _ := get(ours, c.path); status != c.ours || (after == "") != (status == 200) {
			t.Errorf("%d: ours answers %s by %d, Retry-After %q; want %d", i, c.path, status, after, c.ours)
		}
	}
}

// away is a store that fails until it is back.
type away struct{ back bool }

func (s *away) Take(_ context.Context, _ []limit.Ask, d []limit.Decision) (bool, error) {
	if !s.back {
		return false, errors.New("away")
	}
	d[0].OK = true
	return true, nil
}

func TestGobreaker(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := new(away)
		breaker := gobreaker.NewCircuitBreaker[bool](gobreaker.Settings{})
		g := &store.Guard{Store: s, Fallback: store.FallbackAllow}
		ask := func(of store.Store) (bool, error) { return store.Allow(t.Context(), of, "key", limit.Limit{}) }
		theirs := func() error {
			_, err := breaker.Execute(func() (bool, error) { return ask(s) })
			return err
		}
		for i := range 6 {
			if err := theirs(); errors.Is(err, gobreaker.ErrOpenState) || g.Stats().Away != (i > 4) {
				t.Errorf("after %d failures theirs says %v; ours is open: %t", i, err, g.Stats().Away)
			}
			if ok, err := ask(g); !ok || err != nil {
				t.Errorf("ours: %t, %v; want the fallback", ok, err)
			}
		}
		s.back = true
		time.Sleep(750 * time.Millisecond)
		if err := theirs(); !errors.Is(err, gobreaker.ErrOpenState) {
			t.Errorf("theirs after 750 ms: %v", err)
		}
		if _, err := ask(g); err != nil || g.Stats().Away || g.Stats().Decided != 1 {
			t.Errorf("ours after 750 ms: %v, %+v; want it closed", err, g.Stats())
		}
		time.Sleep(time.Minute)
		if err := theirs(); err != nil {
			t.Errorf("theirs after a minute: %v", err)
		}
	})
}

func TestFailsafe(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		once := failsafe.With[any](ratelimiter.NewSmooth[any](1, time.Second))
		nothing := func() error { return nil }
		if err := errors.Join(once.Run(nothing), t.Context().Err()); err != nil {
			t.Error(err)
		}
		if err := once.Run(nothing); !errors.Is(err, ratelimiter.ErrExceeded) {
			t.Errorf("the second call: %v, want it rejected", err)
		}
		began, tries := time.Now(), 0
		err := failsafe.With[any](retrypolicy.NewWithDefaults[any]()).Run(func() error { tries++; return errors.New("no") })
		if tries != 3 || time.Since(began) != 0 || err == nil {
			t.Errorf("%d tries in %v, error %v; want 3 without a rest", tries, time.Since(began), err)
		}
	})
}
