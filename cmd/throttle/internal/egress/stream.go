package egress

import (
	"net/http"
	"time"
)

// stream is an answer by HTTP/2, where a caller may read others and not this one: conn does not
// know. Each part of it has a deadline; beyond it the stream is reset.
type stream struct {
	http.ResponseWriter
	conn *http.ResponseController
	take time.Duration
}

// Unwrap is for http.ResponseController.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write writes a part of the answer.
func (s *stream) Write(b []byte) (int, error) {
	s.begin()
	defer s.end()
	return s.ResponseWriter.Write(b)
}

// FlushError sends what was written, for http.ResponseController.
func (s *stream) FlushError() error {
	s.begin()
	defer s.end()
	return s.conn.Flush()
}

// begin sets the deadline. It is left at the end of the answer, whose rest is sent then.
func (s *stream) begin() { _ = s.conn.SetWriteDeadline(time.Now().Add(s.take)) }
func (s *stream) end()   { _ = s.conn.SetWriteDeadline(time.Time{}) } // until the next part is here
