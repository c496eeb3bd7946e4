package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttlehttp"
)

const (
	// generated marks an answer of this proxy, by its reason. Answers of APIs have no
	// such field.
	generated = "Throttle-Generated"
	// mayHaveRun says in an answer of this proxy whether the API may have executed the
	// request.
	mayHaveRun = "Throttle-May-Have-Run"
)

// answer is one of this proxy, in place of one of an API.
type answer struct {
	status int
	reason string        // one word for programs
	text   string        // a line for people
	after  time.Duration // of Retry-After; zero: none
	ran    bool          // the API may have executed the request
}

// refusal is the answer to a request that was not sent.
func refusal(status int, reason, text string) *answer {
	return &answer{status: status, reason: reason, text: text}
}

// write answers a request.
func (a *answer) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set(generated, a.reason)
	h.Set(mayHaveRun, strconv.FormatBool(a.ran))
	if a.after > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(a.after.Seconds())), 10))
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, "throttle egress: "+words.OneLine(a.text)+"\n") // an error means that the caller has gone
}

var (
	// errEnding is why requests end that outlast the drain.
	errEnding = errors.New("the proxy ends")
	// errPrivate refuses a connection to a private address.
	errPrivate = errors.New("a private address")
)

// judge is the answer to a request to an API that ended with an error. A status that says
// that a limit refused it (429) or that the API may serve it later (503), which clients
// answer by a retry whatever the method, is only for one that has certainly not been
// executed, or that may be repeated: only such a one runs out of the retry budget.
func judge(now time.Time, name string, err error) *answer {
	a := &answer{status: http.StatusBadGateway, reason: "unreachable", text: name + ": " + err.Error(), ran: true}
	e := (*throttle.Error)(nil)
	if !errors.As(err, &e) {
		return a
	}
	a.ran = e.MayHaveRun
	switch {
	case errors.Is(err, errEnding):
		a.reason = "ending"
		a.later(http.StatusServiceUnavailable, time.Second)
	case errors.Is(err, errPrivate):
		a.reason = "private-address"
	case e.Reason == throttle.ErrQueueFull:
		a.reason = "queue-full"
		a.later(http.StatusServiceUnavailable, e.Wait)
	case e.Reason == context.DeadlineExceeded, e.Reason == throttle.ErrTooLate:
		a.reason, a.text = "wait", tooLong(name, e)
		wait := e.Wait
		if wait == 0 { // it has waited as long as it may
			wait = e.Why.Until.Sub(now)
		}
		a.later(http.StatusTooManyRequests, wait)
	case e.Reason == throttle.ErrBudget:
		a.reason, a.status = "retry-budget", statusOf(e.Err)
	default:
		if a.status = statusOf(e.Err); a.status == http.StatusGatewayTimeout {
			a.reason = "timeout"
		}
	}
	return a
}

// tooLong says that the wait for an API is longer than a request may wait.
func tooLong(name string, e *throttle.Error) string {
	text := name + ": would wait longer than it may"
	if e.Wait > 0 && e.Wait != pace.Never {
		text = fmt.Sprintf("%s: would wait %v, longer than it may", name, e.Wait.Round(time.Millisecond))
	}
	if why := e.Why.String(); why != "" {
		text += " (" + why + ")"
	}
	if e.Err != nil {
		text += "; the last answer: " + e.Err.Error()
	}
	return text
}

// later says when to come again, unless the request may have been executed.
func (a *answer) later(status int, wait time.Duration) {
	if a.ran {
		a.status = http.StatusGatewayTimeout
		return
	}
	a.status, a.after = status, max(wait, time.Second)
	if wait == pace.Never {
		a.after = time.Second
	}
}

// statusOf is the status for the last error of a try.
func statusOf(err error) int {
	var last *throttlehttp.StatusError
	var timeout net.Error
	switch {
	case errors.As(err, &last) && last.Code >= 500:
		return last.Code
	case errors.As(err, &timeout) && timeout.Timeout():
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
