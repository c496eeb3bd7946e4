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

// linger is how long a caller by HTTP/1 is read from after Close: to close its connection while more
// comes could take the answer from it.
const linger = 100 * time.Millisecond

// upload is the body of a request that is streamed. While net/http waits for what the caller
// sends next, it neither says that the connection to the API is lost, nor ends an answer that
// is whole already. So Close ends that wait.
type upload struct {
	io.ReadCloser
	conn   *http.ResponseController
	end    context.CancelCauseFunc // of its context
	http1  bool
	whole  atomic.Bool // all of it was read
	broken atomic.Bool // it ended with an error

	mu      sync.Mutex // guards what follows, and the deadlines of Read
	begun   bool       // Read was called
	reading bool       // it has not returned
	read    sync.Cond  // it has
	closed  bool
	cut     bool        // Close ended a Read, or will
	late    *time.Timer // ends what follows Close; nil: nothing has to
}

// streamed makes the body of a request one that is streamed, and returns that request. The caller
// calls leave.
func streamed(w http.ResponseWriter, r *http.Request) (*http.Request, *upload) {
	u := &upload{ReadCloser: r.Body, conn: http.NewResponseController(w), http1: r.ProtoMajor == 1}
	u.read.L = &u.mu
	ctx, end := context.WithCancelCause(context.WithoutCancel(r.Context()))
	stop := context.AfterFunc(r.Context(), func() {
		if !u.deaf() {
			end(context.Cause(r.Context()))
		}
	})
	u.end = func(cause error) {
		stop()
		end(cause)
	}
	r = r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: u.got}))
	r.Body = u
	return r, u
}

// leave ends the upload with its request, which must not be read from any more. It waits for a Read, as
// net/http would break it off, and then close the connection at once.
func (u *upload) leave() {
	u.mu.Lock()
	u.closed, u.begun = true, true
	if !u.whole.Load() { // net/http reads what is left
		err := u.stop()
		for err == nil && u.http1 && u.reading {
			u.read.Wait()
		}
	}
	if u.late != nil {
		u.late.Stop()
	}
	u.mu.Unlock()
	u.end(nil)
}

// Read reads from the caller.
func (u *upload) Read(b []byte) (int, error) {
	if !u.begin() {
		return 0, errTaken
	}
	n, err := u.ReadCloser.Read(b)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading = false
	u.read.Broadcast()
	switch {
	case err == nil:
		u.cut = false
	case err == io.EOF:
		u.whole.Store(true)
	case err != nil && u.closed:
		err = errTaken // Close ended it
	case err != nil:
		u.broken.Store(true)
	}
	return n, err
}

// begin bounds the next wait for the caller. It reports false if there is to be none.
func (u *upload) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.begun, u.reading = true, true
	if u.http1 {
		_ = u.conn.SetReadDeadline(time.Now().Add(bodyIdle)) // an error comes again
	}
	return true
}

// deaf reports whether Close has cut off what the caller of HTTP/1 sends, which net/http takes for a
// caller that goes away.
func (u *upload) deaf() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.http1 && u.cut
}

// Close ends a Read. What is left of the body is not read. An answer may follow, as from an API by
// HTTP/2 that refuses the body.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	if u.reading {
		u.cut = true
		_ = u.stop() // it fails where there is no connection
	}
	if u.http1 && u.begun && !u.whole.Load() { // nothing shows that the caller has gone
		u.late = time.AfterFunc(bodyIdle, func() { u.end(errTaken) })
	}
	return nil
}

// stop ends reads from the caller. u.mu is held.
func (u *upload) stop() error {
	at := time.Unix(1, 0)
	if u.http1 {
		at = time.Now().Add(linger)
	}
	return u.conn.SetReadDeadline(at)
}

// last says in an answer by HTTP/1 that no request follows, unless all of the body was read.
// Otherwise net/http would read the rest before it sends the answer.
func (u *upload) last(h http.Header) {
	if u != nil && u.http1 && (!u.whole.Load() || u.deaf()) {
		h.Set("Connection", "close")
	}
}

// got has the upload end with the connection that carries it. In HTTP/2, which carries others
// too, net/http closes it; and it sends a body on another connection that it has closed before
// it read from it.
func (u *upload) got(c httptrace.GotConnInfo) {
	u.mu.Lock()
	u.closed = u.closed && u.begun
	u.mu.Unlock()
	in := c.Conn
	if secure, ok := in.(*tls.Conn); ok && secure.ConnectionState().NegotiatedProtocol != "h2" {
		in = secure.NetConn()
	}
	if l, ok := in.(*line); ok {
		l.carry(u)
	}
}

// line is a connection to an API.
type line struct {
	*net.TCPConn
	carries atomic.Pointer[upload] // the latest; nil: none yet
	closed  atomic.Bool
}

// carry has u end with the connection, which may be closed already.
func (l *line) carry(u *upload) {
	l.carries.Store(u)
	if l.closed.Load() {
		_ = u.Close() // returns nil
	}
}

// Close closes the connection, and the upload that it carries.
func (l *line) Close() error {
	err := l.TCPConn.Close()
	l.closed.Store(true)
	if u := l.carries.Load(); u != nil {
		_ = u.Close() // returns nil
	}
	return err
}
