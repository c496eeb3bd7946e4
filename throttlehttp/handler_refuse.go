package throttlehttp

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// soon is the time to come again where none is known.
const soon = time.Second

// refuse answers a request that is not admitted.
func (v *visit) refuse(w http.ResponseWriter) {
	status := v.status()
	after := v.after()
	v.report(status, after.whole)
	if v.mayDegrade(status) {
		v.tell(w.Header(), after, false) // it is an answer: there is nothing to retry
		e := v.event(status, after.whole)
		v.h.Degraded.ServeHTTP(w, v.r.WithContext(context.WithValue(v.r.Context(), eventKey{}, &e)))
		return
	}
	v.tell(w.Header(), after, true)
	if v.h.Refuse != nil {
		v.h.Refuse(w, v.r, v.event(status, after.whole))
		return
	}
	writeProblem(w, v.r, status, v.problem(status))
}

// mayDegrade reports whether the Degraded handler answers instead of a refusal.
func (v *visit) mayDegrade(status int) bool {
	return v.h.Degraded != nil && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable)
}

// status returns the status of a refusal.
func (v *visit) status() int {
	switch {
	case v.capacity():
		return http.StatusServiceUnavailable
	case v.answer.Reason == rules.Denied:
		return http.StatusForbidden
	case v.answer.Reason == rules.NoKey:
		return http.StatusBadRequest
	}
	return http.StatusTooManyRequests
}

// after returns when to come again, limit.Never if that does not help.
func (v *visit) after() wait {
	if v.busy != nil {
		return v.afterShed()
	}
	i := v.decided()
	if i < 0 {
		if v.answer.Reason == rules.Busy { // when the others are done is unknown
			return waitOf(soon)
		}
		return waitOf(v.answer.Decision.RetryAfter)
	}
	return v.slot(v.asks[i].Key, v.at(), promiseOf(v.asks[i].Limit, v.asks[i].N, v.answers[i].RetryAfter))
}

// afterShed spreads refusals at the rate at which the service works.
func (v *visit) afterShed() wait {
	after := v.busy.Wait
	if after == limit.Never || after <= 0 {
		after = soon
	}
	s := v.h.Shed.Stats()
	return v.slot("shed/", time.Now(), promise{
		earliest: after, each: s.Took / time.Duration(max(s.Limit, 1)),
	})
}

// slot returns a time of the caller's own.
func (v *visit) slot(key string, now time.Time, p promise) wait {
	h := v.h
	if p.bound = h.Spread; p.bound == 0 {
		p.bound = time.Minute
	}
	w := waitOf(p.earliest)
	if p.bound > 0 && p.earliest != limit.Never {
		w = h.slots.next(h.hash(key), v.caller(key), now, p)
	}
	if h.RetryAfterMs {
		w.whole = w.exact
	}
	return w
}

// caller returns who asks: what the function Caller tells, else the address and
// the fields by which proxies and clients tell callers apart. A client may
// choose these: it gets no sooner time by it than a new caller does.
func (v *visit) caller(key string) (c caller) {
	var hash maphash.Hash
	v.h.setUp()
	hash.SetSeed(v.h.seed)
	add := func(text string) { hash.WriteString(text); hash.WriteByte(0) }
	add(key)
	if v.h.Caller != nil {
		add(v.h.Caller(v.r))
	} else {
		add(v.r.RemoteAddr[:max(strings.LastIndexByte(v.r.RemoteAddr, ':'), 0)])
		for _, name := range [...]string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Authorization", "User-Agent"} {
			add(v.r.Header.Get(name))
		}
	}
	c.host = hash.Sum64()
	if v.r.ProtoMajor < 2 { // one request after the other
		add(v.r.RemoteAddr)
		c.conn = hash.Sum64()
	}
	return c
}

// fail answers a request that the Store could not decide.
func (v *visit) fail(w http.ResponseWriter, err error) {
	v.undecided = err
	v.report(http.StatusServiceUnavailable, 0)
	if v.h.Error != nil {
		v.h.Error(w, v.r, err)
		return
	}
	if v.h.Refuse != nil {
		v.h.Refuse(w, v.r, v.event(http.StatusServiceUnavailable, 0))
		return
	}
	writeProblem(w, v.r, http.StatusServiceUnavailable, problem{
		Type:  "about:blank",
		Title: http.StatusText(http.StatusServiceUnavailable),
	})
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

func (v *visit) problem(status int) problem {
	switch status {
	case http.StatusServiceUnavailable:
		return problem{Type: problemTypes + "temporary-reduced-capacity", Title: "Request cannot be satisfied due to temporary server capacity constraints"}
	case http.StatusForbidden, http.StatusBadRequest:
		return problem{Type: "about:blank", Title: http.StatusText(status)}
	}
	p := problem{Type: problemTypes + "quota-exceeded", Title: "Request cannot be satisfied as assigned quota has been exceeded"}
	if v.decided() < 0 { // too many in flight
		p.Violated = []string{v.answer.Rule}
	} else {
		for i := range v.answers {
			if !v.answers[i].OK {
				p.Violated = append(p.Violated, v.policyName(v.asks[i].Key))
				if v.answers[i].RetryAfter == limit.Never {
					p.Retry = new(bool)
				}
			}
		}
	}
	return p
}

func writeProblem(w http.ResponseWriter, r *http.Request, status int, p problem) {
	p.Status = status
	body, _ := json.Marshal(p) // strings and a number: cannot fail
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(append(body, '\n')) // an error means that the caller is gone
	}
}
