package signal

import (
	"math"
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

// forms are the forms in which times come, and what each is called in the docs.
// Each form of a number gives way to guessing where the number cannot be meant
// so: a Unix time of 1970, seconds for fifteen years.
var forms = [...][2]string{
	{"after", "seconds or HTTP date"},
	{"seconds", "seconds from now"},
	{"ms", "milliseconds from now"},
	{"minutes", "minutes from now"},
	{"epoch", "Unix time, seconds"},
	{"date", "date"},
	{"duration", "duration"},
	{"pushback", "milliseconds, or a word not to retry"},
	{"details", "RetryInfo in base64 and Protocol Buffers"},
	{"guess", "guessed"},
}

// unixTime is above any honest reset in seconds from now (15 years), and below
// any time since 1970 that is not long gone, the year 2000 of synctest
// included. A thousand times that divides seconds from milliseconds.
const unixTime = 5e8

// span reads a wait or a reset of that form.
func (r *reader) span(text, is string) pace.Opt[time.Duration] {
	text = strings.Trim(text, " \t")
	v, number := decimal(text)
	switch {
	case is == "pushback":
		return r.pushback(v, number)
	case is == "details":
		return retryDelay(text)
	case is == "after" && !number:
		if t, ok := date(text); ok {
			return pace.Some(believe(t.Sub(r.clock())))
		}
		return pace.Opt[time.Duration]{}
	case is == "after", is == "seconds" && number && v <= unixTime:
		return seconds(text)
	case is == "ms" && number && v <= 1000*unixTime:
		return pace.Some(nanoseconds(v * 1e6))
	case is == "minutes" && number && v <= unixTime:
		return pace.Some(nanoseconds(v * 60e9))
	}
	return r.guess(text)
}

// pushback reads gRPC's signed number of 32 bits of milliseconds; one below
// zero, or anything else, means not to retry (gRFC A6).
func (r *reader) pushback(v float64, number bool) pace.Opt[time.Duration] {
	if !number || v < 0 || v > math.MaxInt32 || v != math.Trunc(v) {
		r.sentenced, r.Permanent, r.finalBy = true, true, "Grpc-Retry-Pushback-Ms"
		return pace.Opt[time.Duration]{}
	}
	return pace.Some(nanoseconds(v * 1e6))
}

// guess reads a wait whose unit is not known: numbers up to unixTime are
// seconds from now, greater ones Unix times, in seconds or in milliseconds;
// durations and dates are what they are.
func (r *reader) guess(text string) pace.Opt[time.Duration] {
	v, number := decimal(text)
	if number && v <= unixTime {
		return seconds(text)
	}
	if number {
		return pace.Some(believe(unix(v).Sub(r.clock())))
	}
	if len(text) > maxNumber {
		return pace.Opt[time.Duration]{}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return pace.Some(believe(d))
	}
	if t, ok := instant(text); ok {
		return pace.Some(believe(t.Sub(r.clock())))
	}
	return pace.Opt[time.Duration]{}
}

// unix is a Unix time in seconds or in milliseconds.
func unix(v float64) time.Time {
	if v > 1000*unixTime {
		v /= 1000
	}
	v = min(v, 1e12) // 30,000 years: time.Unix would overflow much later
	whole := int64(v)
	return time.Unix(whole, int64((v-float64(whole))*1e9))
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
	text = strings.Trim(text, " \t")
	for _, layout := range dates {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return t, false
}

// instants are other forms of a date: RFC 3339, ISO 8601 without seconds, and
// what JavaScript's Date says of itself.
var instants = [...]string{time.RFC3339, "2006-01-02T15:04Z07:00", "Mon Jan 02 2006 15:04:05 GMT-0700"}

// instant reads a date of any form.
func instant(text string) (t time.Time, ok bool) {
	if t, ok = date(text); ok {
		return t, true
	}
	text, _, _ = strings.Cut(text, " (") // JavaScript names its time zone
	for _, layout := range instants {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return t, false
}
