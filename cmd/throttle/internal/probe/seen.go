package probe

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/fit"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// seen is one request and its answer. The server decided between sent and ended.
type seen struct {
	sent, ended time.Time
	status      int               // zero: no answer came
	fields      map[string]string // header fields about limits, by lower-case name
	body        []byte            // its beginning, where the dialect reads it
	refused     bool              // as a log says
	wait        time.Duration     // that a log says a refusal told
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
	if s.refused || slices.Contains(r.refused, s.status) {
		reading.Verdict = pace.Throttled
	}
	if s.wait > 0 && !reading.After.OK {
		reading.After = pace.Some(s.wait)
	}
	return reading
}

func (s *seen) field(name string) string { return s.fields[strings.ToLower(name)] }

// cached reports whether a cache gave the answer, so that no limiter has decided.
func (s *seen) cached() bool {
	age, err := strconv.Atoi(s.field("age"))
	return err == nil && age > 0
}

// about reports whether a header field may be about limits, so that it is worth
// keeping. Date and Age are what others are
// read by.
func about(name string) bool {
	switch name = strings.ToLower(name); name {
	case "date", "age", "x-amzn-errortype", "mediawiki-api-error", "x-daily-requests-left":
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

// answers are what package fit is given.
func (r reader) answers(all []seen) []fit.Answer {
	answers := make([]fit.Answer, len(all))
	for i, s := range all {
		answers[i] = answerOf(s, r.read(s))
	}
	return answers
}

// answerOf is an answer as package fit takes it. An answer of 500 was admitted:
// it counts.
func answerOf(s seen, r signal.Reading) fit.Answer {
	a := fit.Answer{
		Sent: s.sent, Ended: s.ended, Refused: r.Verdict == pace.Throttled, Ignored: s.status == 0 || s.cached(),
		Remaining: float64(r.Remaining.V), HasRemaining: r.Remaining.OK,
		Limit: float64(r.Limit.V), Reset: r.Reset.V,
	}
	if a.Refused {
		a.RetryAfter = r.After.V
	}
	return a
}
