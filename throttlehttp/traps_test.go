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

// Each test here is named after what users of other clients suffered. More of
// them are in package signal (what an answer says), and in retrylayers_test.go:
// openai-cookbook 2812, retries multiplied by layers.

// at makes a request go to another host.
func at(req *http.Request, host string) *http.Request {
	req.URL.Host, req.Host = host, host
	return req
}

// langchainjs 1929, LightRAG 3736, openai-cookbook 2812, fenic 231: a quota that
// is used up for good was asked for again and again.
func TestPermanentRefusalIsReturnedAtOnce(t *testing.T) {
	const text = `{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}`
	bubble.Test(t, func(t *testing.T) {
		w := replies(func() (*http.Response, error) { return answer(429, text, "Retry-After", "1"), nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		a, err := (&Transport{Base: w, Bodies: true}).RoundTrip(at(request(t, "POST", "{}"), "api.openai.com").WithContext(ctx))
		if err != nil || a.StatusCode != 429 || len(w.seen) != 1 || time.Since(began) != 0 {
			t.Fatalf("%v, %v after %d requests and %v; want the 429 after 1, at once", a, err, len(w.seen), time.Since(began))
		}
		if got, err := io.ReadAll(a.Body); err != nil || string(got) != text {
			t.Errorf("its body is %q, %v; want %q", got, err, text)
		}
	})
}

// foyle 82: "giving up after 5 attempts" in place of what the server said.
func TestGivingUpSaysWhatTheServerSaid(t *testing.T) {
	const text = `{"error":{"code":"rate_limit_exceeded","message":"Limit 3 a minute"}}`
	refuse := func() (*http.Response, error) { return answer(429, text, "Retry-After", "20"), nil }
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		client := http.Client{Transport: &Transport{Base: replies(refuse), Bodies: true}}
		_, err := client.Do(at(request(t, "POST", "{}"), "api.openai.com").WithContext(ctx))
		var status *StatusError
		if !errors.As(err, &status) || status.Reading.Reason != "rate_limit_exceeded" || string(status.Body) != text {
			t.Fatalf("%v; want a StatusError with the reason and the body", err)
		}
		for _, want := range []string{"429", "rate_limit_exceeded", "Limit 3 a minute", "would wait"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q; want it to say %q", err, want)
			}
		}
	})
	bubble.Test(t, func(t *testing.T) {
		tr := &Transport{Base: replies(refuse), Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &throttle.Throttle{Tries: 5} }}}
		a, err := tr.RoundTrip(request(t, "POST", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(a.Body); a.StatusCode != 429 || err != nil || string(got) != text {
			t.Errorf("after 5 tries %d %q, %v; want the last answer as it came", a.StatusCode, got, err)
		}
	})
}

// go-retryablehttp 247 and 295, sourcegraph 51743, wrangler: an hour was slept
// through where 3 s were allowed.
func TestAnHourIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := replies(says(429, "Retry-After", "3600"))
		client := http.Client{Transport: &Transport{Base: w}}
		ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: 3 * time.Second})
		began := time.Now()
		for range 3 {
			a, err := client.Do(request(t, "GET", "").WithContext(ctx))
			var gaveUp *throttle.Error
			if !errors.As(err, &gaveUp) || gaveUp.Wait < time.Hour || MayHaveRun(a, err) {
				t.Errorf("%v, %v; want an error with a wait of an hour, of a request that has not run", a, err)
			}
		}
		if took := time.Since(began); took != 0 || len(w.seen) != 1 {
			t.Errorf("it took %v and %d requests; want 0s and the first only", took, len(w.seen))
		}
	})
}

// chroncal 105, boundary 4093: Retry-After was read and then not kept to. httpx
// 141: it was, but for the jitter.
func TestRetryAfterIsKeptTo(t *testing.T) {
	for seed := range 200 {
		bubble.Test(t, func(t *testing.T) {
			w := replies(says(429, "Retry-After", "2"), says(503, "Retry-After", "5"), says(200))
			tr := &Transport{Base: w}
			if seed%2 == 1 {
				tr.Throttles = &throttle.Group{New: func(string) *throttle.Throttle {
					return &throttle.Throttle{Control: &pace.Backoff{Jitter: pace.FullJitter, Cap: time.Second}}
				}}
			}
			if a, err := tr.RoundTrip(request(t, "GET", "")); err != nil || a.StatusCode != 200 {
				t.Fatalf("%v, %v; want 200", a, err)
			}
			for i, least := range []time.Duration{2 * time.Second, 5 * time.Second} {
				if got := w.seen[i+1].at.Sub(w.seen[i].at); got < least || got > least+2*time.Second {
					t.Errorf("try %d came after %v; want %v or little more", i+1, got, least)
				}
			}
		})
	}
}

// A proxy adds a Retry-After of its own to that of the server: no retry comes before
// either of them, in whichever order they stand.
func TestRetryAfterOfSeveralLines(t *testing.T) {
	for _, lines := range [][]string{{"1", "20"}, {"20", "1"}, {"1, 20"}} {
		bubble.Test(t, func(t *testing.T) {
			w := replies(func() (*http.Response, error) {
				a := answer(429, "")
				a.Header["Retry-After"] = lines
				return a, nil
			}, says(200))
			a, err := (&Transport{Base: w}).RoundTrip(request(t, "GET", ""))
			if err != nil || a.StatusCode != 200 {
				t.Fatalf("%v, %v; want 200", a, err)
			}
			if rest := w.seen[1].at.Sub(w.seen[0].at); rest < 20*time.Second || rest > 25*time.Second {
				t.Errorf("Retry-After %q: retried after %v; want 20s or little more", lines, rest)
			}
		})
	}
}

// openai-go and go-retryablehttp: a body that was read once is empty the second
// time, unless it can be had again.
func TestBodyThatCannotBeRewoundIsSentOnce(t *testing.T) {
	for _, server := range []sequence{{slow, says(200)}, {cut, says(200)}, {says(503), says(200)}} {
		bubble.Test(t, func(t *testing.T) {
			w := replies(server...)
			req := request(t, "PUT", "once")
			req.GetBody = nil
			a, err := (&Transport{Base: w, Throttles: &throttle.Group{New: unpaced}}).RoundTrip(req)
			if len(w.seen) != 1 || w.seen[0].body != "once" || err == nil && a.StatusCode == 200 {
				t.Errorf("%v, %v after %d tries, the first with %q; want what came of one try", a, err, len(w.seen), w.seen[0].body)
			}
		})
		bubble.Test(t, func(t *testing.T) {
			w := replies(server...)
			a, err := (&Transport{Base: w, Throttles: &throttle.Group{New: unpaced}}).RoundTrip(request(t, "PUT", "again"))
			if err != nil || a.StatusCode != 200 || len(w.seen) != 2 || w.seen[1].body != "again" {
				t.Errorf("%v, %v after %d tries; want 200 after 2, both with the body", a, err, len(w.seen))
			}
		})
	}
}

// A request made of another, without its body, has the other's GetBody still, as
// Clone copies it. A retry sends no body either.
func TestRequestWithoutBodyIsRetriedWithout(t *testing.T) {
	for _, none := range []io.ReadCloser{nil, http.NoBody} {
		w := replies(says(503), says(200))
		req := request(t, "GET", "of another")
		req.Body, req.ContentLength = none, 0
		a, err := (&Transport{Base: w, Throttles: &throttle.Group{New: unpaced}}).RoundTrip(req)
		if err != nil || a.StatusCode != 200 || len(w.seen) != 2 || w.seen[1].body != "" {
			t.Errorf("%v, %v after %d tries; want 200 after 2, both without a body", a, err, len(w.seen))
		}
	}
}

// failsafe-go 65 and 123: the context of the request was cancelled before its
// body had been read.
func TestBodyIsReadAfterRoundTrip(t *testing.T) {
	const size = 1 << 20
	read := make(chan struct{})
	url := server(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		<-read
		io.WriteString(w, strings.Repeat("x", size))
	})
	base := new(http.Transport)
	defer base.CloseIdleConnections()
	ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: time.Hour})
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := (&Transport{Base: base}).RoundTrip(req)
	close(read)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if n, err := io.Copy(io.Discard, a.Body); n != size || err != nil {
		t.Errorf("%d bytes of the body, %v; want all %d", n, err, size)
	}
}

// As http.DefaultTransport, a zero Transport sends by what was there before, and
// not by itself without end.
func TestTransportAsTheDefault(t *testing.T) {
	before, first := http.DefaultTransport, original
	defer func() { http.DefaultTransport, original = before, first }()
	w, other := replies(says(200)), replies(says(200))
	original = w
	sent := 0
	tr := &Transport{Name: func(*http.Request) string {
		if sent++; sent > 2 {
			panic("it sends by itself")
		}
		return ""
	}}
	http.DefaultTransport = tr
	if a, err := http.DefaultClient.Do(request(t, "GET", "")); err != nil || a.StatusCode != 200 || len(w.seen) != 1 {
		t.Errorf("%v, %v after %d requests; want 200 after one", a, err, len(w.seen))
	}
	http.DefaultClient.CloseIdleConnections()
	http.DefaultTransport = other
	if a, err := tr.RoundTrip(request(t, "GET", "")); err != nil || a.StatusCode != 200 || len(other.seen) != 1 {
		t.Errorf("%v, %v after %d requests by another default; want 200 after one", a, err, len(other.seen))
	}
}

// wrapped is a layer around a RoundTripper.
type wrapped struct{ http.RoundTripper }

// A Transport that leads back to itself gives up the request, with the reason, and
// does not call itself without end.
func TestTransportLeadsBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for name, loop := range map[string]func(*Transport) http.RoundTripper{
			"itself":  func(tr *Transport) http.RoundTripper { return tr },
			"wrapped": func(tr *Transport) http.RoundTripper { return wrapped{tr} },
			"another": func(tr *Transport) http.RoundTripper { return &Transport{Base: wrapped{tr}} },
		} {
			calls := 0
			tr := &Transport{Name: func(*http.Request) string {
				if calls++; calls > 1000 {
					panic("it calls itself without end")
				}
				return ""
			}}
			tr.Base = loop(tr)
			_, err := tr.RoundTrip(request(t, "PUT", "text"))
			if e := new(throttle.Error); !errors.Is(err, errLoop) || !errors.As(err, &e) || e.MayHaveRun || calls > maxDepth+2 {
				t.Errorf("%s: %v after %d calls, want %q after %d, not executed", name, err, calls, errLoop, maxDepth+2)
			}
		}
	})
}

// A key without a value says that a request may be repeated, and is not sent: as net/http has it.
func TestKeyWithoutValue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			for _, values := range [][]string{nil, {}} {
				w := replies(says(502), says(200))
				req := request(t, "POST", "text")
				req.Header[name] = values
				a, err := (&Transport{Base: w}).RoundTrip(req)
				if err != nil || a.StatusCode != 200 || len(w.seen) != 2 {
					t.Errorf("%s: %#v: %v, %v after %d tries, want 200 after 2", name, values, a, err, len(w.seen))
				}
			}
		}
	})
}
