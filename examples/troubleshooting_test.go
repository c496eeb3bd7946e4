package examples_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlehttp"
	"github.com/throttle-go/throttle/throttleredis"
)

var (
	errServer = errors.New("429 Too Many Requests")
	errDown   = errors.New("502 Bad Gateway")
	perMinute = limit.Limit{Count: 100, Period: time.Minute}
)

// texts are the messages of docs/troubleshooting.md, each produced by its cause.
var texts = []struct {
	name string
	text func(t *testing.T) string
}{
	{"a wait of more than a minute", func(t *testing.T) string {
		return logged(t, func() {
			var api throttle.Throttle
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			refused := false
			_ = api.Do(ctx, func(context.Context) error {
				if refused {
					return nil
				}
				refused = true
				return throttle.Throttled(errServer, 2*time.Minute)
			})
		})
	}},
	{"MaxWait is over", func(t *testing.T) string {
		api := throttle.Throttle{MaxWait: time.Minute}
		return api.Do(t.Context(), refuse(2*time.Minute)).Error()
	}},
	{"all slots are in flight", func(t *testing.T) string {
		api := throttle.Throttle{MaxInFlight: 1}
		var inside error
		_ = api.Do(t.Context(), func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			inside = api.Do(ctx, func(context.Context) error { return nil })
			return nil
		})
		return inside.Error()
	}},
	{"the queue is full", func(t *testing.T) string {
		api := throttle.Throttle{Control: &pace.Fixed{Rate: 4}, MaxWaiting: 1}
		for range 2 {
			go func() { _ = api.Do(t.Context(), func(context.Context) error { return nil }) }()
			synctest.Wait()
		}
		return api.Do(t.Context(), func(context.Context) error { return nil }).Error()
	}},
	{"no tries left", func(t *testing.T) string {
		api := throttle.Throttle{Tries: 3}
		return api.Do(t.Context(), refuse(0)).Error()
	}},
	{"no retries left", func(t *testing.T) string {
		var api throttle.Throttle
		return api.Do(t.Context(), func(context.Context) error { return throttle.Failed(errDown) }).Error()
	}},
	{"over the retry budget", func(t *testing.T) string {
		var api throttle.Throttle
		for {
			err := api.Do(t.Context(), func(context.Context) error { return throttle.Failed(errDown) })
			if errors.Is(err, throttle.ErrBudget) {
				return err.Error()
			}
		}
	}},
	{"Try does not wait", func(t *testing.T) string {
		api := throttle.Throttle{Control: &pace.Fixed{Rate: 4}}
		_ = api.Try(t.Context(), func(context.Context) error { return nil })
		return api.Try(t.Context(), func(context.Context) error { return nil }).Error()
	}},
	{"a 429 that leaves no time", func(t *testing.T) string {
		client := http.Client{Transport: &throttlehttp.Transport{Base: answering{429, "Retry-After", "60"}, MaxWait: time.Second}}
		resp, err := client.Get("http://api.test/things")
		if err == nil {
			resp.Body.Close()
		}
		return err.Error()
	}},
	{"a layer underneath that retries", func(t *testing.T) string {
		n := 0
		server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if n++; n < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		return logged(t, func() {
			client := http.Client{Transport: &throttlehttp.Transport{Base: retrying{server}}}
			resp, err := client.Get("http://api.test/things")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		})
	}},
	{"more than the burst", func(t *testing.T) string {
		var q admit.Queue
		_, err := q.Wait(t.Context(), "user:42", perMinute, 101)
		return err.Error()
	}},
	{"a limit without a Period", func(t *testing.T) string {
		return logged(t, func() {
			limited := throttlehttp.Limit(limit.Limit{Count: 100}, nil)(http.NotFoundHandler())
			for range 2 {
				limited.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			}
		})
	}},
	{"the store fails", func(t *testing.T) string {
		q := admit.Queue{Store: redis(dialed)}
		_, err := q.Wait(t.Context(), "user:42", perMinute, 1)
		return err.Error()
	}},
	{"an answer got lost", func(t *testing.T) string {
		_, err := store.Take(t.Context(), redis(io.EOF), "user:42", perMinute, 1)
		return err.Error()
	}},
	{"Redis is full", func(t *testing.T) string {
		full := errors.New("OOM command not allowed when used memory > 'maxmemory'.")
		_, err := store.Take(t.Context(), redis(full), "user:42", perMinute, 1)
		return err.Error()
	}},
	{"a Prefix with braces", func(t *testing.T) string {
		s := redis(io.EOF)
		s.Prefix = "{limits}:"
		_, err := store.Take(t.Context(), s, "user:42", perMinute, 1)
		return err.Error()
	}},
	{"keys in several slots", func(t *testing.T) string {
		s := redis(io.EOF)
		s.Slots = 1024
		a := []limit.Ask{{Key: "42:minute", Limit: perMinute, N: 1}, {Key: "42:day", Limit: perMinute, N: 1}}
		_, err := s.Take(t.Context(), a, make([]limit.Decision, 2))
		return err.Error()
	}},
	{"one key twice", func(t *testing.T) string {
		var s memory.Store
		a := []limit.Ask{{Key: "user:42", Limit: perMinute, N: 1}, {Key: "user:42", Limit: perMinute, N: 1}}
		_, err := s.Take(t.Context(), a, make([]limit.Decision, 2))
		return err.Error()
	}},
	{"a Guard without a Store", func(t *testing.T) string { return guarded(t, nil) }},
	{"a Store that does not answer", func(t *testing.T) string { return guarded(t, slow(time.Hour)) }},
	{"a Store that is slow", func(t *testing.T) string { return guarded(t, slow(45*time.Millisecond)) }},
	{"a Store that is away", func(t *testing.T) string { return guarded(t, redis(dialed)) }},
	{"leases that expire on the way", func(t *testing.T) string {
		l := store.Leases{Store: slow(time.Second), Life: 500 * time.Millisecond}
		_, err := store.Take(t.Context(), &l, "user:42", perMinute, 1)
		return err.Error()
	}},
	{"in flight for ever", func(t *testing.T) string {
		f := store.InFlight{MaxWaiting: 1}
		_, _, _ = f.Acquire(store.Count{Key: "42", Max: 1})
		go func() { _, _ = f.Wait(t.Context(), store.Count{Key: "42", Max: 1}) }()
		synctest.Wait()
		_, err := f.Wait(t.Context(), store.Count{Key: "42", Max: 1})
		return err.Error()
	}},
}

// dialed is the error of a client that cannot connect.
var dialed = &net.OpError{
	Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379},
	Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
}

// refuse returns a call that is throttled each time.
func refuse(after time.Duration) func(context.Context) error {
	return func(context.Context) error { return throttle.Throttled(errServer, after) }
}

// redis is a Store whose client always fails.
func redis(err error) *throttleredis.Store {
	return &throttleredis.Store{Do: func(context.Context, ...any) (any, error) { return nil, err }}
}

// slow is a Store that decides after so long.
func slow(d time.Duration) store.Store {
	var s memory.Store
	return store.Func(func(ctx context.Context, a []limit.Ask, d0 []limit.Decision) (bool, error) {
		time.Sleep(d)
		return s.Take(ctx, a, d0)
	})
}

// guarded asks a Guard around s for two seconds, and returns the last error.
func guarded(t *testing.T, s store.Store) string {
	g := store.Guard{Store: s}
	for range 40 {
		if _, err := store.Take(t.Context(), &g, "user:42", perMinute, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(2 * time.Hour) // until no call is left
	return g.Stats().LastErr.Error()
}

// answering is a RoundTripper of one answer.
type answering struct {
	status      int
	field, text string
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{a.field: {a.text}}, Body: http.NoBody, Request: r}, nil
}

// retrying retries by itself, as some clients do.
type retrying struct{ http.RoundTripper }

func (b retrying) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		resp, err := b.RoundTripper.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			return resp, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// serve serves h over connections in memory.
func serve(t *testing.T, h http.Handler) http.RoundTripper {
	base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		l := &oneConn{conn: there, closed: make(chan struct{})}
		server := &http.Server{Handler: h}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { server.Close(); l.Close() })
		return here, nil
	}}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// oneConn is a listener of one connection.
type oneConn struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{} }

func (l *oneConn) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

// logged returns what f logs by the default logger, without the time.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var b bytes.Buffer
	was := slog.Default()
	defer slog.SetDefault(was)
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	f()
	return strings.TrimSpace(b.String())
}
