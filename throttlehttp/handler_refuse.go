package throttlehttp

import (
	"encoding/json"
	"net/http"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/limit"
)

// Status returns the HTTP status code for a verdict: 200 for Admitted, 429 for
// Limited, 403 for Denied, 400 for Keyless, and 503 for all others: Overloaded, and
// Undecided, the zero Verdict.
func Status(v admit.Verdict) int {
	switch v {
	case admit.Admitted:
		return http.StatusOK
	case admit.Limited:
		return http.StatusTooManyRequests
	case admit.Denied:
		return http.StatusForbidden
	case admit.Keyless:
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

// refuse answers a request that is not admitted.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, a *admit.Admission) {
	h.tell(w.Header(), a)
	switch {
	case a.Degraded:
		h.degrade(w, r, a)
	case h.Refuse != nil:
		h.Refuse(w, r, a.Event)
	default:
		writeProblem(w, r, problemOf(a))
	}
}

// fail answers a request that the Store could not decide.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, a *admit.Admission) {
	switch {
	case h.Error != nil:
		h.Error(w, r, a.Err)
	case h.Refuse != nil:
		h.Refuse(w, r, a.Event)
	default:
		writeProblem(w, r, plainProblem(http.StatusServiceUnavailable))
	}
}

// problem is a problem document (RFC 9457), with the members that
// draft-ietf-httpapi-ratelimit-headers adds, and retryable, false where no retry
// helps: a Transport then returns the refusal.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies,omitempty"`
	Retry    *bool    `json:"retryable,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

func plainProblem(status int) problem {
	return problem{Type: "about:blank", Title: http.StatusText(status), Status: status}
}

func problemOf(a *admit.Admission) problem {
	p := plainProblem(Status(a.Verdict))
	switch a.Verdict {
	case admit.Overloaded:
		p.Type, p.Title = problemTypes+"temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints"
		return p
	case admit.Denied, admit.Keyless:
		return p
	}
	p.Type, p.Title = problemTypes+"quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
	if a.Binding < 0 { // too many in flight
		p.Violated = []string{a.Answer.Rule}
	}
	for i := range a.Decisions {
		if !a.Decisions[i].OK {
			p.Violated = append(p.Violated, a.LimitName(i))
			if a.Decisions[i].RetryAfter == limit.Never {
				p.Retry = new(bool)
			}
		}
	}
	return p
}

func writeProblem(w http.ResponseWriter, r *http.Request, p problem) {
	body, _ := json.Marshal(p) // strings and a number: cannot fail
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		w.Write(append(body, '\n')) // an error means that the caller is gone
	}
}
