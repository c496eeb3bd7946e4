package throttlehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

func TestDeadlineTooNear(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		w := &wire{reply: func(int, *http.Request) (*http.Response, error) {
			return answer(429, strings.Repeat("slow down ", 2000), "Retry-After", "60", "X-Why", "burst"), nil
		}}
		began := time.Now()
		client := http.Client{Transport: &Transport{Base: w}}
		_, err := client.Do(request(t, "POST", "text").WithContext(ctx))
		if d := time.Since(began); d != 0 || len(w.seen) != 1 {
			t.Errorf("gave up after %v and %d tries; want at once, after 1", d, len(w.seen))
		}
		var gaveUp *throttle.Error
		if !errors.As(err, &gaveUp) || !errors.Is(err, context.DeadlineExceeded) || gaveUp.Wait < time.Minute || gaveUp.MayHaveRun {
			t.Errorf("error %v; want a throttle.Error for the deadline, with a wait of a minute, of a call that has not run", err)
		}
		var status *StatusError
		if !errors.As(err, &status) || status.Code != 429 || status.Header.Get("X-Why") != "burst" || len(status.Body) != maxSnippet {
			t.Errorf("error %v; want a StatusError of 429 with its header and %d bytes of its body", err, maxSnippet)
		}
		if !strings.Contains(err.Error(), "429 Too Many Requests") || len(err.Error()) > 500 || w.open[0].closed != 1 {
			t.Errorf("error of %d bytes: %v, body closed %d times; want a short line that names the status, once", len(err.Error()), err, w.open[0].closed)
		}
	})
}

func TestCancelWhileResting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		tr := &Transport{Base: replies(says(429, "Retry-After", "60"))}
		began := time.Now()
		_, err := tr.RoundTrip(request(t, "GET", "").WithContext(ctx))
		var status *StatusError
		if d := time.Since(began); d != 3*time.Second || !errors.Is(err, context.Canceled) || !errors.As(err, &status) {
			t.Errorf("ended after %v by %v; want 3s, by the cancellation, with the 429", d, err)
		}
		if th := tr.enter("api.test").Throttle(); th.Waiting() != 0 || th.InFlight() != 0 {
			t.Errorf("%d waiting and %d in flight are left", th.Waiting(), th.InFlight())
		}
	})
}

func TestCancelInFlight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		p := new(pupil)
		w := &wire{reply: func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		tr := &Transport{Base: w, Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &throttle.Throttle{Control: p} }}}
		began := time.Now()
		_, err := tr.RoundTrip(request(t, "GET", "").WithContext(ctx))
		if d := time.Since(began); d != 3*time.Second || !errors.Is(err, context.Canceled) || len(w.seen) != 1 {
			t.Errorf("ended after %v by %v and %d tries; want 3s, the cancellation, 1", d, err, len(w.seen))
		}
		if len(p.taught) != 1 || p.taught[0].Verdict != pace.Ignored {
			t.Errorf("taught %+v; want that nothing can be learnt", p.taught)
		}
	})
}

// A context that ends by a Cause of its own is that of a deadline or a cancellation
// all the same, in line and in flight.
func TestEndByACause(t *testing.T) {
	for name, c := range map[string]struct {
		ends func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, errCut)
		}, context.DeadlineExceeded},
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(errCut) })
			return ctx, func() { cancel(nil) }
		}, context.Canceled},
	} {
		bubble.Test(t, func(t *testing.T) {
			ctx, cancel := c.ends(t.Context())
			defer cancel()
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, context.Cause(r.Context()) // as net/http does
			})
			one := func(string) *throttle.Throttle { return &throttle.Throttle{MaxInFlight: 1} }
			tr := &Transport{Base: base, Throttles: &throttle.Group{New: one}}
			errs := make(chan error, 2)
			for range cap(errs) {
				go func() {
					_, err := tr.RoundTrip(request(t, "GET", "").WithContext(ctx))
					errs <- err
				}()
			}
			for range cap(errs) {
				var e *throttle.Error
				if err := <-errs; !errors.As(err, &e) || e.Reason != errCut || !errors.Is(err, c.want) || e.Timeout() != (name == "deadline") {
					t.Errorf("%s: %v; want %v, by its Cause", name, err, c.want)
				}
			}
		})
	}
}

// The body of an answer is read under the caller's own context, which goes on.
func TestBodyOutlivesTheThrottle(t *testing.T) {
	var seen context.Context
	w := &wire{reply: func(_ int, r *http.Request) (*http.Response, error) {
		seen = r.Context()
		return answer(200, ""), nil
	}}
	if _, err := (&Transport{Base: w}).RoundTrip(request(t, "GET", "")); err != nil || seen.Err() != nil {
		t.Errorf("%v; the request's context after RoundTrip: %v; want it alive", err, seen.Err())
	}
}

func TestBudgetIsUsedUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tr := &Transport{Base: replies(says(502)), Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{Control: pace.All(nil), Budget: pace.Budget{Max: 1}}
		}}}
		var a *http.Response
		var err error
		for range 2 {
			a, err = tr.RoundTrip(request(t, "GET", ""))
		}
		var last *StatusError
		if !errors.Is(err, throttle.ErrBudget) || !errors.As(err, &last) || last.Code != 502 || a != nil {
			t.Errorf("%v, %v; want ErrBudget around the last answer", a, err)
		}
	})
}

func TestNeverSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := replies(says(200))
	b := &body{Reader: strings.NewReader("text")}
	req := request(t, "POST", "text").WithContext(ctx)
	req.Body = b
	_, err := (&Transport{Base: w}).RoundTrip(req)
	if !errors.Is(err, context.Canceled) || len(w.seen) != 0 || b.closed != 1 {
		t.Errorf("%v, %d tries, body closed %d times; want the cancellation, none, once", err, len(w.seen), b.closed)
	}
}

// The body of a request is closed too where a function of the program panics before it is sent.
func TestPanicClosesTheBody(t *testing.T) {
	for name, tr := range map[string]*Transport{
		"Name":    {Name: func(*http.Request) string { panic("here") }},
		"New":     {Throttles: &throttle.Group{New: func(string) *throttle.Throttle { panic("here") }}},
		"Repeat":  {Repeat: func(*http.Request) bool { panic("here") }},
		"Dialect": {Dialect: func(*http.Request) *signal.Dialect { panic("here") }},
		"Needs":   {Needs: func(*http.Request) []throttle.Need { panic("here") }},
		"OnEvent": {Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{OnEvent: func(throttle.Event) { panic("here") }}
		}}},
	} {
		b := &body{Reader: strings.NewReader("text")}
		req := request(t, "POST", "text")
		req.Body = b
		tr.Base = replies(says(200))
		func() {
			defer func() {
				if p := recover(); p != "here" || b.closed != 1 {
					t.Errorf("%s panics with %v, body closed %d times; want here, once", name, p, b.closed)
				}
			}()
			tr.RoundTrip(req)
		}()
	}
}

// An answer that nobody gets, as OnEvent panics, is closed, so that its connection is free.
func TestPanicClosesTheAnswer(t *testing.T) {
	for _, status := range []int{200, 429} {
		w := replies(says(status))
		tr := &Transport{Base: w, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{OnEvent: func(e throttle.Event) {
				if e.Kind == throttle.Ends {
					panic("here")
				}
			}}
		}}}
		func() {
			defer func() {
				if p := recover(); p != "here" || w.open[0].closed != 1 {
					t.Errorf("%d: panics with %v, answer closed %d times; want here, once", status, p, w.open[0].closed)
				}
			}()
			tr.RoundTrip(request(t, "GET", ""))
		}()
	}
}

// A body that was given to Base is for Base alone to close: it may still be read after the
// answer has come.
func TestBodySentIsLeftToBase(t *testing.T) {
	b := &body{Reader: strings.NewReader("text")}
	req := request(t, "POST", "text")
	req.Body = b
	base := through(func(*http.Request) (*http.Response, error) { return answer(200, ""), nil })
	if _, err := (&Transport{Base: base}).RoundTrip(req); err != nil || b.closed != 0 {
		t.Errorf("%v, body closed %d times; want an answer, and that Base closes it", err, b.closed)
	}
}

func TestGetBodyFails(t *testing.T) {
	w := replies(says(429))
	req := request(t, "PUT", "text")
	req.GetBody = func() (io.ReadCloser, error) { return nil, errCut }
	if _, err := (&Transport{Base: w, Throttles: &throttle.Group{New: unpaced}}).RoundTrip(req); !errors.Is(err, errCut) || MayHaveRun(nil, err) || len(w.seen) != 1 || w.open[0].closed != 1 {
		t.Errorf("%v after %d tries; want %v after 1, of a request that has not run, and its answer closed", err, len(w.seen), errCut)
	}
}

// A request that lasts until the deadline of its context, or the Timeout of its
// client, is reported as timed out; one that is cancelled is not.
func TestTimedOut(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration // of the client
		ends    func(context.Context) (context.Context, context.CancelFunc)
		want    bool
	}{
		{"deadline", 0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, true},
		{"client", time.Second, context.WithCancel, true},
		{"cancelled", 0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, false},
	} {
		bubble.Test(t, func(t *testing.T) {
			base := roundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, errors.New("closed") // as it says it
			})
			var got pace.Report
			g := &throttle.Group{New: func(string) *throttle.Throttle {
				return &throttle.Throttle{OnEvent: func(e throttle.Event) {
					if e.Kind == throttle.Ends {
						got = e.Report
					}
				}}
			}}
			client := http.Client{Transport: &Transport{Base: base, Throttles: g}, Timeout: c.timeout}
			ctx, cancel := c.ends(t.Context())
			defer cancel()
			if _, err := get(ctx, &client, "/"); err == nil || got.TimedOut != c.want {
				t.Errorf("%s: %v, report %+v; want TimedOut %v", c.name, err, got, c.want)
			}
			synctest.Wait()
		})
	}
}
