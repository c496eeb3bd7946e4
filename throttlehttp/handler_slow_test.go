package throttlehttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
)

// reader is a caller that may read slowly.
type reader struct {
	sink
	stalls <-chan struct{} // nil: it reads at once
}

func (r *reader) Write(p []byte) (int, error) {
	if r.stalls != nil {
		<-r.stalls
	}
	return len(p), nil
}

func (r *reader) Flush()                                       {}
func (r *reader) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

// Handlers that slow callers ask.
var (
	text  = strings.Repeat("x", 1<<16)
	large = []byte(text)
	reads = func(_ http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body) }
	works = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
)

// goesOn sends parts of an answer until its caller goes.
func goesOn(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		time.Sleep(100 * time.Millisecond)
	}
}

var slowCallers = []struct {
	name   string
	most   int
	body   string
	sends  bool // all of the body
	stalls bool
	next   http.HandlerFunc
	until  time.Duration // the request holds its place
}{
	{"upload", 0, "x", false, false, reads, 250 * time.Millisecond},
	{"unread", 0, "", true, true, func(w http.ResponseWriter, _ *http.Request) { w.Write(large) }, 250 * time.Millisecond},
	{"unread text", 0, "", true, true, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }, 250 * time.Millisecond},
	{"unread copy", 0, "", true, true, func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, strings.NewReader(text)) }, 250 * time.Millisecond},
	{"events", 0, "", true, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		goesOn(w, r)
	}, 0},
	{"socket", 0, "", true, false, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Hijacker).Hijack()
		works(w, r)
	}, 0},
	{"an answer that goes on", 0, "", true, false, goesOn, 5 * time.Second},
	{"a type behind the header", 0, "", true, false, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		w.Header().Set("Content-Type", "text/event-stream")
		goesOn(w, r)
	}, 5 * time.Second},
	{"works", 0, "", true, false, works, time.Minute},
	{"works after the body", 0, "x", true, false, func(w http.ResponseWriter, r *http.Request) {
		reads(w, r)
		works(w, r)
	}, time.Minute},
	{"upload, of a bound that is set", 9, "x", false, false, reads, time.Minute},
}

// TestPlacesOfSlowCallers: where a Shedder learns its bound, callers that do not go on sending
// or reading and streams hold no place in it, or a few of them would have all others
// refused. What waits for the service does, and a bound that is set counts all.
func TestPlacesOfSlowCallers(t *testing.T) {
	for _, c := range slowCallers {
		bubble.Test(t, func(t *testing.T) {
			h := &Handler{Control: &admit.Control{Shed: &admit.Shedder{MaxInFlight: c.most}}, Next: c.next}
			end := make(chan struct{})
			w := &reader{sink: sink{http.Header{}}}
			if c.stalls {
				w.stalls = end
			}
			in, out := io.Pipe()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, "POST", "http://api.test/", in)
			if c.body == "" {
				r.Body = http.NoBody
			}
			before := r.Body
			time.AfterFunc(time.Minute, func() { close(end); in.CloseWithError(io.ErrClosedPipe) })
			go func() {
				h.ServeHTTP(w, r)
				if r.Body != before {
					t.Errorf("%s: the body is another after the request", c.name)
				}
			}()
			if c.body != "" {
				io.WriteString(out, c.body)
				if c.sends {
					out.Close()
				}
			}
			held := time.Duration(0)
			for synctest.Wait(); h.Control.Shed.Stats().InFlight > 0 && held < time.Minute; held += 50 * time.Millisecond {
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
			}
			if held.Round(time.Second) != c.until.Round(time.Second) || held < c.until {
				t.Errorf("%s: it holds its place for %v, want %v", c.name, held, c.until)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		})
	}
}

// TestPlacesKeepInterfaces: what the writers of net/http do, those of the Handler do too where
// a Shedder learns its bound, and a file is sent whole.
func TestPlacesKeepInterfaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, large, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &Handler{Control: &admit.Control{Shed: new(admit.Shedder)}, Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, flushes := w.(http.Flusher)
		_, hijacks := w.(http.Hijacker)
		_, pushes := w.(http.Pusher)
		_, copies := w.(io.ReaderFrom)
		if first := r.ProtoMajor == 1; !flushes || hijacks != first || pushes == first || !copies {
			t.Errorf("%s: a Flusher is %v, a Hijacker %v, a Pusher %v, an io.ReaderFrom %v", r.Proto, flushes, hijacks, pushes, copies)
		}
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("%s: SetWriteDeadline: %v", r.Proto, err)
		}
		http.ServeFile(w, r, file)
	})}
	first, second := httptest.NewServer(h), httptest.NewUnstartedServer(h)
	second.EnableHTTP2 = true
	second.StartTLS()
	for _, s := range []*httptest.Server{first, second} {
		defer s.Close()
		a, err := s.Client().Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if got, err := io.ReadAll(a.Body); err != nil || len(got) != len(large) {
			t.Errorf("%s: %d bytes, %v; want %d", a.Proto, len(got), err, len(large))
		}
	}
}
