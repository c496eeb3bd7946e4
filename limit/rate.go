package limit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// units are the units of a rate, as people write them. m is a minute.
var units = []struct {
	name string
	is   time.Duration
}{
	{"ms", time.Millisecond},
	{"s", time.Second},
	{"sec", time.Second},
	{"second", time.Second},
	{"m", time.Minute},
	{"min", time.Minute},
	{"minute", time.Minute},
	{"h", time.Hour},
	{"hour", time.Hour},
	{"d", 24 * time.Hour},
	{"day", 24 * time.Hour},
}

// ParseRate reads a rate written as COUNT/[N]UNIT, UNIT being ms, s, m, min,
// h, hour, d or day: "4/s", "600/1m", "100/10s", "5000/h". The error says what
// would be right.
func ParseRate(text string) (count int64, period time.Duration, err error) {
	bad := func(what string) (int64, time.Duration, error) {
		return 0, 0, fmt.Errorf("rate %q: %s; write COUNT/[N]UNIT with UNIT one of ms s m min h hour d day, as in 4/s or 100/10s", text, what)
	}
	head, tail, found := strings.Cut(text, "/")
	if !found {
		return bad("no '/'")
	}
	count, err = strconv.ParseInt(head, 10, 64)
	if err != nil || count < 0 {
		return bad("COUNT must be a whole number, zero or above")
	}
	digits := len(tail) - len(strings.TrimLeft(tail, "0123456789"))
	times := int64(1)
	if digits > 0 {
		if times, err = strconv.ParseInt(tail[:digits], 10, 64); err != nil || times == 0 {
			return bad("N must be a whole number above zero")
		}
	}
	for _, u := range units {
		if u.name != tail[digits:] {
			continue
		}
		if times > math.MaxInt64/int64(u.is) {
			return bad("the period is longer than 292 years")
		}
		return count, time.Duration(times) * u.is, nil
	}
	return bad(fmt.Sprintf("unit %q is not known", tail[digits:]))
}
