package throttlehttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/signal"
)

// through is a RoundTripper of a function.
type through func(*http.Request) (*http.Response, error)

func (f through) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// retrier is a Base that retries by itself, whatever happens.
func retrier(base http.RoundTripper, times int) http.RoundTripper {
	return through(func(r *http.Request) (a *http.Response, err error) {
		for range times {
			if a != nil {
				a.Body.Close()
			}
			if a, err = base.RoundTrip(r.Clone(r.Context())); err == nil && a.StatusCode < 429 {
				break
			}
		}
		return a, err
	})
}

// openai-cookbook 2812: a client that tries 6 times below a loop that tries 3 times
// makes 18 requests of one. Of two Transports one above the other only the upper one makes requests
// again; both learn.
func TestNestedTransportsRetryOnce(t *testing.T) {
	for _, tt := range []struct {
		server sequence
		tries  int
		status int
	}{
		{sequence{says(502)}, 4, 502},
		{sequence{says(429)}, 3, 429},
		{sequence{cut}, 4, 0},
		{sequence{cut, says(429), says(200)}, 3, 200},
	} {
		bubble.Test(t, func(t *testing.T) {
			w := replies(tt.server...)
			lower, upper := new(pupil), new(pupil)
			tr := &Transport{Base: &Transport{Base: w, Throttles: &throttle.Group{New: taughtTo(lower)}}, Throttles: &throttle.Group{New: taughtTo(upper)}}
			a, err := tr.RoundTrip(request(t, "GET", ""))
			status := 0
			if err == nil {
				status = a.StatusCode
			}
			if status != tt.status || len(w.seen) != tt.tries {
				t.Errorf("status %d, %v after %d requests; want %d after %d", status, err, len(w.seen), tt.status, tt.tries)
			}
			if !MayHaveRun(a, err) != (tt.status == 429) {
				t.Errorf("MayHaveRun of %d, %v = %v; want that of all tries", status, err, MayHaveRun(a, err))
			}
			for name, p := range map[string]*pupil{"lower": lower, "upper": upper} {
				if p.flying != 0 || sent(p) != tt.tries {
					t.Errorf("the %s Transport learnt from %d tries, %d in flight; want %d, 0", name, sent(p), p.flying, tt.tries)
				}
			}
		})
	}
}

// taughtTo is a New for Throttles of p.
func taughtTo(p *pupil) func(string) *throttle.Throttle {
	return func(string) *throttle.Throttle { return &throttle.Throttle{Control: p, Tries: 3} }
}

// sent is how many tries p was taught of that were really made.
func sent(p *pupil) (n int) {
	for _, o := range p.taught {
		if !o.Sent.IsZero() {
			n++
		}
	}
	return n
}

// What a Base asks for besides, under the same context, is no inner try.
func TestOtherRequestsOfABaseAreMadeAgain(t *testing.T) {
	tokens := replies(says(429), says(502), says(200))
	issuer := &Transport{Base: tokens, Throttles: &throttle.Group{New: unpaced}}
	tr := &Transport{Throttles: &throttle.Group{New: unpaced}, Base: through(func(r *http.Request) (*http.Response, error) {
		ask, err := http.NewRequestWithContext(r.Context(), "GET", "http://api.test/token", nil)
		if err != nil {
			return nil, err
		}
		if a, err := issuer.RoundTrip(ask); err != nil || a.StatusCode != 200 {
			return nil, fmt.Errorf("no token: %v, %w", a, err)
		}
		return answer(429, ""), nil
	})}
	req := request(t, "POST", stream)
	req.GetBody = nil
	a, err := tr.RoundTrip(req)
	if err != nil || a.StatusCode != 429 || len(tokens.seen) != 3 || MayHaveRun(a, err) {
		t.Errorf("%v, %v, %d requests for a token, may have run: %v; want 429, 3, false", a, err, len(tokens.seen), MayHaveRun(a, err))
	}
}

// A Transport further down that gave up has tried already, even if a layer in
// between hides that it is one.
func TestGivingUpBelowIsNotRetried(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := replies(cut)
		lower := &Transport{Base: w, Throttles: &throttle.Group{New: unpaced}}
		asked := 0
		tr := &Transport{Throttles: &throttle.Group{New: unpaced}, Base: through(func(r *http.Request) (*http.Response, error) {
			asked++
			r = r.Clone(r.Context())
			r.URL.Path = "/v2" + r.URL.Path
			return lower.RoundTrip(r)
		})}
		_, err := tr.RoundTrip(request(t, "PUT", "text"))
		var gaveUp *throttle.Error
		if !errors.As(err, &gaveUp) || !errors.Is(err, errCut) || gaveUp.Tries != 4 || !gaveUp.MayHaveRun || asked != 1 || len(w.seen) != 4 {
			t.Errorf("%v, %d requests above and %d below; want the error of the lower one, after 1 and 4", err, asked, len(w.seen))
		}
	})
}

// tryAt makes one try of c to url.
func tryAt(t *testing.T, c *call, url string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.req, c.dialect = req, signal.For("")
	c.begin(unpaced(""))
	c.try(t.Context())
}

// What a Transport further down refused before it was sent has not run.
func TestRefusedBelowHasNotRun(t *testing.T) {
	full := &throttle.Error{Reason: throttle.ErrQueueFull}
	asked := 0
	tr := &Transport{Throttles: &throttle.Group{New: unpaced}, Base: through(func(*http.Request) (*http.Response, error) {
		asked++
		return nil, full
	})}
	if a, err := tr.RoundTrip(request(t, "PUT", "text")); err != error(full) || asked != 1 || MayHaveRun(a, err) {
		t.Errorf("%v after %d requests, MayHaveRun = %v; want %v after 1, false", err, asked, MayHaveRun(a, err), full)
	}
}

// Two Transports with one Throttle ask it once for each try: it must not wait for
// itself, nor count double.
func TestNestedTransportsShareAThrottle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p := new(pupil)
		shared := &throttle.Throttle{Control: p}
		same := func(string) *throttle.Throttle { return shared }
		w := replies(says(429), cut, says(200))
		a, err := (&Transport{Throttles: &throttle.Group{New: same}, Base: &Transport{Throttles: &throttle.Group{New: same}, Base: w}}).RoundTrip(request(t, "PUT", "text").WithContext(ctx))
		if err != nil || a.StatusCode != 200 || len(w.seen) != 3 || sent(p) != 3 || p.flying != 0 {
			t.Errorf("%v, %v after %d requests, %d learnt from; want 200 after 3, 3", a, err, len(w.seen), sent(p))
		}
		zero := new(throttle.Throttle)
		same = func(string) *throttle.Throttle { return zero }
		tr := &Transport{Throttles: &throttle.Group{New: unpaced}, Base: &Transport{Throttles: &throttle.Group{New: same}, Base: &Transport{Throttles: &throttle.Group{New: same}, Base: w}}}
		if _, err := tr.RoundTrip(request(t, "GET", "").WithContext(ctx)); err != nil {
			t.Error(err)
		}
	})
}

// server is one over sockets that answers request n by reply(n).
func server(t *testing.T, reply func(n int, w http.ResponseWriter, r *http.Request)) string {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		reply(int(n.Add(1)), w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		c.Close()
	}
}

// Retries of a layer underneath are counted; what net/http sends again over a
// connection that had gone stale is not held against anyone.
func TestRetriesUnderneathAreCounted(t *testing.T) {
	status := func(code int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(code) }
	}
	for _, tt := range []struct {
		name    string
		layer   bool
		answers []func(http.ResponseWriter)
		want    int
	}{
		{"one answer", false, []func(http.ResponseWriter){status(200)}, 0},
		{"a layer that need not retry", true, []func(http.ResponseWriter){status(200)}, 0},
		{"three answers", true, []func(http.ResponseWriter){status(503), status(429), status(200)}, 3},
		{"two answers over an old connection", true, []func(http.ResponseWriter){status(200), status(503), status(200)}, 2},
		{"cut off and made again", true, []func(http.ResponseWriter){hangUp, hangUp, status(200)}, 3},
		{"cut off", false, []func(http.ResponseWriter){hangUp, status(200)}, 0},
	} {
		base := new(http.Transport)
		url := server(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			tt.answers[min(n, len(tt.answers))-1](w)
		})
		got := 0
		c := &call{base: base, warn: func(_ *http.Request, sent int) { got = sent }}
		if tt.layer {
			c.base = retrier(base, 3)
		}
		tryAt(t, c, url)
		if strings.Contains(tt.name, "old connection") {
			c.discard()
			tryAt(t, c, url)
		}
		if got != tt.want {
			t.Errorf("%s: warned of %d requests in one try; want %d", tt.name, got, tt.want)
		}
		base.CloseIdleConnections()
	}
}

func TestReplaysOfNetHTTPAreNoLayer(t *testing.T) {
	base := new(http.Transport)
	defer base.CloseIdleConnections()
	requests := 0
	url := server(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if requests = n; n == 2 { // over the connection of the first
			hangUp(w)
		}
	})
	for range 2 {
		c := &call{base: base, warn: func(_ *http.Request, sent int) {
			t.Errorf("warned of %d requests", sent)
		}}
		if tryAt(t, c, url); c.answer == nil || c.answer.StatusCode != 200 {
			t.Fatalf("%v, %v; want 200", c.answer, c.err)
		}
		c.discard()
	}
	if requests != 3 {
		t.Errorf("%d requests came; want 3 of 2 tries, or this shows nothing", requests)
	}
}

// A Transport over a client that retries tells of it: by Warn each time, else by
// one line in the log.
func TestRetriesUnderneathAreWarnedOf(t *testing.T) {
	url := server(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%2 == 1 {
			w.WriteHeader(503)
		}
	})
	var log bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(old)
	base := new(http.Transport)
	defer base.CloseIdleConnections()
	told := 0
	for _, warn := range []func(*http.Request, int){nil, func(_ *http.Request, sent int) { told += sent }} {
		tr := &Transport{Base: retrier(base, 2), Throttles: &throttle.Group{New: unpaced}, Warn: warn}
		for range 3 {
			req, err := http.NewRequest("GET", url, nil)
			if err != nil {
				t.Fatal(err)
			}
			a, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
		}
	}
	if n := strings.Count(log.String(), "sends more than it is given"); n != 1 || told != 6 {
		t.Errorf("%d lines in the log, told of %d requests; want 1, 6:\n%s", n, told, log.String())
	}
}
