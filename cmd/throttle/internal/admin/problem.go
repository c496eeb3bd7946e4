package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// A problem is an error as RFC 9457 has it: application/problem+json.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func (p *problem) Error() string { return p.Detail }

// failf returns a problem; the detail says what is wrong and what would be right.
func failf(status int, format string, a ...any) error {
	return &problem{"about:blank", http.StatusText(status), status, words.OneLine(fmt.Sprintf(format, a...))}
}

// refuse writes err; one that is not a problem is 500.
func refuse(w http.ResponseWriter, err error) {
	var p *problem
	if !errors.As(err, &p) {
		errors.As(failf(http.StatusInternalServerError, "%v", err), &p)
	}
	send(w, "application/problem+json", p.Status, p)
}

// reply writes v, 200.
func reply(w http.ResponseWriter, v any) { send(w, "application/json", http.StatusOK, v) }

func send(w http.ResponseWriter, kind string, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil { // of values of our own: a mistake in this package
		status, text = http.StatusInternalServerError, []byte(`{"type":"about:blank","title":"Internal Server Error","status":500}`)
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // an error means that the caller has gone
}
