package throttlehttp

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	maxHeld    = 16 << 10 // bytes of an answer kept in memory while it may still be returned
	maxDrained = 64 << 10 // bytes of an answer read to keep its connection; more are cut off
	// bodyTimeout bounds the reading of a body that only helps to judge an answer,
	// or to keep a connection. As a rule it arrives with the header.
	bodyTimeout = 500 * time.Millisecond
)

// held is the body of an answer that another try is likely to replace. Its
// beginning is read by a goroutine, which ends with the body or once it has
// enough: a body that does not end must not hold up the call. Readers
// may use it in place of the body.
type held struct {
	body  io.ReadCloser
	most  int           // bytes to keep
	done  chan struct{} // closed when the goroutine ends
	close sync.Once     // of the body

	mu   sync.Mutex // guards what follows until the goroutine ends
	head []byte
	stop bool
	err  error // how the body ended; nil: it goes on
}

// hold reads the beginning of an answer, for bodyTimeout at most, and if that is
// all of it, frees its connection: a rest may be long. The answer is as good as
// before. It returns the first bytes, at most most, which must not be changed.
func hold(ctx context.Context, a *http.Response, most int) (head []byte) {
	if a.Body == http.NoBody {
		return nil
	}
	h := &held{body: a.Body, most: most, done: make(chan struct{})}
	a.Body = h
	go h.fill()
	await(ctx, h.done)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = true
	return h.head[:min(len(h.head), most):min(len(h.head), most)]
}

// await waits for done, no longer than bodyTimeout and ctx.
func await(ctx context.Context, done <-chan struct{}) {
	timeout := time.NewTimer(bodyTimeout)
	defer timeout.Stop()
	select {
	case <-done:
	case <-timeout.C:
	case <-ctx.Done():
	}
}

// fill reads until it has enough.
func (h *held) fill() {
	defer close(h.done)
	buffer := make([]byte, min(h.most+1, 4<<10))
	for room := h.most + 1; room > 0; {
		n, err := h.body.Read(buffer[:min(room, len(buffer))])
		if err != nil {
			h.end()
		}
		h.mu.Lock()
		h.head, h.err = append(h.head, buffer[:n]...), err
		stop := h.stop || err != nil
		h.mu.Unlock()
		if room -= n; stop {
			return
		}
	}
}

// end closes the body.
func (h *held) end() (err error) {
	h.close.Do(func() { err = h.body.Close() })
	return err
}

// Read reads what is kept, at once, and then the rest.
func (h *held) Read(p []byte) (n int, err error) {
	if n := h.take(p); n > 0 {
		return n, nil
	}
	<-h.done // as Read of the body would block
	switch n := h.take(p); {
	case n > 0:
		return n, nil
	case h.err != nil:
		return 0, h.err
	}
	return h.body.Read(p)
}

// take reads what is kept so far.
func (h *held) take(p []byte) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = copy(p, h.head)
	h.head = h.head[n:]
	return n
}

// Close closes the body. A Read in another goroutine then ends, as it does with
// the body itself. It waits for no Read, which the caller need not know of.
func (h *held) Close() error {
	select {
	case <-h.done:
		return h.end()
	default:
		go h.end() // in gzip it waits for the Read of fill, which the server or the context ends
		return nil
	}
}

// drop closes a body that is not read. It reads the end, so that the connection
// can be reused, where that comes soon; otherwise it costs a connection.
func drop(ctx context.Context, body io.ReadCloser) {
	if h, ok := body.(*held); ok {
		select {
		case <-h.done:
		default: // it does not come soon
			go h.end() // which may wait for a Read
			return
		}
		if h.err != nil {
			return // all of it is here
		}
	}
	done := make(chan struct{})
	end := sync.OnceFunc(func() { body.Close() })
	go func() {
		defer close(done)
		io.CopyN(io.Discard, body, maxDrained)
		end()
	}()
	await(ctx, done)
	select {
	case <-done:
	default:
		go end()
	}
}

// isProblem reports whether the body is a problem document (RFC 9457).
func isProblem(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/problem+json")
}

// keep reads the body of a request, most bytes and one at most. whole is all of
// it, nil if there is more; rest is to be sent, and then closed. It ends with
// ctx, as far as the body does when it is closed.
func keep(ctx context.Context, body io.ReadCloser, most int64) (rest io.ReadCloser, whole []byte, err error) {
	var head []byte
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		head, failed = io.ReadAll(io.LimitReader(body, min(most, math.MaxInt64-1)+1))
	}()
	select {
	case <-done:
	case <-ctx.Done():
		go body.Close() // which may wait for a Read
		return nil, nil, context.Cause(ctx)
	}
	reader, after := bytes.NewReader(head), io.Reader(body)
	switch {
	case failed != nil:
		after = failing{failed}
	case int64(len(head)) <= most:
		body.Close()
		return io.NopCloser(reader), head, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(reader, after), body}, nil, nil
}

// failing is a reader that returns an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
