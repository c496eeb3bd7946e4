package signal

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// MaxAfter bounds a wait, of a Retry-After or a reset: one field must not put a
// caller to sleep for good. A later reset, as of a month's quota, is read as
// MaxAfter.
const MaxAfter = 24 * time.Hour

// FallbackAfter is how long to wait where a server asks for more than MaxAfter, by
// Retry-After or a similar field, or names a reset that is MaxAfter away or more.
// Most such values are mistakes, such as milliseconds, and must not stop a host for
// a day; where one was meant, one request an hour does no harm. A wait or a reset
// above a year, a wait below zero and a date a day or more in the past are ignored,
// as is everything malformed.
const FallbackAfter = time.Hour

// maxWindow is the longest window of a policy. A longer one is ignored rather
// than shortened, as shortening it would raise the rate.
const maxWindow = 366 * 24 * time.Hour

// forms are the forms in which times come, and what each is called in the docs.
// Each form of a number gives way to guessing where the number cannot be meant
// so: a Unix time of 1970, seconds for fifteen years.
var forms = [...][2]string{
	{"after", "seconds, Unix time, date or duration"},
	{"seconds", "seconds from now"},
	{"ms", "milliseconds from now"},
	{"minutes", "minutes from now"},
	{"epoch", "Unix time, seconds"},
	{"date", "date"},
	{"duration", "duration"},
	{"words", "a sentence, as in 'again in 20 seconds'"},
	{"pushback", "milliseconds, or a word not to retry"},
	{"details", "RetryInfo in base64 and Protocol Buffers"},
	{"guess", "guessed"},
}

// unixTime is above any honest reset in seconds from now (15 years), and below
// any time since 1970 that is not long gone, the year 2000 of synctest
// included. A thousand times that divides seconds from milliseconds.
const unixTime = 5e8

// span reads a reset of that form.
func (r *reader) span(text, is string) pace.Opt[time.Duration] {
	return believed(r.ahead(text, is))
}

// await reads a wait of that form.
func (r *reader) await(text, is string) pace.Opt[time.Duration] {
	if is == "after" && strings.IndexByte(text, ',') >= 0 {
		return r.longest(text)
	}
	return r.awaitOne(text, is)
}

// longest reads the longest of several waits in one field, as where a proxy has added its
// own to that of the server: any shorter one would be too early for one of them. Behind the
// day of its week a date has a comma of its own.
func (r *reader) longest(text string) (most pace.Opt[time.Duration]) {
	items := strings.SplitN(text, ",", maxMembers)
	for i := 0; i < len(items); i++ {
		item := items[i]
		if isWeekday(item) && i+1 < len(items) {
			i++
			item += "," + items[i]
		}
		if d := r.awaitOne(item, "after"); d.OK && (!most.OK || d.V > most.V) {
			most = d
		}
	}
	return most
}

// weekdays are how the names of the days of the week begin.
var weekdays = [...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// isWeekday reports whether a text is the beginning of a date, before its comma.
func isWeekday(text string) bool {
	text = strings.Trim(text, " \t")
	return slices.ContainsFunc(weekdays[:], func(day string) bool { return strings.HasPrefix(text, day) })
}

// awaitOne reads one wait of that form.
func (r *reader) awaitOne(text, is string) pace.Opt[time.Duration] {
	if v, number := decimal(text); number && v < 0 && is != "pushback" {
		return pace.Opt[time.Duration]{}
	}
	d := r.ahead(text, is)
	if d.V < 0 && !mayBeOver(text, is) {
		return pace.Opt[time.Duration]{}
	}
	return awaited(d)
}

// mayBeOver reports whether a text of that form is a date or a Unix time, which may
// be over, rather than a time from now, which cannot be.
func mayBeOver(text, is string) bool {
	if is == "details" || is == "words" {
		return false
	}
	text = strings.Trim(text, " \t")
	if v, number := decimal(text); number {
		return v > 0
	}
	_, err := time.ParseDuration(text)
	return err != nil
}

// ahead reads how far ahead a time of that form is, or how long ago it was.
func (r *reader) ahead(text, is string) pace.Opt[time.Duration] {
	text = strings.Trim(text, " \t")
	v, number := decimal(text)
	switch {
	case is == "pushback":
		return r.pushback(v, number)
	case is == "details":
		return retryDelay(text)
	case is == "words":
		return waitIn(text)
	case !number:
		return r.aheadText(text)
	case is == "ms" && v <= 1000*unixTime:
		return pace.Some(bounded(v * 1e6))
	case is == "minutes" && v <= unixTime:
		return pace.Some(bounded(v * 60e9))
	case v <= unixTime:
		return pace.Some(bounded(v * 1e9))
	}
	return pace.Some(unix(v).Sub(r.clock()))
}

// pushback reads gRPC's signed number of 32 bits of milliseconds; one below
// zero, or anything else, means not to retry (gRFC A6).
func (r *reader) pushback(v float64, number bool) pace.Opt[time.Duration] {
	if !number || v < 0 || v > math.MaxInt32 || v != math.Trunc(v) {
		r.sentenced, r.Permanent, r.finalBy = true, true, "Grpc-Retry-Pushback-Ms"
		return pace.Opt[time.Duration]{}
	}
	return pace.Some(bounded(v * 1e6))
}

// aheadText reads a duration or a date.
func (r *reader) aheadText(text string) pace.Opt[time.Duration] {
	if len(text) > maxNumber {
		return pace.Opt[time.Duration]{}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return pace.Some(d)
	}
	if t, ok := instant(text); ok {
		return pace.Some(t.Sub(r.clock()))
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

// believed is a reset within the bounds of what is believed; one that is over
// is now.
func believed(d pace.Opt[time.Duration]) pace.Opt[time.Duration] {
	if !d.OK || d.V > maxWindow {
		return pace.Opt[time.Duration]{}
	}
	return pace.Some(believe(d.V))
}

// awaited is a wait within those bounds.
func awaited(d pace.Opt[time.Duration]) pace.Opt[time.Duration] {
	if !d.OK {
		return pace.Opt[time.Duration]{}
	}
	return Plausible(d.V)
}

// Plausible returns how long to wait where a server asked for a wait, in any
// protocol. Up to [MaxAfter] it is that wait; up to a year, [FallbackAfter];
// below zero by less than a day, zero. Any other wait is absent.
func Plausible(asked time.Duration) pace.Opt[time.Duration] {
	switch {
	case asked > maxWindow || asked <= -MaxAfter:
		return pace.Opt[time.Duration]{}
	case asked > MaxAfter:
		return pace.Some(FallbackAfter)
	}
	return pace.Some(max(asked, 0))
}

// bounded is a number of nanoseconds as a duration, without an overflow.
func bounded(v float64) time.Duration {
	return time.Duration(min(max(math.Round(v), -2*float64(maxWindow)), 2*float64(maxWindow)))
}

// believe is d within the bounds of what is believed.
func believe(d time.Duration) time.Duration { return min(max(d, 0), MaxAfter) }

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

// instants are other forms of a date: RFC 3339, ISO 8601 without seconds, or
// without a time zone, which is UTC then, what JavaScript's Date says of itself, and
// the date of an email, as Python's formatdate writes it.
var instants = [...]string{
	time.RFC3339, "2006-01-02T15:04Z07:00", "Mon Jan 02 2006 15:04:05 GMT-0700",
	"2006-01-02 15:04:05", "2006-01-02 15:04:05 UTC", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00",
	"Mon, 2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 UTC",
}

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
