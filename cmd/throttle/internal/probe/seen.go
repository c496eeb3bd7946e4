package probe

import (
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// seen is one request and its answer. The server decided between sent and ended.
type seen struct {
	sent, ended time.Time
	status      int               // zero: no answer came
	fields      map[string]string // header fields about limits, by lower-case name
	body        []byte            // its beginning, where the dialect reads it
}

// reader reads answers: by a dialect, with further statuses that are refusals.
type reader struct {
	dialect *signal.Dialect
	refused []int
}

// read returns what an answer says about the limit. One that never came says
// that the request failed.
func (r reader) read(s seen) signal.Reading {
	if s.status == 0 {
		return signal.Reading{Signal: signal.Signal{Verdict: pace.Failed}}
	}
	reading := r.dialect.Read(s.status, s.field, s.body, s.ended)
	if slices.Contains(r.refused, s.status) {
		reading.Verdict = pace.Throttled
	}
	return reading
}

func (s *seen) field(name string) string { return s.fields[strings.ToLower(name)] }

// about reports whether a header field may be about limits, so that it is worth
// keeping. Date and Age are what others are read by.
func about(name string) bool {
	switch name = strings.ToLower(name); name {
	case "date", "age":
		return true
	case "set-cookie", "cookie", "authorization", "www-authenticate":
		return false
	}
	for _, sound := range []string{"ratelimit", "rate-limit", "retry", "quota", "throttl", "usage", "backoff", "limit", "remaining", "reset"} {
		if strings.Contains(name, sound) {
			return true
		}
	}
	return false
}

// bySent puts answers in the order in which their requests were sent.
func bySent(all []seen) {
	slices.SortStableFunc(all, func(a, b seen) int { return a.sent.Compare(b.sent) })
}
