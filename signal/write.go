package signal

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Write writes s as the fields of the current draft, as far as it is known, with
// a function such as http.Header.Set:
//
//	Retry-After: 30
//	RateLimit: "default";r=0;t=30
//	RateLimit-Policy: "default";q=100;w=60
//
// Two parameters are our own, and other readers ignore them: a Burst is sent as
// throttle-burst=20 in RateLimit-Policy, a Share as throttle-share=2.5, a rate
// a second, in RateLimit.
//
// policy is the name of the limit, if empty "default"; characters that a header
// cannot carry become '?'. All times are whole seconds, rounded up; a window
// that is not whole is rounded up and its limit raised to the same rate.
func (s Signal) Write(set func(name, value string), policy string) {
	s.WriteRetryAfter(set)
	if policy == "" {
		policy = "default"
	}
	policy = quote(policy)
	if s.Remaining.OK {
		value := policy + ";r=" + number(s.Remaining.V)
		if s.Reset.OK {
			value += ";t=" + whole(s.Reset.V)
		}
		if s.Share.OK {
			value += ";" + shareParam + "=" + fraction(s.Share.V)
		}
		set("RateLimit", value)
	}
	if !s.Limit.OK {
		return
	}
	value := policy + ";q=" + number(s.Limit.V)
	if per := s.Window.V; s.Window.OK && per > 0 {
		value = policy + ";q=" + number(inWhole(s.Limit.V, per)) + ";w=" + whole(per)
	}
	if s.Burst.OK {
		value += ";" + burstParam + "=" + number(s.Burst.V)
	}
	set("RateLimit-Policy", value)
}

// WriteRetryAfter writes After alone: enough where the number remaining would
// help attackers, as at a login.
func (s Signal) WriteRetryAfter(set func(name, value string)) {
	if s.After.OK {
		set("Retry-After", whole(s.After.V))
	}
}

// WriteRemaining writes Remaining alone, in a bare RateLimit-Remaining as
// Heroku's API does: its callers must know or learn the rest.
func (s Signal) WriteRemaining(set func(name, value string)) {
	if s.Remaining.OK {
		set("RateLimit-Remaining", number(s.Remaining.V))
	}
}

// inWhole is limit × the window in whole seconds / the window, rounded down.
func inWhole(limit int64, window time.Duration) int64 {
	hi, lo := bits.Mul64(uint64(max(limit, 0)), uint64(Seconds(window)))
	if hi >= uint64(window) {
		return maxCount
	}
	limited, _ := bits.Div64(hi, lo, uint64(window))
	return int64(min(limited, maxCount))
}

// whole is d in seconds.
func whole(d time.Duration) string {
	return number(int64(Seconds(d) / time.Second))
}

// number is n as an Integer of a structured field.
func number(n int64) string {
	return strconv.FormatInt(min(max(n, 0), maxCount), 10)
}

// fraction is x as a Decimal of a structured field, of a thousandth at least:
// zero would say nothing.
func fraction(x float64) string {
	if !(x >= 0.001) { // NaN too
		x = 0.001
	}
	return strconv.FormatFloat(min(x, MaxShare), 'f', 3, 64)
}

// quote is text as a String of a structured field.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
		case c < ' ' || c > '~':
			c = '?'
		}
		b.WriteRune(c)
	}
	b.WriteByte('"')
	return b.String()
}
