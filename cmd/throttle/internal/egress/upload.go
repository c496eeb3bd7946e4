package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// bodyIdle bounds the wait for the next bytes of a body that is streamed by HTTP/1. In
// HTTP/2 it may be half of a conversation, as in gRPC.
const bodyIdle = 5 * time.Minute

// errTaken is of a body after Close.
var errTaken = errors.New("the connection to the API ended while the body was sent")

// upload is the body of a request that is streamed. While net/http waits for what the caller
// sends next, it neither says that the connection to the API is lost, nor ends an answer that
// is whole already. So Close ends that wait.
type upload struct {
	io.ReadCloser
	conn   *http.ResponseController
	end    func() // ends its context
	http1  bool
	whole  atomic.Bool // all of it was read
	broken atomic.Bool // it ended with an error

	mu     sync.Mutex // guards what follows, and the deadlines of Read
	closed bool
}

// streamed makes the body of a request one that is streamed, and returns that request. The caller
// calls leave.
func streamed(w http.ResponseWriter, r *http.Request) (*http.Request, *upload) {
	u := &upload{ReadCloser: r.Body, conn: http.NewResponseController(w), http1: r.ProtoMajor == 1}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	stop := context.AfterFunc(r.Context(), func() {
		if u.open() { // else it is Close that has ended that of HTTP/1, by its deadline
			cancel(context.Cause(r.Context()))
		}
	})
	u.end = func() {
		stop()
		cancel(nil)
	}
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: u.got}))
	r.Body = u
	return r, u
}

// leave ends the upload with its request, which must not be read from any more.
func (u *upload) leave() {
	_ = u.Close() // returns nil
	u.end()
}

// Read reads from the caller.
func (u *upload) Read(b []byte) (int, error) {
	if !u.open() {
		return 0, errTaken
	}
	n, err := u.ReadCloser.Read(b)
	switch {
	case err == io.EOF:
		u.whole.Store(true)
	case err != nil && !u.open():
		err = errTaken // Close ended it
	case err != nil:
		u.broken.Store(true)
	}
	return n, err
}

// open reports whether it is not closed, and bounds the next wait for the caller.
func (u *upload) open() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed && u.http1 {
		_ = u.conn.SetReadDeadline(time.Now().Add(bodyIdle)) // an error comes again
	}
	return !u.closed
}

// Close ends a Read. What is left of the body is not read.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed && !u.whole.Load() {
		_ = u.conn.SetReadDeadline(time.Unix(1, 0))
	}
	u.closed = true
	return nil
}

// last says in an answer by HTTP/1 that no request follows, unless all of the body was read.
// Otherwise net/http would read the rest before it sends the answer.
func (u *upload) last(h http.Header) {
	if u != nil && u.http1 && !u.whole.Load() {
		h.Set("Connection", "close")
	}
}

// got has the upload end with the connection that carries it. In HTTP/2, which carries others
// too, net/http closes it.
func (u *upload) got(c httptrace.GotConnInfo) {
	in := c.Conn
	if secure, ok := in.(*tls.Conn); ok && secure.ConnectionState().NegotiatedProtocol != "h2" {
		in = secure.NetConn()
	}
	if l, ok := in.(*line); ok {
		l.carries.Store(u)
	}
}

// line is a connection to an API.
type line struct {
	*net.TCPConn
	carries atomic.Pointer[upload] // the latest; nil: none yet
}

// Close closes the connection, and the upload that it carries.
func (l *line) Close() error {
	err := l.TCPConn.Close()
	if u := l.carries.Load(); u != nil {
		_ = u.Close() // returns nil
	}
	return err
}
