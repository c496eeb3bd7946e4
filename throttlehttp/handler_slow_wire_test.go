package throttlehttp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/internal/bubble"
)

// learns is a Handler whose Shedder learns its bound.
func learns(next http.HandlerFunc) *Handler {
	return &Handler{Control: &admit.Control{Shed: new(admit.Shedder)}, Next: next}
}

// wired sends text to a server, and returns the beginning of its answer.
func wired(t *testing.T, s *httptest.Server, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// TestPlacesLeaveBodyUnread: where a Shedder learns its bound, a long answer that refuses a large
// body comes at once, as without the Handler: net/http neither asks for the body, nor reads it.
func TestPlacesLeaveBodyUnread(t *testing.T) {
	s := httptest.NewServer(learns(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		w.Write(large)
	}))
	defer s.Close()
	for _, fields := range []string{"Expect: 100-continue\r\nContent-Length: 9\r\n", "Content-Length: 1000000\r\n"} {
		if got := wired(t, s, "PUT / HTTP/1.1\r\nHost: h\r\n"+fields+"\r\n"); got != "HTTP/1.1 403 Forbidden" {
			t.Errorf("with %q: %q, want 403", fields, got)
		}
	}
}

// TestPlacesKeepRequest: what Next and net/http set in a request is seen on both sides of the
// Handler, though the body that Next reads is watched.
func TestPlacesKeepRequest(t *testing.T) {
	const (
		part = "--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\nx\r\n--b--\r\n"
		head = "POST /of/7 HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n"
	)
	var file, trailer string
	mux := http.NewServeMux()
	mux.HandleFunc("POST /of/{id}", func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(0); err != nil { // all of it in a file
			t.Error(err)
			return
		}
		io.Copy(io.Discard, r.Body)
		trailer = r.Trailer.Get("Late")
		if f, err := r.MultipartForm.File["f"][0].Open(); err != nil {
			t.Error(err)
		} else if on, ok := f.(*os.File); ok {
			file = on.Name()
			f.Close()
		}
	})
	h := learns(mux.ServeHTTP)
	var after string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := r.Body
		h.ServeHTTP(w, r)
		after = fmt.Sprint(r.Pattern, " ", r.PathValue("id"), " ", len(r.MultipartForm.File), " ", r.Body == body)
	}))
	got := wired(t, s, fmt.Sprintf("%s%x\r\n%s\r\n0\r\nLate: yes\r\n\r\n", head, len(part), part))
	s.Close()
	if want := "POST /of/{id} 7 1 true"; got != "HTTP/1.1 200 OK" || after != want || trailer != "yes" {
		t.Errorf("%s; after the Handler %q, want %q; in it a trailer %q", got, after, want, trailer)
	}
	if _, err := os.Stat(file); file == "" || !os.IsNotExist(err) {
		t.Errorf("the file of the form, %q, is left behind: %v", file, err)
	}
}

// TestPlacesKeepRequestReadOn: a body may be read on after Next has returned, as in an
// http.TimeoutHandler, while the Handler ends.
func TestPlacesKeepRequestReadOn(t *testing.T) {
	for range 50 {
		returned, read := make(chan struct{}), make(chan struct{})
		r := httptest.NewRequest("POST", "/", struct{ io.Reader }{strings.NewReader("x")})
		learns(func(_ http.ResponseWriter, r *http.Request) {
			go func() {
				<-returned
				io.Copy(io.Discard, r.Body)
				close(read)
			}()
			close(returned)
			runtime.Gosched() // the race detector sees no order in that
		}).ServeHTTP(httptest.NewRecorder(), r)
		<-read
	}
}

// TestPlacesCopyFrugally: to copy into an answer takes no buffer of its own each time.
func TestPlacesCopyFrugally(t *testing.T) {
	const times = 200
	h := learns(func(w http.ResponseWriter, _ *http.Request) {
		for range times {
			io.Copy(w, struct{ io.Reader }{strings.NewReader("x")})
		}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h.ServeHTTP(&reader{sink: sink{http.Header{}}}, httptest.NewRequest("GET", "/", nil))
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 16<<10 { // the race detector has pools forget some
		t.Errorf("%d bytes are allocated for each, want 16 KiB at most", each)
	}
}

// TestPlacesBehindPlainWriters: the writers of other middleware, which only know the status of an
// answer, are watched too.
func TestPlacesBehindPlainWriters(t *testing.T) {
	type plain struct{ http.ResponseWriter }
	for name, next := range map[string]http.HandlerFunc{
		"unread": func(w http.ResponseWriter, _ *http.Request) { w.Write(large) },
		"events": func(w http.ResponseWriter, r *http.Request) {
			if _, flushes := w.(http.Flusher); flushes {
				t.Error("a writer that does not flush is a Flusher")
			}
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: 1\n\n")
			works(w, r)
		},
	} {
		bubble.Test(t, func(t *testing.T) {
			end := make(chan struct{})
			time.AfterFunc(time.Minute, func() { close(end) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w := &reader{sink: sink{http.Header{}}}
			if name == "unread" {
				w.stalls = end
			}
			h := learns(next)
			go h.ServeHTTP(plain{w}, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
			time.Sleep(lasting + time.Millisecond)
			if n := h.Control.Shed.Stats().InFlight; n != 0 {
				t.Errorf("%s: it holds its place, want not", name)
			}
			<-end
			synctest.Wait()
		})
	}
}
