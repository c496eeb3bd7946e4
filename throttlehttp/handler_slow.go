package throttlehttp

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
)

const (
	// lasting is after how long a request that waits for its caller is looked at, and again.
	lasting = 250 * time.Millisecond
	// mostLooks bounds the looks at a request whose answer goes on: then it is a stream.
	mostLooks = 20
	// unsent is what net/http keeps of an answer before it waits for the caller.
	unsent = 2048
)

// place is the place of a request in a Shedder that learns its bound. It is given back where the
// request waits for its caller most of the time, who sends the body or reads the answer
// slowly, or is a stream: that is no work of the service, and a few such requests would hold
// all places. It looks from the first wait on, by a timer.
type place struct {
	pass     admit.Pass
	slow     slowWriter // one of these four is that of Next
	flusher  slowFlusher
	hijacker slowHijacker
	pusher   slowPusher

	mu      sync.Mutex // guards what follows
	ended   bool
	timer   *time.Timer
	waits   int           // calls that wait for the caller now
	since   time.Time     // when the first of them began
	waited  time.Duration // until then
	seen    time.Duration // what was waited at the last look
	answers bool          // the answer has begun
	looks   int           // since then
}

// held watches the place of a request, and returns the writer and the request for Next. p is nil
// where there is no place, or the bound is set: it says how many requests the service can hold.
func (h *Handler) held(w http.ResponseWriter, r *http.Request, a *admit.Admission) (p *place, to http.ResponseWriter, in *http.Request) {
	shed := cmp.Or(a.Request.Shed, h.Control.Shed)
	if shed == nil || shed.MaxInFlight > 0 {
		return nil, w, r
	}
	p, in = &place{pass: a.Pass()}, r
	if r.Body != nil && r.Body != http.NoBody {
		in = r.WithContext(r.Context()) // by its own Body, net/http knows what may be left unread
		in.Body = &slowBody{r.Body, p, r, in}
	}
	return p, p.writer(w), in
}

// end ends the looks. What Next has set in its request is set in r too: net/http removes the
// files of its form, and others may want to know its pattern.
func (p *place) end(r, in *http.Request) {
	if in != r {
		r.Form, r.PostForm, r.MultipartForm, r.Pattern = in.Form, in.PostForm, in.MultipartForm, in.Pattern
		for name := range strings.SplitSeq(in.Pattern, "{") { // the first of which has no value
			name, _, _ = strings.Cut(name, "}")
			name = strings.TrimSuffix(name, "...")
			if value := in.PathValue(name); value != "" {
				r.SetPathValue(name, value)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// begin begins a wait for the caller, who reads the answer or sends the body.
func (p *place) begin(answers bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits++; p.waits == 1 {
		p.since = time.Now()
	}
	p.answers = p.answers || answers
	if p.timer == nil && !p.ended {
		p.timer = time.AfterFunc(lasting, p.look)
	}
}

// done ends it.
func (p *place) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits--; p.waits == 0 {
		p.waited += time.Since(p.since)
	}
}

// look gives the place back, or has it looked at again.
func (p *place) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if p.answers {
		p.looks++
	}
	waited := p.waited
	if p.waits > 0 {
		waited += time.Since(p.since)
	}
	if waited-p.seen > lasting/2 || p.looks >= mostLooks {
		p.ended = true
		p.pass.Forget()
		return
	}
	p.seen = waited
	p.timer.Reset(lasting)
}

// leave gives the place back at once.
func (p *place) leave() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.pass.Forget()
}

// slowBody is the body of a request.
type slowBody struct {
	io.ReadCloser
	of       *place
	from, in *http.Request // that of the Handler, that of Next
}

// Read reads what the caller sends.
func (b *slowBody) Read(part []byte) (n int, err error) {
	b.of.begin(false)
	defer b.of.done()
	if n, err = b.ReadCloser.Read(part); err == io.EOF {
		b.in.Trailer = b.from.Trailer // which net/http sets by now
	}
	return n, err
}

// writer returns a writer that does what w does, as far as it is known. A w that neither flushes,
// hijacks nor pushes is watched too: it may be that of a middleware, around one of net/http.
func (p *place) writer(w http.ResponseWriter) http.ResponseWriter {
	flusher, flushes := w.(http.Flusher)
	hijacker, hijacks := w.(http.Hijacker)
	pusher, pushes := w.(http.Pusher)
	p.slow = slowWriter{ResponseWriter: w, of: p}
	p.flusher = slowFlusher{&p.slow, flusher}
	switch {
	case hijacks && pushes, !flushes && (hijacks || pushes): // as http.TimeoutHandler, which keeps all of the answer
		return w
	case hijacks:
		p.hijacker = slowHijacker{&p.flusher, hijacker}
		return &p.hijacker
	case pushes:
		p.pusher = slowPusher{&p.flusher, pusher}
		return &p.pusher
	case flushes:
		return &p.flusher
	}
	return &p.slow
}

// slowWriter is the writer of an answer.
type slowWriter struct {
	http.ResponseWriter
	of    *place
	small int  // bytes of the answer before the first wait
	begun bool // the header was sent: Next may write trailers to it while others flush
}

// Unwrap is for http.ResponseController.
func (s *slowWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader begins the answer.
func (s *slowWriter) WriteHeader(status int) {
	if status >= 200 {
		s.typed()
	}
	s.ResponseWriter.WriteHeader(status)
}

// typed gives the place of a stream of events back, as its header is sent.
func (s *slowWriter) typed() {
	if s.begun {
		return
	}
	s.begun = true
	const events = "text/event-stream"
	if kind := s.Header().Get("Content-Type"); len(kind) >= len(events) && strings.EqualFold(kind[:len(events)], events) {
		s.of.leave()
	}
}

// Write writes a part of the answer.
func (s *slowWriter) Write(part []byte) (int, error) {
	s.typed()
	if s.fits(len(part)) {
		return s.ResponseWriter.Write(part)
	}
	s.of.begin(true)
	defer s.of.done()
	return s.ResponseWriter.Write(part)
}

// WriteString writes a part of the answer.
func (s *slowWriter) WriteString(part string) (int, error) {
	s.typed()
	if s.fits(len(part)) {
		return io.WriteString(s.ResponseWriter, part)
	}
	s.of.begin(true)
	defer s.of.done()
	return io.WriteString(s.ResponseWriter, part)
}

// fits reports whether net/http keeps n more bytes of the answer, without a wait.
func (s *slowWriter) fits(n int) bool {
	s.small = min(s.small+min(n, unsent), unsent)
	return s.small < unsent
}

// ReadFrom writes all of from. Only a file is left to the writer of net/http, which may have
// the kernel send it: of anything else, waits to read are not waits for the caller.
func (s *slowWriter) ReadFrom(from io.Reader) (int64, error) {
	file := from
	if part, ok := from.(*io.LimitedReader); ok {
		file = part.R
	}
	_, isFile := file.(*os.File)
	to, ok := s.ResponseWriter.(io.ReaderFrom)
	if !isFile || !ok {
		part := parts.Get().(*[32 << 10]byte)
		defer parts.Put(part)
		return io.CopyBuffer(struct{ io.Writer }{s}, from, part[:])
	}
	s.typed()
	s.of.begin(true)
	defer s.of.done()
	return to.ReadFrom(from)
}

// parts are used again.
var parts = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// FlushError sends what was written, for http.ResponseController.
func (s *slowWriter) FlushError() error {
	s.typed()
	s.of.begin(true)
	defer s.of.done()
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// CloseNotify is for older programs, as those of gin.
func (s *slowWriter) CloseNotify() <-chan bool {
	if n, ok := s.ResponseWriter.(interface{ CloseNotify() <-chan bool }); ok {
		return n.CloseNotify()
	}
	return nil
}

// slowFlusher is a writer that flushes.
type slowFlusher struct {
	*slowWriter
	flusher http.Flusher
}

// Flush sends what was written.
func (s *slowFlusher) Flush() {
	s.typed()
	s.of.begin(true)
	defer s.of.done()
	s.flusher.Flush()
}

// slowHijacker is that of HTTP/1.
type slowHijacker struct {
	*slowFlusher
	hijacker http.Hijacker
}

// Hijack takes the connection over, as a WebSocket, which holds no place.
func (s *slowHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, b, err := s.hijacker.Hijack()
	if err == nil {
		s.of.leave()
	}
	return c, b, err
}

// slowPusher is that of HTTP/2.
type slowPusher struct {
	*slowFlusher
	pusher http.Pusher
}

// Push pushes a resource.
func (s *slowPusher) Push(target string, o *http.PushOptions) error {
	return s.pusher.Push(target, o)
}
