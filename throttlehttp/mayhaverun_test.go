package throttlehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
)

// TestMayHaveRun: what may be undone, or done elsewhere, hangs on it.
func TestMayHaveRun(t *testing.T) {
	refused := says(429, "Retry-After", "0")
	for _, tt := range []struct {
		name   string
		method string
		server sequence
		want   bool
	}{
		{"served", "POST", sequence{says(200)}, true},
		{"created", "POST", sequence{says(201)}, true},
		{"see other", "POST", sequence{says(303)}, true},
		{"bad request", "POST", sequence{says(400)}, false},
		{"declined", "POST", sequence{says(402)}, false},
		{"quota of the month", "POST", sequence{says(429)}, false},
		{"throttled for ever", "POST", sequence{refused}, false},
		{"unavailable on purpose", "POST", sequence{says(503, "Retry-After", "0")}, false},
		{"unavailable", "POST", sequence{says(503)}, true},
		{"unavailable with the last of a quota", "POST", sequence{says(503, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "5")}, true},
		{"unavailable, made again", "PUT", sequence{says(503), refused}, true},
		{"error", "POST", sequence{says(500)}, true},
		{"bad gateway", "POST", sequence{says(502)}, true},
		{"gateway timeout", "PUT", sequence{says(504), says(404)}, true},
		{"cut off", "POST", sequence{cut}, true},
		{"cut off, then throttled", "PUT", sequence{cut, refused}, true},
		{"cut off, then refused", "PUT", sequence{cut, says(409)}, true},
		{"throttled, then refused", "PUT", sequence{refused, says(409)}, false},
		{"throttled, then cut off", "POST", sequence{refused, cut}, true},
	} {
		tr := &Transport{Base: replies(tt.server...), Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{Control: pace.All(nil), Tries: 3}
		}}}
		client := http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		a, err := client.Do(request(t, tt.method, "text"))
		if got := MayHaveRun(a, err); got != tt.want {
			t.Errorf("%s: MayHaveRun = %v of %v, %v; want %v", tt.name, got, a, err, tt.want)
		}
	}
}

// What never got a connection was not executed; what did may have been.
func TestMayHaveRunOverSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	l.Close()
	open := server(t, func(_ int, w http.ResponseWriter, _ *http.Request) { hangUp(w) })
	for url, want := range map[string]bool{closed: false, open: true} {
		base := new(http.Transport)
		req, err := http.NewRequest("POST", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := (&http.Client{Transport: &Transport{Base: base, Throttles: &throttle.Group{New: unpaced}}}).Do(req)
		if err == nil || MayHaveRun(a, err) != want {
			t.Errorf("POST %s: %v, MayHaveRun = %v; want %v", url, err, MayHaveRun(a, err), want)
		}
	}
}

// A deadline that ends while there is no connection yet leaves nothing to undo.
func TestMayHaveRunAtTheDeadline(t *testing.T) {
	for name, want := range map[string]bool{"connecting": false, "asking": true} {
		bubble.Test(t, func(t *testing.T) {
			given := make(chan struct{}) // up; dials of net/http outlive their request
			defer close(given)
			base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				if name == "connecting" {
					<-given
					return nil, errCut
				}
				ours, theirs := net.Pipe()
				go io.Copy(io.Discard, theirs) // ends as ours is closed
				return ours, nil
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a, err := (&http.Client{Transport: &Transport{Base: base}}).Do(request(t, "PUT", "text").WithContext(ctx))
			if !throttleTimedOut(err) || MayHaveRun(a, err) != want {
				t.Errorf("%s: %v, MayHaveRun = %v; want a timeout, %v", name, err, MayHaveRun(a, err), want)
			}
		})
	}
}

// A request that another call cancels while it is in flight, as in an errgroup, may
// have been executed, whatever that call says of itself.
func TestMayHaveRunAsAnotherFailed(t *testing.T) {
	other := &throttle.Error{Reason: throttle.ErrQueueFull}
	ctx, cancel := context.WithCancelCause(t.Context())
	open := server(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		cancel(fmt.Errorf("another: %w", other))
		<-r.Context().Done()
	})
	req, err := http.NewRequestWithContext(ctx, "POST", open, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := (&http.Client{Transport: new(Transport)}).Do(req)
	var e *throttle.Error
	if !errors.As(err, &e) || e == other || e.Tries != 1 || !MayHaveRun(a, err) || other.MayHaveRun {
		t.Errorf("%v, %v; want an Error of its own after one try, which may have run", a, err)
	}
}

// A Base that changes the path hides the Transports from each other: both retry, and
// a try of either may have been executed, whatever came last.
func TestMayHaveRunUnderAChangedPath(t *testing.T) {
	for name, retries := range map[string]int{"the upper retries": -1, "the lower retries": 1} {
		lower := &Transport{Base: replies(says(504), says(409)), Retries: retries}
		upper := &Transport{Base: through(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Path = "/v1" + r.URL.Path
			return lower.RoundTrip(r)
		})}
		a, err := upper.RoundTrip(request(t, "PUT", "text"))
		if err != nil || a.StatusCode != 409 || !MayHaveRun(a, err) || a.Request.URL.Path != "/v1/x" {
			t.Errorf("%s: %v, %v may not have run; want that it may, by the first try", name, a, err)
		}
	}
}

// What net/http or another layer underneath sends again may have been executed the
// first time, whatever the answer says of the last.
func TestMayHaveRunOfWhatIsSentAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		layer bool
		first func(http.ResponseWriter)
		want  bool
	}{
		{"answered at once", false, nil, false},
		{"cut off over an old connection", false, hangUp, true},
		{"a layer that retries a 503", true, func(w http.ResponseWriter) { w.WriteHeader(503) }, true},
	} {
		base := new(http.Transport)
		url := server(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			switch {
			case n == 2 && tt.first != nil:
				tt.first(w)
			case n > 1:
				w.WriteHeader(409)
			}
		})
		tr := &Transport{Base: base, Throttles: &throttle.Group{New: unpaced}, Warn: func(*http.Request, int) {}}
		if tt.layer {
			tr.Base = retrier(base, 3)
		}
		var a *http.Response
		for range 2 {
			req, err := http.NewRequest("POST", url, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", "1") // so that net/http sends it again
			if a, err = tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
			drop(t.Context(), a.Body)
		}
		if a.StatusCode != 409 || MayHaveRun(a, nil) != tt.want {
			t.Errorf("%s: MayHaveRun of %d = %v; want %v", tt.name, a.StatusCode, MayHaveRun(a, nil), tt.want)
		}
		base.CloseIdleConnections()
	}
}

// What a redirect answered may have been executed, however the request ends that follows it.
func TestMayHaveRunBeforeRedirect(t *testing.T) {
	seeOther := says(303, "Location", "/result")
	refused := says(429, "Retry-After", "3600")
	for name, last := range map[string]func() (*http.Response, error){"not found": says(404), "throttled": refused} {
		bubble.Test(t, func(t *testing.T) {
			tr := &Transport{Base: replies(seeOther, last), MaxWait: time.Minute}
			a, err := (&http.Client{Transport: tr}).Do(request(t, "POST", "text"))
			if !MayHaveRun(a, err) || (err != nil) != (name == "throttled") {
				t.Errorf("%s: MayHaveRun is false of %v, %v; want true, as the POST was answered", name, a, err)
			}
		})
	}
}

// Of an answer to GraphQL that refuses one field and holds another a part was executed.
func TestMayHaveRunInPart(t *testing.T) {
	for data, want := range map[string]bool{`{"a":{"id":1},"b":null}`: true, `null`: false} {
		body := `{"data":` + data + `,"errors":[{"type":"RATE_LIMITED"}]}`
		tr := &Transport{
			Base:      through(func(*http.Request) (*http.Response, error) { return answer(200, body, "Retry-After", "0"), nil }),
			Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &throttle.Throttle{Control: pace.All(nil), Tries: 2} }},
		}
		req, err := http.NewRequest("POST", "https://api.github.com/graphql", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := tr.RoundTrip(req); err != nil || MayHaveRun(a, err) != want {
			t.Errorf("data %s: %v, MayHaveRun = %v; want %v", data, err, MayHaveRun(a, err), want)
		}
	}
}

func throttleTimedOut(err error) bool {
	e, ok := err.(net.Error) // as http.Client returns it
	return ok && e.Timeout()
}

func TestMayHaveRunOfOthers(t *testing.T) {
	plain := http.Client{Transport: replies(says(429))}
	a, err := plain.Do(request(t, "GET", ""))
	if !MayHaveRun(a, err) || !MayHaveRun(nil, io.EOF) || !MayHaveRun(nil, nil) || !MayHaveRun(answer(429, ""), nil) {
		t.Error("what no Transport has seen surely did not run; want that it may have")
	}
	if MayHaveRun(nil, &throttle.Error{Reason: throttle.ErrQueueFull}) {
		t.Error("what a full queue refused may have run; want not")
	}
	cached := request(t, "GET", "") // not the one that the Transport sent
	tr := &Transport{Base: through(func(*http.Request) (*http.Response, error) {
		a := answer(404, "")
		a.Request = cached
		return a, nil
	})}
	if a, err := tr.RoundTrip(request(t, "GET", "")); err != nil || a.Request != cached || !MayHaveRun(a, err) {
		t.Errorf("%v, %v of another request surely did not run; want that it may have", a, err)
	}
}

// What was sent again once may have been executed, also if it was never written the next
// time.
func TestSentAgainBeforeALostConnection(t *testing.T) {
	var p tap
	for range 2 {
		p.ask()
		p.got(httptrace.GotConnInfo{Reused: true})
		p.wrote("Host", nil)
	}
	for range 2 {
		p.ask()
		p.got(httptrace.GotConnInfo{Reused: true})
	}
	if !p.ranBefore() || p.layers() != 0 {
		t.Errorf("ran before: %t, %d layers; want that it may have, and none", p.ranBefore(), p.layers())
	}
}

// A request that net/http refuses to send is not retried, uses no retry budget,
// and was not executed.
func TestUnsendableRequests(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"no URL":         func(r *http.Request) { r.URL = nil },
		"no header":      func(r *http.Request) { r.Header = nil },
		"no host":        func(r *http.Request) { r.URL.Host = "" },
		"scheme":         func(r *http.Request) { r.URL.Scheme = "htp" },
		"method":         func(r *http.Request) { r.Method = "GET " },
		"header name":    func(r *http.Request) { r.Header["a b"] = []string{"1"} },
		"header value":   func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer 1\n"} },
		"trailer's name": func(r *http.Request) { r.Trailer = http.Header{"a b": nil} },
	} {
		for _, nested := range []bool{false, true} {
			var tr *Transport
			if tr = new(Transport); nested {
				tr.Base = new(Transport)
			}
			req := request(t, "GET", "")
			req.Header.Set("Idempotency-Key", "1")
			spoil(req)
			a, err := tr.RoundTrip(req)
			var e *throttle.Error
			if !errors.As(err, &e) || e.Tries != 1 || e.MayHaveRun {
				t.Errorf("%s, nested: %t: %v, %+v; want an error after one try, not executed", name, nested, a, e)
			}
		}
	}
}

// A Base that returns nothing is at fault, and may have sent the request.
func TestBaseReturnsNothing(t *testing.T) {
	tr := &Transport{Base: through(func(*http.Request) (*http.Response, error) { return nil, nil })}
	a, err := tr.RoundTrip(request(t, "GET", ""))
	var e *throttle.Error
	if !errors.As(err, &e) || e.Err != errNothing || e.Tries != 1 || !e.MayHaveRun {
		t.Errorf("%v, %v; want an error after one try, which may have been executed", a, err)
	}
}
