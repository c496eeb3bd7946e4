package limit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseRate reads a rate written as COUNT/[N]UNIT, UNIT being ms, s, m, min, h,
// hour, d or day (or sec, second, minute), and m a minute: "4/s", "600/1m",
// "100/10s", "5000/h". A COUNT with up to 6 decimals is a whole COUNT of a longer
// period: "0.5/s" is 1/2s, "2.5/s" is 5/2s. A COUNT of zero ("0/s") allows
// nothing; the period is always above zero. The error is one line that says what
// would be right; count and period are then 0 and a second.
func ParseRate(text string) (count int64, period time.Duration, err error) {
	count, period, what := parseRate(text, unitOf)
	if what != "" {
		return 0, time.Second, badRate(text, what)
	}
	return count, period, nil
}

// unknownUnit is what is wrong with a rate whose UNIT is none.
const unknownUnit = "UNIT is not known"

// parseRate is ParseRate with units of one's choice. If what is not empty, it
// says what is wrong.
func parseRate(text string, unitOf func(string) (time.Duration, bool)) (count int64, period time.Duration, what string) {
	head, tail, found := strings.Cut(text, "/")
	if !found {
		return 0, 0, "has no '/'"
	}
	count, times, ok := parseCount(head)
	if !ok {
		return 0, 0, "COUNT is not a number below 2^63 with at most 6 decimals"
	}
	digits := len(tail) - len(strings.TrimLeft(tail, "0123456789"))
	n, ok := parseDigits(tail[:digits])
	if digits == 0 {
		n, ok = 1, true
	}
	if !ok || n == 0 {
		return 0, 0, "N is not a whole number above zero"
	}
	unit, ok := unitOf(tail[digits:])
	if !ok {
		return 0, 0, unknownUnit
	}
	if n > math.MaxInt64/int64(unit)/times {
		return 0, 0, "the period is longer than 292 years"
	}
	return count, time.Duration(n*times) * unit, ""
}

// parseCount reads a number of at most 6 decimals as count/times, in lowest
// terms. Without decimals, times is 1.
func parseCount(text string) (count, times int64, ok bool) {
	whole, decimals, found := strings.Cut(text, ".")
	if !found {
		count, ok = parseDigits(text)
		return count, 1, ok
	}
	count, ok = parseDigits(whole + decimals)
	if !ok || whole == "" || decimals == "" || len(decimals) > 6 {
		return 0, 0, false
	}
	times = 1
	for range decimals {
		times *= 10
	}
	a, b := count, times // the greatest divisor of both, by Euclid
	for b > 0 {
		a, b = b, a%b
	}
	return count / a, times / a, true
}

// burstOf is the burst of a token bucket whose rate has decimals and that is written
// without one: COUNT, rounded up. Its Count would be no burst that anybody means, as the
// 333333 of "0.333333/s". It is zero where it would be the Count.
func burstOf(rate string, count int64) int64 {
	head, _, _ := strings.Cut(rate, "/")
	part, times, _ := parseCount(head)
	if times <= 1 {
		return 0
	}
	if burst := part/times + 1; burst < count { // in lowest terms, so there is a remainder
		return burst
	}
	return 0
}

func unitOf(name string) (unit time.Duration, ok bool) {
	switch name {
	case "ms":
		return time.Millisecond, true
	case "s", "sec", "second":
		return time.Second, true
	case "m", "min", "minute":
		return time.Minute, true
	case "h", "hour":
		return time.Hour, true
	case "d", "day":
		return 24 * time.Hour, true
	}
	return 0, false
}

// parseDigits reads digits only: no sign, no underscore.
func parseDigits(text string) (n int64, ok bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func badRate(text, what string) error {
	return fmt.Errorf("limit: rate %.40q: %s; write COUNT/[N]UNIT with UNIT one of ms s m min h hour d day, as in 4/s or 100/10s", text, what)
}
