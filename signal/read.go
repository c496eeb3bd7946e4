package signal

import (
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// MaxBelieved is the longest wait that is believed, be it a Retry-After or a
// reset: one field must not put a caller to sleep for good. After a day
// nothing is lost by asking again. A longer wait is read as this one.
const MaxBelieved = 24 * time.Hour

// maxWindow is the longest window of a policy. A longer one is ignored rather
// than shortened, as shortening it would raise the rate.
const maxWindow = 366 * 24 * time.Hour

// Read reads an answer that arrived at now. field returns the value of a
// header field by its name, in any case, or an empty string; the lines of a
// RateLimit or RateLimit-Policy field are joined by commas.
//
//   - Retry-After is seconds, whole or not, or one of the three forms of an
//     HTTP date. Dates and Unix times count from the Date field where there is
//     one, so that it does not matter how far the two clocks are apart.
//   - Of several limits in a RateLimit field the one with the least remaining
//     binds; among equals, the one that resets last. Limits counted in another
//     unit than requests are ignored.
//   - share is a parameter of ours in a RateLimit field: the caller's fair part
//     of the limit, in requests a second, see Write.
//   - Where RateLimit says nothing, RateLimit-Limit, -Remaining and -Reset are
//     read, each on its own; then the same with X- before it. A reset above
//     5×10^8 is a Unix time, above 5×10^11 one in milliseconds, anything less
//     is seconds from now; dates are understood too.
//   - Retry-After takes precedence over the reset of a throttled answer. One
//     that has no Retry-After, and no quota left, asks to wait for the reset.
//   - An answer out of a cache (Age above zero) tells of the past: its limits
//     are ignored, and its Retry-After has run for as long as its Age.
//   - What is malformed is ignored; negative waits are zero.
func Read(status int, field func(name string) string, now time.Time) Signal {
	s := Signal{Verdict: verdictOf(status)}
	if t, ok := date(field("Date")); ok {
		now = t
	}
	s.After = after(field("Retry-After"), now)
	if age := seconds(field("Age")); age.OK && age.V > 0 {
		s.After.V = max(s.After.V-age.V, 0)
		return s
	}
	s.readLimits(field, now)
	if s.Verdict != pace.Throttled || !s.Reset.OK {
		return s
	}
	if s.After.OK {
		s.Reset = s.After
	} else if !s.Remaining.OK || s.Remaining.V == 0 {
		s.After = s.Reset
	}
	return s
}

func verdictOf(status int) pace.Verdict {
	switch {
	case status == 429 || status == 503:
		return pace.Throttled
	case status < 500:
		return pace.Served
	}
	return pace.Failed
}

// readLimits reads the first dialect that says something.
func (s *Signal) readLimits(field func(string) string, now time.Time) {
	policies := parse(field("RateLimit-Policy"))
	current := parse(field("RateLimit"))
	if s.readItems(current, policies) || s.readDictionary(current, policies) {
		return
	}
	if s.readTriple([3]string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}, field, policies, now) ||
		s.readTriple([3]string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}, field, policies, now) {
		return
	}
	if len(policies) == 1 && countsRequests(policies[0]) {
		s.Limit, s.Window = quota(policies[0])
	}
}

// readItems reads `"default";r=50;t=30`, the form since draft-08.
func (s *Signal) readItems(items, policies []member) (found bool) {
	for _, m := range items {
		r, t := count(m.param("r")), seconds(m.param("t"))
		p, known := named(policies, m.value)
		if m.key != "" || !r.OK || known && !countsRequests(p) {
			continue
		}
		if found && (r.V > s.Remaining.V || r.V == s.Remaining.V && t.V <= s.Reset.V) {
			continue
		}
		found = true
		s.Remaining, s.Reset = r, t
		s.Limit, s.Window = quota(p)
		s.Share = share(m.param("share"))
	}
	return found
}

// MaxShare is the highest rate a second that a Share may be; a higher one is
// ignored.
const MaxShare = 1e9

// share reads the parameter of our own that Write adds.
func share(text string) pace.Opt[float64] {
	if x, ok := decimal(text); ok && x > 0 && x <= MaxShare {
		return pace.Some(x)
	}
	return pace.Opt[float64]{}
}

// named is the policy of that name. Servers exist whose names do not agree:
// where there is only one policy, that is the one.
func named(policies []member, name string) (p member, ok bool) {
	for _, p := range policies {
		if p.value == name {
			return p, true
		}
	}
	if len(policies) == 1 {
		return policies[0], true
	}
	return member{}, false
}

func countsRequests(policy member) bool {
	unit := policy.param("qu")
	return unit == "" || unit == "requests"
}

// quota is how many in how long a policy allows: `"burst";q=100;w=60`, and
// `100;w=60` before draft-08.
func quota(policy member) (limit pace.Opt[int64], per pace.Opt[time.Duration]) {
	text := policy.param("q")
	if text == "" {
		text = policy.value
	}
	return count(text), window(policy.param("w"))
}

// readDictionary reads `limit=100, remaining=99, reset=50`, the form of
// draft-07.
func (s *Signal) readDictionary(members, policies []member) (found bool) {
	for _, m := range members {
		switch m.key {
		case "limit":
			s.Limit = count(m.value)
		case "remaining":
			s.Remaining = count(m.value)
		case "reset":
			s.Reset = seconds(m.value)
		}
	}
	return s.complete(policies)
}

// readTriple reads three fields of a number each, as before draft-07 and in
// the wild. Any of them may be missing.
func (s *Signal) readTriple(names [3]string, field func(string) string, policies []member, now time.Time) (found bool) {
	// Early drafts put policies behind the limit: "12, 12;w=1".
	if limits := parse(field(names[0])); len(limits) > 0 {
		s.Limit = count(limits[0].value)
		policies = append(limits[1:], policies...)
	}
	s.Remaining = count(strings.Trim(field(names[1]), " \t"))
	s.Reset = reset(field(names[2]), now)
	return s.complete(policies)
}

// complete reports whether anything was found, and if so finds the window of
// the limit, which had no name to go by then: the policy of the same limit, or
// the only one.
func (s *Signal) complete(policies []member) (found bool) {
	if !s.Limit.OK && !s.Remaining.OK && !s.Reset.OK {
		return false
	}
	for _, p := range policies {
		limit, per := quota(p)
		if countsRequests(p) && limit.OK && (limit == s.Limit && per.OK || !s.Limit.OK && len(policies) == 1) {
			s.Limit, s.Window = limit, per
			break
		}
	}
	return true
}

// after reads a Retry-After.
func after(text string, now time.Time) pace.Opt[time.Duration] {
	text = strings.Trim(text, " \t")
	if d := seconds(text); d.OK {
		return d
	}
	if t, ok := date(text); ok {
		return pace.Some(believe(t.Sub(now)))
	}
	return pace.Opt[time.Duration]{}
}

// unixTime is above any honest reset in seconds from now (15 years), and below
// any time since 1970 that is not long gone, the year 2000 of synctest
// included. A thousand times that divides seconds from milliseconds.
const unixTime = 5e8

// reset reads the reset of a triple, whose unit must be guessed.
func reset(text string, now time.Time) pace.Opt[time.Duration] {
	text = strings.Trim(text, " \t")
	v, ok := decimal(text)
	if !ok || v <= unixTime {
		return after(text, now)
	}
	if v > 1000*unixTime {
		v /= 1000
	}
	v = min(v, 1e12) // 30,000 years: time.Unix would overflow much later
	whole := int64(v)
	t := time.Unix(whole, int64((v-float64(whole))*1e9))
	return pace.Some(believe(t.Sub(now)))
}

// believe is d within the bounds of what is believed.
func believe(d time.Duration) time.Duration { return min(max(d, 0), MaxBelieved) }

// dates are the three forms of an HTTP date (RFC 9110, 5.6.7).
var dates = [...]string{
	"Mon, 02 Jan 2006 15:04:05 GMT",
	"Monday, 02-Jan-06 15:04:05 GMT",
	time.ANSIC,
}

// date reads an HTTP date; all of them are UTC.
func date(text string) (t time.Time, ok bool) {
	if text == "" || len(text) > maxNumber {
		return t, false
	}
	for _, layout := range dates {
		if t, err := time.Parse(layout, strings.Trim(text, " \t")); err == nil {
			return t, true
		}
	}
	return t, false
}
