package gateway

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway/upstream"
)

// upload is the body of a request on its way to an upstream.
type upload struct {
	io.ReadCloser
	x       *exchange
	in, out http.Header        // the trailers
	abandon context.CancelFunc // ends the exchange with the upstream
	touched atomic.Bool
	broken  atomic.Bool  // it failed
	dropped atomic.Bool  // the upstream takes no more of it
	waits   atomic.Int64 // counts when a wait for the upstream begins, and ends

	keeps bool   // what is read is kept, to be sent again
	kept  []byte // the first of the body
	more  bool   // the body has more than that
	left  []byte // of what is sent again
}

// maxKept bounds what is kept of a body.
const maxKept = 16 << 10

// Read reads from the caller, after what is sent again.
func (u *upload) Read(p []byte) (int, error) {
	if len(u.left) > 0 {
		n := copy(p, u.left)
		u.left = u.left[n:]
		return n, nil
	}
	u.touched.Store(true)
	u.x.reads.Store(true)
	u.x.sends.begin(u.x.g.now())
	n, err := u.ReadCloser.Read(p)
	u.x.reads.Store(false)
	u.x.sends.end(u.x.moved())
	u.keep(p[:n])
	if err != nil && err != io.EOF && u.dropped.Load() {
		return n, err
	}
	if err != nil {
		u.broken.Store(err != io.EOF)
	}
	if err == io.EOF {
		u.x.whole.Store(true)
		for name, lines := range u.in { // set only now
			if u.x.trails(name) {
				u.out[name] = lines
			}
		}
	} else if err != nil {
		err = &upstream.Callers{Err: err}
	}
	return n, err
}

// keep keeps what was read.
func (u *upload) keep(p []byte) {
	switch {
	case !u.keeps || u.more || len(p) == 0:
	case len(u.kept)+len(p) > maxKept:
		u.more, u.kept = true, nil
	default:
		u.kept = append(u.kept, p...)
	}
}

// again has Read start at the first byte again, and reports whether it can: nothing was read, or all that there
// is was kept. Nothing must be reading.
func (u *upload) again() bool {
	if u == nil {
		return true
	}
	if u.touched.Load() && (!u.keeps || u.more || !u.x.whole.Load()) {
		return false
	}
	u.left = u.kept
	return true
}

// Close leaves the body open for another upstream, if nothing was read of it. By HTTP/2
// net/http waits for the Read of it before it says that the connection to the upstream was
// lost: where the answer does not go on after Close, that Read is ended.
func (u *upload) Close() error {
	if u.touched.Load() && !u.x.whole.Load() && !u.broken.Load() {
		u.look(u.waits.Load())
	}
	return nil
}

// look ends the Read that waits for the caller, if a wait for the upstream, the odd one
// before, lasts; else it looks again. After the end of an answer there is none that does.
func (u *upload) look(before int64) {
	time.AfterFunc(100*time.Millisecond, func() {
		x := u.x
		x.mu.Lock()
		defer x.mu.Unlock()
		now := u.waits.Load()
		switch {
		case x.ended || x.whole.Load() || u.broken.Load() || x.carried.Context.Err() != nil:
		case now%2 == 0 || now != before:
			u.look(now)
		default:
			u.dropped.Store(true)
			_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Unix(1, 0))
		}
	})
}

// early is the body of an answer by HTTP/2, which may end before that of its request.
type early struct {
	io.ReadCloser
	x *exchange
}

// Read reads from the upstream.
func (a *early) Read(p []byte) (int, error) {
	a.x.upload.waits.Add(1)
	defer a.x.upload.waits.Add(1)
	return a.ReadCloser.Read(p)
}

// Close ends the exchange with the upstream. By itself net/http would wait until it has
// read what the caller sends next, and the end of the answer would wait with it.
func (a *early) Close() error {
	if !a.x.whole.Load() {
		a.x.upload.abandon()
	}
	return a.ReadCloser.Close()
}
