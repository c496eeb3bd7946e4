package gateway

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
)

// simple reports whether direct passes a request on: it has neither a body nor an
// upgrade.
func simple(r *http.Request) bool {
	return r.ContentLength == 0 && r.Header["Upgrade"] == nil && r.Header["Connection"] == nil
}

// direct passes a simple request on as httputil.ReverseProxy does, which serves all
// others, for half of its processor time: the header is not copied line by line, and
// names that are canonical already are not made so again.
func (x *exchange) direct(r *http.Request) {
	s := &sending{x: x, url: *r.URL}
	s.trace.Got1xxResponse = s.early
	s.carried = carried{httptrace.WithClientTrace(r.Context(), &s.trace), x}
	out := r.WithContext(&s.carried)
	out.URL, out.Header = &s.url, x.sent(r)
	out.Body, out.Trailer, out.Close = nil, nil, false
	answer, err := roundTripper{}.RoundTrip(out)
	s.end()
	if err == nil && answer.StatusCode == http.StatusSwitchingProtocols {
		err = errUnasked
	}
	if err != nil {
		x.fail(err)
		return
	}
	x.pass(answer)
}

var errFlooded = errors.New("the upstream sends 1xx answers without end")

var errUnasked = errors.New("the upstream switches to another protocol, and nobody asked for it")

// sent returns the header for the upstream. Its lines are those of r; the map is
// another, as events may keep that of r.
func (x *exchange) sent(r *http.Request) http.Header {
	h := make(http.Header, len(r.Header)+6)
	for name, lines := range r.Header {
		switch {
		case hopByHop(name), name == "Forwarded", name == "X-Forwarded-For", name == "X-Forwarded-Host", name == "X-Forwarded-Proto":
		default:
			h[name] = lines
		}
	}
	for _, line := range r.Header["Te"] {
		for coding := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(coding), "trailers") {
				h["Te"] = trailers
			}
		}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nothing // net/http would write its own
	}
	x.state(h, r)
	return h
}

// Lines that nobody changes.
var trailers, nothing = []string{"trailers"}, []string{""}

// hopByHop reports whether a field is between two ends of a connection.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// pass passes an answer on.
func (x *exchange) pass(a *http.Response) {
	defer a.Body.Close() // again, which does nothing, unless the copy fails
	h := x.Header()
	for _, line := range a.Header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			a.Header.Del(textproto.TrimString(name))
		}
	}
	for name, lines := range a.Header {
		switch {
		case hopByHop(name):
		case h[name] == nil:
			h[name] = lines[:len(lines):len(lines)]
		default:
			h[name] = append(h[name][:len(h[name]):len(h[name])], lines...)
		}
	}
	announced := len(a.Trailer)
	for name := range a.Trailer {
		h["Trailer"] = append(h["Trailer"], name)
	}
	x.WriteHeader(a.StatusCode)
	if err := x.copied(a); err != nil {
		panic(http.ErrAbortHandler) // the caller must not take it for the whole
	}
	a.Body.Close() // sets the trailer
	if len(a.Trailer) > 0 {
		_ = http.NewResponseController(x.ResponseWriter).Flush() // no length
	}
	for name, lines := range a.Trailer {
		if len(a.Trailer) != announced {
			name = http.TrailerPrefix + name
		}
		h[name] = append(h[name], lines...)
	}
}

// copied copies the body of an answer. What may be a stream is flushed at once.
func (x *exchange) copied(a *http.Response) error {
	flush := func() error { return nil }
	if x.streams || a.ContentLength < 0 {
		flush = http.NewResponseController(x.ResponseWriter).Flush
		_ = flush() // the header, before the first of the body; not all writers can
	}
	pool := x.g.reverse.BufferPool
	b := pool.Get()
	defer pool.Put(b)
	for {
		n, err := a.Body.Read(b)
		if n > 0 {
			if _, err := x.Write(b[:n]); err != nil {
				return err
			}
			_ = flush()
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// sending is what direct needs until the answer begins.
type sending struct {
	x       *exchange
	url     url.URL
	carried carried // is its context
	trace   httptrace.ClientTrace

	mu    sync.Mutex // guards what follows, and the header of the answer until then
	ended bool
}

// early passes on an answer that goes before the answer. A goroutine of the transport
// calls it.
func (s *sending) early(status int, header textproto.MIMEHeader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	h := s.x.Header()
	for name, lines := range header {
		h[name] = append(h[name], lines...)
	}
	s.x.WriteHeader(status)
	clear(h)
	if s.x.flooded.Load() {
		return errFlooded
	}
	return nil
}

// end ends them: from now on the header is that of the answer.
func (s *sending) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}
