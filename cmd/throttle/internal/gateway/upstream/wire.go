package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"syscall"
	"time"
)

// wire is a connection in plain HTTP/1.1 that carries one request after the other, each
// written and its answer read by the goroutine of the request.
type wire struct {
	net.Conn
	of    *wires
	raw   syscall.RawConn
	in    *bufio.Reader
	out   *bufio.Writer
	kept  bool      // it has carried a request before
	since time.Time // when it was kept

	room  int64 // how many bytes the header of an answer may still have
	wrote bool  // some of the request is written
	began bool  // some of the answer is read
	ended bool  // nothing more will come
}

// maxHeader bounds the header of an answer, and those of the 1xx answers before it, unless
// who passes them on bounds these.
const maxHeader = 1 << 20

var errHeader = fmt.Errorf("the header of an answer exceeds %d bytes", maxHeader)

func newWire(of *wires, c net.Conn) (*wire, error) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &wire{Conn: c, of: of, raw: raw}
	l.in, l.out = bufio.NewReader(l), bufio.NewWriter(l)
	return l, nil
}

// Read reads from the upstream.
func (l *wire) Read(p []byte) (int, error) {
	if l.room <= 0 {
		return 0, errHeader
	}
	n, err := l.Conn.Read(p[:min(int64(len(p)), l.room)])
	l.room -= int64(n)
	l.ended = l.ended || err != nil
	return n, err
}

// Write writes to the upstream.
func (l *wire) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	l.wrote, l.ended = l.wrote || n > 0, l.ended || err != nil
	return n, err
}

// exchange sends a request and returns its answer, whose body holds the wire. The end of
// the context of the request closes the wire.
func (l *wire) exchange(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	a, err := l.answer(r)
	if err != nil {
		stop()
		l.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	b := &answerBody{in: a.Body, of: l, stop: stop, last: a.Close || a.StatusCode < 200}
	if a.Body == http.NoBody {
		b.finish(true)
		return a, nil
	}
	if a.Body = b; a.ContentLength < 0 || a.ContentLength > int64(l.in.Buffered()) {
		_ = l.SetDeadline(time.Time{}) // that was for the header; an error comes again
	}
	return a, nil
}

// answer sends a request and reads the header of its answer, and of those before it.
func (l *wire) answer(r *http.Request) (*http.Response, error) {
	l.wrote, l.began = false, false
	if err := r.Write(l.out); err != nil {
		if !l.ended { // the request cannot be written, to nobody
			err = &Callers{err}
		}
		return nil, err
	}
	if err := l.out.Flush(); err != nil {
		return nil, err
	}
	l.room = maxHeader
	if _, err := l.in.Peek(1); err != nil {
		return nil, fmt.Errorf("the connection ended before an answer: %w", err)
	}
	l.began = true
	trace := httptrace.ContextClientTrace(r.Context())
	for {
		a, err := http.ReadResponse(l.in, r)
		if err != nil {
			return nil, err
		}
		if a.StatusCode < 100 || a.StatusCode > 199 || a.StatusCode == http.StatusSwitchingProtocols {
			l.room = math.MaxInt64
			return a, nil
		}
		if trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(a.StatusCode, textproto.MIMEHeader(a.Header)); err != nil {
				return nil, err
			}
			l.room = maxHeader
		}
	}
}

// lost reports whether a request that failed may be sent again: its wire had been kept
// and was closed meanwhile by the upstream, which has seen nothing of the request, or
// may see it twice.
func (l *wire) lost(r *http.Request, err error) bool {
	if !l.kept || l.began || r.Context().Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, new(*Callers)) {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return !l.wrote || r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// answerBody is the body of an answer, at whose end the wire may carry the next request.
type answerBody struct {
	in   io.ReadCloser
	of   *wire
	stop func() bool
	last bool // no other request must follow
	over bool
}

// Read reads the body.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if err != nil {
		b.finish(err == io.EOF)
	}
	return n, err
}

// Close closes the wire, unless all was read: what is left may be without end.
func (b *answerBody) Close() error {
	b.finish(false)
	return nil
}

// finish ends the exchange: all was read, or the wire is of no use any more.
func (b *answerBody) finish(whole bool) {
	if b.over {
		return
	}
	b.over = true
	l := b.of
	if !b.stop() || !whole || b.last || l.ended || l.in.Buffered() > 0 {
		l.Close()
		return
	}
	l.of.keep(l)
}
