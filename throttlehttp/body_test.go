package throttlehttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/signal"
)

// github wants the bodies of 403 and 429, shopify that of 200, and nobody's
// that of 502.
var slowBodies = []struct {
	host    string
	status  int
	header  string
	refused bool // by status and header alone
}{
	{"api.example.com", 429, "", true},
	{"api.example.com", 503, "1", true},
	{"api.example.com", 503, "", true},
	{"api.example.com", 502, "", true},
	{"api.github.com", 429, "1", true},
	{"api.github.com", 403, "", false},
	{"shop.myshopify.com", 200, "", false},
}

// An answer is judged in bounded time, whatever its body does; and one that is
// retried gives its connection up.
func TestBodyThatDoesNotEnd(t *testing.T) {
	for _, c := range slowBodies {
		for _, each := range []time.Duration{0, 10 * time.Millisecond, 400 * time.Millisecond} {
			bubble.Test(t, func(t *testing.T) {
				var tries atomic.Int32
				var closed atomic.Int32
				base := roundTripper(func(r *http.Request) (*http.Response, error) {
					a := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}
					if tries.Add(1) == 1 {
						a.StatusCode = c.status
						if c.header != "" {
							a.Header.Set("Retry-After", c.header)
						}
						a.Body = newStuck(each, &closed)
					}
					return a, nil
				})
				tr := &Transport{Base: base, Bodies: true, Throttles: &throttle.Group{New: unpaced}}
				begin := time.Now()
				r, _ := http.NewRequestWithContext(t.Context(), "GET", "https://"+c.host+"/admin/api/x", nil)
				a, err := tr.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				took := time.Since(begin)
				if want := int32(1); c.refused && (a.StatusCode != 200 || tries.Load() != 2 || closed.Load() != want) {
					t.Errorf("%s %d: %d after %d tries, %d closed; want 200 after 2, and the first closed", c.host, c.status, a.StatusCode, tries.Load(), closed.Load())
				}
				if took > 2500*time.Millisecond {
					t.Errorf("%s %d, a byte each %v: took %v, want no more than the wait and a second", c.host, c.status, each, took)
				}
				if !c.refused {
					if n, err := a.Body.Read(make([]byte, 9)); each > 0 && (n == 0 || err != nil) {
						t.Errorf("%s %d: of the body of the answer that is returned: %d bytes, %v", c.host, c.status, n, err)
					}
				}
				a.Body.Close()
				synctest.Wait()
			})
		}
	}
}

// stuck is a body that ends only when it is closed: with a byte each time, or
// with none.
type stuck struct {
	each   time.Duration
	over   chan struct{}
	closed *atomic.Int32
}

func newStuck(each time.Duration, closed *atomic.Int32) *stuck {
	return &stuck{each, make(chan struct{}), closed}
}

func (s *stuck) Read(p []byte) (int, error) {
	tick := time.After(s.each)
	if s.each == 0 {
		tick = time.After(time.Hour)
	}
	select {
	case <-tick:
		return copy(p, "x"), nil
	case <-s.over:
		return 0, errors.New("read after close")
	}
}

func (s *stuck) Close() error {
	s.closed.Add(1)
	close(s.over)
	return nil
}

// The same over net/http: the connection of the first answer is closed.
func TestBodyThatDoesNotEndOnTheWire(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var conns atomic.Int32
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			first := conns.Add(1) == 1
			go func() {
				defer theirs.Close()
				theirs.Read(make([]byte, 4<<10))
				if first {
					io.WriteString(theirs, "HTTP/1.1 429 Too Many Requests\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
					theirs.Read(make([]byte, 1)) // until the other side is closed
					return
				}
				io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
			}()
			return ours, nil
		}}
		begin := time.Now()
		client := http.Client{Transport: &Transport{Base: transport, Throttles: &throttle.Group{New: unpaced}}}
		a, err := get(t.Context(), &client, "/")
		if err != nil || a.StatusCode != 200 || conns.Load() != 2 {
			t.Fatalf("%v, %v over %d connections; want 200 over 2", a, err, conns.Load())
		}
		if text, err := io.ReadAll(a.Body); string(text) != "ok" || err != nil {
			t.Errorf("the answer is %q, %v", text, err)
		}
		a.Body.Close()
		if d := time.Since(begin); d > time.Second {
			t.Errorf("took %v, want less than a second", d)
		}
	})
}

// A final refusal with a slow body is returned with all of it.
func TestSlowBodyIsReturned(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		long := strings.Repeat("y", signal.MaxBody+5000)
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			pr, pw := io.Pipe()
			go func() {
				for i := 0; i < len(long); i += 1000 {
					pw.Write([]byte(long[i:min(i+1000, len(long))]))
					time.Sleep(50 * time.Millisecond)
				}
				pw.Close()
			}()
			return &http.Response{StatusCode: 429, Header: http.Header{}, Body: pr, Request: r}, nil
		})
		th := func(string) *throttle.Throttle { return &throttle.Throttle{Tries: 1} }
		client := http.Client{Transport: &Transport{Base: base, Throttles: &throttle.Group{New: th}}}
		a, err := get(t.Context(), &client, "/")
		if err != nil || a.StatusCode != 429 {
			t.Fatal(a, err)
		}
		if text, err := io.ReadAll(a.Body); string(text) != long || err != nil {
			t.Errorf("%d bytes, %v; want all %d", len(text), err, len(long))
		}
		a.Body.Close()
	})
}

// What came of a stream while its beginning was looked at is read at once, and not
// only when more comes.
func TestStreamThatWasLookedAt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			pr, pw := io.Pipe()
			go func() {
				for _, event := range []string{"first", "second", "third"} {
					pw.Write([]byte(event))
					time.Sleep(time.Minute)
				}
				pw.Close()
			}()
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: pr, Request: r}, nil
		})
		tr := &Transport{Base: base, Bodies: true}
		begin := time.Now()
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "https://shop.myshopify.com/events", nil)
		a, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		for i, want := range []string{"first", "second", "third"} {
			event := make([]byte, 100)
			n, err := a.Body.Read(event)
			if string(event[:n]) != want || err != nil {
				t.Errorf("read %q, %v; want %q", event[:n], err, want)
			}
			if late := time.Since(begin) - time.Duration(i)*time.Minute; late > time.Second {
				t.Errorf("%q is read %v late", want, late)
			}
		}
		if n, err := a.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("at the end: %d bytes, %v; want EOF", n, err)
		}
	})
}

// shut is a body whose Close waits for its Read, and that for the server, as
// net/http's of a gzipped answer until its first bytes are here.
type shut struct{ over chan struct{} }

func (s shut) Read([]byte) (int, error) { <-s.over; return 0, io.EOF }
func (s shut) Close() error             { <-s.over; return nil }

// Closing an answer whose body was looked at does not wait for that body.
func TestCloseBeforeBodyArrives(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(over) })
		base := roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 429, Header: http.Header{}, Body: shut{over}, Request: r}, nil
		})
		client := http.Client{Transport: &Transport{Base: base, Tries: -1}}
		a, err := get(t.Context(), &client, "/")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		a.Body.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("Close took %v, want none of the minute until the body ends", took)
		}
		<-over
	})
}

// summed is a body that sets a trailer when it has been read.
type summed struct {
	io.Reader
	trailer http.Header
}

func (s summed) Read(p []byte) (n int, err error) {
	if n, err = s.Reader.Read(p); err == io.EOF {
		s.trailer.Set("X-Sum", "1")
	}
	return n, err
}

// A trailer of a request has its value only once the body was read: it is sent all the
// same, also where the body is kept for another try.
func TestBodyBeforeTrailer(t *testing.T) {
	var tries atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Got", r.Trailer.Get("X-Sum"))
		if tries.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer s.Close()
	for _, most := range []int64{0, 100} {
		tr := &Transport{MaxRequestBody: most, Throttles: &throttle.Group{New: unpaced}}
		for range 2 {
			r, _ := http.NewRequest("PUT", s.URL, nil)
			r.Trailer = http.Header{"X-Sum": nil}
			r.Body, r.ContentLength = io.NopCloser(summed{strings.NewReader("hello"), r.Trailer}), -1
			a, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if got := a.Header.Get("X-Got"); got != "1" {
				t.Errorf("MaxRequestBody %d: the server got the trailer %q with %d, want 1", most, got, a.StatusCode)
			}
		}
	}
}
