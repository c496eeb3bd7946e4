package throttlehttp

import (
	"fmt"
	"net/http"
	"strings"
)

// maxSnippet is how much of a body a StatusError keeps.
const maxSnippet = 1 << 10

// StatusError is an answer that asked for patience (429, 503) or failed on its
// way (502, 504), inside the *throttle.Error of a Transport that gave up.
type StatusError struct {
	// Code is the status.
	Code int
	// Header is that of the answer.
	Header http.Header
	// Body is the beginning of its body, 1 KiB at most.
	Body []byte
}

// Error is the status and the first words of the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("throttlehttp: %d %s", e.Code, http.StatusText(e.Code))
	if len(e.Body) > 0 {
		text += fmt.Sprintf(": %.200q", e.Body)
	}
	return text
}

// fields is the field function that package signal reads h by.
func fields(h http.Header) func(name string) string {
	return func(name string) string {
		if strings.HasPrefix(name, "RateLimit") { // perhaps a list in several lines
			return strings.Join(h.Values(name), ", ")
		}
		return h.Get(name)
	}
}
