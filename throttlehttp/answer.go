package throttlehttp

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/throttle-go/throttle/signal"
)

// maxSnippet is how many bytes of a body a StatusError keeps.
const maxSnippet = 1 << 10

// StatusError is an answer that refused for load (429, 503) or failed on its
// way (502, 504), inside the *throttle.Error of a Transport that gave up.
type StatusError struct {
	// Code is the status.
	Code int
	// Header is the header of the answer.
	Header http.Header
	// Body is the beginning of the body, at most 1 KiB.
	Body []byte
	// Reading is how the answer was read: its reason, its scope, all limits that
	// it reported, and which field decided.
	Reading signal.Reading
}

// Error returns the status, the reason and the beginning of the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("throttlehttp: %d %s", e.Code, http.StatusText(e.Code))
	if e.Reading.Reason != "" {
		text += fmt.Sprintf(": %.128q", e.Reading.Reason)
	}
	if len(e.Body) > 0 {
		text += fmt.Sprintf(": %.200q", e.Body)
	}
	return text
}

// fields returns the field function by which package signal reads h.
func fields(h http.Header) func(name string) string {
	return func(name string) string {
		switch name { // those may be a list in several lines
		case "RateLimit":
			return joined(h["Ratelimit"])
		case "RateLimit-Policy":
			return joined(h["Ratelimit-Policy"])
		case "Retry-After":
			return joined(h["Retry-After"])
		}
		return h.Get(name)
	}
}

func joined(lines []string) string {
	if len(lines) == 1 {
		return lines[0]
	}
	return strings.Join(lines, ", ")
}
