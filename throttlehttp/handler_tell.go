package throttlehttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/signal"
)

// Headers selects the header fields that tell callers about the limit.
type Headers uint8

const (
	// Draft sets RateLimit and RateLimit-Policy on every answer, in the form of
	// draft-ietf-httpapi-ratelimit-headers-08 and later, and Retry-After on
	// refusals. Of several limits at most 8 are reported, under the names of
	// their rules; the second limit of a rule has /1 behind its name.
	Draft Headers = iota
	// OnlyRetryAfter sets Retry-After on refusals. Use it where the number
	// remaining would help an attacker, as at a login.
	OnlyRetryAfter
	// OnlyRemaining sets a bare RateLimit-Remaining on every answer and nothing
	// else, as Heroku's API does.
	OnlyRemaining
	// Silent sets no field.
	Silent
	// Triple sets RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of
	// the limit that decides, as in the drafts before 07, and Retry-After on
	// refusals. The reset is in seconds from now.
	Triple
	// XTriple is Triple with X- before the names.
	XTriple
	// XTripleUnix is XTriple with the reset as Unix time, as GitHub has it.
	XTripleUnix
)

// Names as they are in a map of fields.
const (
	retryAfter   = "Retry-After"
	retryAfterMs = "Retry-After-Ms"
	rateLimit    = "Ratelimit"
	ratePolicy   = "Ratelimit-Policy"
)

// tell sets the fields about the limits.
func (h *Handler) tell(to http.Header, a *admit.Admission) {
	if !a.OK && !a.Degraded && a.RetryAfter != limit.Never && h.Headers != Silent && h.Headers != OnlyRemaining {
		h.tellRetry(to, a)
	}
	if a.Binding < 0 {
		return
	}
	switch h.Headers {
	case Draft:
		policy, current := a.RateLimit()
		both := &[2]string{policy, current} // one allocation for both
		to[ratePolicy], to[rateLimit] = both[:1:1], both[1:]
	case OnlyRemaining:
		to["Ratelimit-Remaining"] = []string{number(a.Decisions[a.Binding].Remaining)}
	case Triple:
		h.tellTriple(to, "", a)
	case XTriple, XTripleUnix:
		h.tellTriple(to, "X-", a)
	}
}

func (h *Handler) tellRetry(to http.Header, a *admit.Admission) {
	whole := signal.Seconds(a.RetryAfterWhole)
	to[retryAfter] = []string{number(int64(whole / time.Second))}
	if h.Control.Milliseconds || a.RetryAfter < whole {
		to[retryAfterMs] = []string{number(int64(a.RetryAfter / time.Millisecond))}
	}
}

// tellTriple reports the limit that decided.
func (h *Handler) tellTriple(to http.Header, x string, a *admit.Admission) {
	d := a.Decisions[a.Binding]
	reset := d.ResetAfter
	switch {
	case d.OK:
	case h.Headers == XTripleUnix && a.RetryAfterWhole == signal.Seconds(d.RetryAfter):
		reset = d.RetryAfter // the sum is rounded up, and once is enough
	default:
		reset = a.RetryAfterWhole
	}
	set := func(name, value string) { to[x+name] = []string{value} }
	set("Ratelimit-Limit", number(a.Asks[a.Binding].Limit.Count))
	set("Ratelimit-Remaining", number(d.Remaining))
	switch {
	case reset == limit.Never:
	case h.Headers == XTripleUnix:
		set("Ratelimit-Reset", number(a.At().Add(reset).Add(time.Second-1).Unix()))
	default:
		set("Ratelimit-Reset", number(int64(signal.Seconds(reset)/time.Second)))
	}
}

// number returns n as an Integer of a structured field: at most 15 digits, none
// below zero.
func number(n int64) string {
	return strconv.FormatInt(min(max(n, 0), 999_999_999_999_999), 10)
}
