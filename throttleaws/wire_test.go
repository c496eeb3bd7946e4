package throttleaws_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleaws"
)

// over sends requests to an address by an HTTP client. Answers from 400 on are
// errors.
func over(address string, client *http.Client) middleware.Handler {
	handler := smithyhttp.NewClientHandlerWithOptions(client)
	return middleware.HandlerFunc(func(ctx context.Context, in any) (any, middleware.Metadata, error) {
		req := in.(*smithyhttp.Request)
		req.URL = &url.URL{Scheme: "http", Host: address, Path: "/"}
		req.Method = http.MethodPost
		out, metadata, err := handler.Handle(ctx, req)
		resp := out.(*smithyhttp.Response)
		if err == nil && resp.StatusCode >= 400 {
			err = coded("SlowDown")
		}
		if err != nil {
			err = &smithyhttp.ResponseError{Response: resp, Err: err}
		} else {
			resp.Body.Close()
		}
		return out, metadata, err
	})
}

// TestMayHaveRunOnTheWire: what never left has not been executed.
func TestMayHaveRunOnTheWire(t *testing.T) {
	cutOff := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cutOff.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	silent := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("lost") })
	for _, c := range []struct {
		name, address string
		base          http.RoundTripper
		want          bool
	}{
		{"refuses connections", closed, new(http.Transport), false},
		{"cut off without an answer", cutOff.Listener.Addr().String(), new(http.Transport), true},
		{"a client that does not tell", closed, silent, true},
	} {
		s := &sdk{gates: quick(&throttle.Throttle{}), retryer: retry.NewStandard(), op: "PutItem"}
		s.end = over(c.address, &http.Client{Transport: c.base})
		_, err := s.call(t.Context(), &putInput{})
		if e := failure(t, err); e.MayHaveRun != c.want || e.Tries != 4 {
			t.Errorf("%s: %v: MayHaveRun %t after %d tries, want %t after 4", c.name, err, e.MayHaveRun, e.Tries, c.want)
		}
		var gaveUp *throttle.Error
		if !errors.As(err, &gaveUp) || gaveUp.MayHaveRun != c.want {
			t.Errorf("%s: given up as %+v, want MayHaveRun %t", c.name, gaveUp, c.want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.call(ctx, &putInput{})
		if e := failure(t, err); e.MayHaveRun || e.Tries != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled before: %v, MayHaveRun %t after %d tries; want cancelled, false, 0", c.name, err, e.MayHaveRun, e.Tries)
		}
	}
}

func TestCancelledOnTheWire(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	var ends []pace.Verdict
	g := quick(&throttle.Throttle{OnEvent: func(e throttle.Event) {
		if e.Kind == throttle.Ends {
			ends = append(ends, e.Report.Verdict)
		}
	}})
	s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
	s.end = over(server.Listener.Addr().String(), server.Client())
	_, err := s.call(ctx, &putInput{})
	if e := failure(t, err); !e.MayHaveRun || e.Tries != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in flight: %v, MayHaveRun %t after %d tries; want cancelled, true, 1", err, e.MayHaveRun, e.Tries)
	}
	if !slices.Equal(ends, []pace.Verdict{pace.Ignored}) {
		t.Errorf("cancelled in flight: learnt %v, want nothing", ends)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestRetriesUnderneathAreCounted: an HTTP client that tries three times.
func TestRetriesUnderneathAreCounted(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	base := new(http.Transport)
	defer base.CloseIdleConnections()
	thrice := roundTripper(func(req *http.Request) (resp *http.Response, err error) {
		for try := range 3 {
			if resp, err = base.RoundTrip(req); err != nil || resp.StatusCode < 500 || try == 2 {
				break
			}
			resp.Body.Close()
		}
		return resp, err
	})
	var warned []int
	g := quick(&throttle.Throttle{})
	g.Warn = func(c throttleaws.Call, answers int) { warned = append(warned, answers) }
	s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem", end: over(server.Listener.Addr().String(), &http.Client{Transport: thrice})}
	if _, err := s.call(t.Context(), &putInput{}); err != nil {
		t.Fatal(err)
	}
	if len(warned) != 1 || warned[0] != 3 || requests.Load() != 4 {
		t.Errorf("an HTTP client that tries 3 times, refused 3 times: warned of %v answers, %d requests; want [3], 4", warned, requests.Load())
	}
	if _, err := s.call(t.Context(), &putInput{}); err != nil || len(warned) != 1 {
		t.Errorf("and then served: %v, warned of %v answers; want no other warning", err, warned)
	}
}

// TestMayHaveRunUnderneath: of what an HTTP client tries again by itself only the
// last answer is known.
func TestMayHaveRunUnderneath(t *testing.T) {
	for first, want := range map[int]bool{http.StatusInternalServerError: true, http.StatusBadRequest: false} {
		var requests atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests.Add(1) == 1 {
				w.WriteHeader(first)
				return
			}
			w.WriteHeader(http.StatusBadRequest)
		}))
		base := new(http.Transport)
		twice := roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if err == nil && resp.StatusCode >= 500 {
				resp.Body.Close()
				resp, err = base.RoundTrip(req)
			}
			return resp, err
		})
		g := quick(&throttle.Throttle{Tries: 1})
		g.Warn = func(throttleaws.Call, int) {}
		s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem", end: over(server.Listener.Addr().String(), &http.Client{Transport: twice})}
		_, err := s.call(t.Context(), &putInput{})
		if e := failure(t, err); e.MayHaveRun != want || e.Tries != 1 {
			t.Errorf("%d, then 400: %v: MayHaveRun %t after %d tries, want %t after 1", first, err, e.MayHaveRun, e.Tries, want)
		}
		base.CloseIdleConnections()
		server.Close()
	}
}

// TestCredentialsOnTheWire: requests for credentials, with the context of a call,
// are none of it.
func TestCredentialsOnTheWire(t *testing.T) {
	healthy := true
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if !healthy {
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	g := quick(&throttle.Throttle{})
	g.Warn = func(_ throttleaws.Call, answers int) { t.Errorf("warned of %d answers, want of none", answers) }
	s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem", end: over(server.Listener.Addr().String(), server.Client())}
	s.login = func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, nil)
		if err != nil {
			return err
		}
		a, err := server.Client().Do(req)
		if err != nil {
			return &smithyhttp.RequestSendError{Err: err}
		}
		return a.Body.Close()
	}
	if _, err := s.call(t.Context(), &putInput{}); err != nil {
		t.Errorf("%v, want it served", err)
	}
	healthy = false
	_, err := s.call(t.Context(), &putInput{})
	if e := failure(t, err); e.MayHaveRun || e.Tries != 4 {
		t.Errorf("no credentials: %v: MayHaveRun %t after %d tries, want false after 4", err, e.MayHaveRun, e.Tries)
	}
}

// TestWithoutCredentials: a call that was not sent says nothing about the service.
func TestWithoutCredentials(t *testing.T) {
	var ends []pace.Verdict
	g := quick(&throttle.Throttle{OnEvent: func(e throttle.Event) {
		if e.Kind == throttle.Ends {
			ends = append(ends, e.Report.Verdict)
		}
	}})
	expired := coded("ExpiredToken")
	s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem", login: func(context.Context) error { return expired }}
	_, err := s.call(t.Context(), &putInput{})
	if e := failure(t, err); e.MayHaveRun || e.Tries != 1 || !errors.Is(err, expired) {
		t.Errorf("%v: MayHaveRun %t after %d tries, want %v, false after 1", err, e.MayHaveRun, e.Tries, expired)
	}
	if !slices.Equal(ends, []pace.Verdict{pace.Ignored}) {
		t.Errorf("learnt %v, want nothing", ends)
	}
}

// TestThrottleUnderneath: a Throttle in the HTTP client has tried already.
func TestThrottleUnderneath(t *testing.T) {
	s := &sdk{gates: quick(&throttle.Throttle{}), retryer: retry.NewStandard(), op: "PutItem"}
	s.serve = func(int, *smithyhttp.Request) (any, error) {
		return nil, &smithyhttp.RequestSendError{Err: &throttle.Error{Reason: throttle.ErrTries}}
	}
	if _, err := s.call(t.Context(), &putInput{}); s.requests != 1 || !errors.Is(err, throttle.ErrTries) {
		t.Errorf("a Throttle underneath has no tries left: %d requests, %v; want 1, and its error", s.requests, err)
	}
}

// TestAdmissionUnderneath: the HTTP client refuses a request by itself, which
// says nothing about the service.
func TestAdmissionUnderneath(t *testing.T) {
	for _, reason := range []error{store.ErrUndecided, context.DeadlineExceeded} {
		var ends []pace.Verdict
		g := quick(&throttle.Throttle{OnEvent: func(e throttle.Event) {
			if e.Kind == throttle.Ends {
				ends = append(ends, e.Report.Verdict)
			}
		}})
		s := &sdk{gates: g, retryer: retry.NewStandard(), op: "PutItem"}
		admission := roundTripper(func(*http.Request) (*http.Response, error) { return nil, &store.Error{Reason: reason} })
		s.end = over("127.0.0.1:9", &http.Client{Transport: admission})
		_, err := s.call(t.Context(), &putInput{})
		var refused *store.Error
		if e := failure(t, err); !errors.As(err, &refused) || e.Tries != 1 || e.MayHaveRun {
			t.Errorf("not admitted, %v: %v after %d tries, MayHaveRun %t; want its error, 1, false", reason, err, e.Tries, e.MayHaveRun)
		}
		if !slices.Equal(ends, []pace.Verdict{pace.Ignored}) {
			t.Errorf("not admitted, %v: learnt %v, want nothing", reason, ends)
		}
	}
}
