package egress

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// keep makes room for the body of a request that is to be kept in memory, so that the
// request can be sent again. It returns the bytes, which the caller gives back; zero: it
// is streamed.
func (p *Proxy) keep(r *http.Request) int64 {
	n := r.ContentLength
	if n <= 0 || n > p.cfg.MaxBody { // one without a length may be half of a conversation
		return 0
	}
	if p.bodies.Add(n) > maxBodies {
		p.bodies.Add(-n)
		return 0
	}
	return n
}

// fill reads the body of a request, whose length is known, within p.bodyIn.
func (p *Proxy) fill(w http.ResponseWriter, r *http.Request) error {
	// It bounds the reading of this request. It fails where there is no connection.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.bodyIn))
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return err
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	delete(r.Header, "Expect") // there is nothing to wait for
	return nil
}
