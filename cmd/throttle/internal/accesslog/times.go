package accesslog

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// clock reads times. Lines that follow each other often have the same, so it keeps the
// last.
type clock struct {
	text string
	time time.Time
}

// parse reads a time in any of the forms that logs have: of the Common Log Format
// (22/Nov/2026:19:14:21 +0000), RFC 3339, the same with a blank and without a zone,
// which is UTC then, or the time of Unix in seconds, ms, µs or ns.
func (c *clock) parse(text string) (t time.Time, ok bool) {
	if text == c.text && text != "" {
		return c.time, true
	}
	if t, ok = parseTime(text); ok {
		c.text, c.time = text, t
	}
	return t, ok
}

func parseTime(text string) (t time.Time, ok bool) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	switch {
	case len(text) < 8:
		return t, false
	case len(text) >= 20 && text[2] == '/' && text[6] == '/':
		return commonTime(text)
	case len(text) >= 19 && text[4] == '-' && text[7] == '-':
		return dashedTime(text)
	}
	return unixTime(text)
}

// commonTime reads 22/Nov/2026:19:14:21 +0000, with or without a fraction and a zone.
func commonTime(text string) (t time.Time, ok bool) {
	day, ok1 := digits(text[:2])
	month := 1 + strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", text[3:6])/3
	year, ok2 := digits(text[7:11])
	hour, ok3 := digits(text[12:14])
	minute, ok4 := digits(text[15:17])
	second, ok5 := digits(text[18:20])
	odd := text[11] != ':' || text[14] != ':' || text[17] != ':' || strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", text[3:6])%3 != 0
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || odd || hour > 23 || minute > 59 || second > 60 || day == 0 || day > 31 {
		return t, false
	}
	if day > 28 && time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() != day {
		return t, false // such as the 31st of February
	}
	nanos, zone, ok := fractionAndZone(text[20:])
	return time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC).Add(-zone), ok
}

// fractionAndZone reads .123 and " +0100", both optional.
func fractionAndZone(text string) (nanos int, zone time.Duration, ok bool) {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, ",") {
		n := 1
		for scale := 100_000_000; n < len(text) && text[n] >= '0' && text[n] <= '9'; n++ {
			nanos += int(text[n]-'0') * scale
			scale /= 10
		}
		text = text[n:]
	}
	text = strings.TrimPrefix(text, " ")
	if text == "" || text == "Z" {
		return nanos, 0, true
	}
	if len(text) != 5 || text[0] != '+' && text[0] != '-' {
		return 0, 0, false
	}
	hours, ok1 := digits(text[1:3])
	minutes, ok2 := digits(text[3:5])
	zone = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if text[0] == '-' {
		zone = -zone
	}
	return nanos, zone, ok1 && ok2
}

// dashedTime reads 2026-11-22T19:14:21.123Z and its kin.
func dashedTime(text string) (t time.Time, ok bool) {
	for _, layout := range [...]string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05", time.DateTime} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return t, false
}

// unixTime reads the seconds since 1970, or ms, µs or ns, which their size tells apart.
func unixTime(text string) (t time.Time, ok bool) {
	whole, part, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.ContainsAny(part, "eE") {
		x, err := strconv.ParseFloat(text, 64) // 1.7e9
		seconds, rest := math.Modf(x)
		return time.Unix(int64(seconds), int64(rest*1e9)).UTC(), err == nil && x >= 1e7 && x < 1e11
	}
	switch {
	case n < 1e7:
		return t, false
	case n < 1e11:
		nanos, ok := fraction(part)
		return time.Unix(n, nanos).UTC(), ok
	case n < 1e14:
		return time.UnixMilli(n).UTC(), true
	case n < 1e17:
		return time.UnixMicro(n).UTC(), true
	}
	return time.Unix(0, n).UTC(), true
}

// fraction returns the nanoseconds of the digits behind a point.
func fraction(part string) (nanos int64, ok bool) {
	scale := int64(100_000_000)
	for i := range len(part) {
		if part[i] < '0' || part[i] > '9' {
			return 0, false
		}
		nanos += int64(part[i]-'0') * scale
		scale /= 10
	}
	return nanos, true
}

// digits reads a number of digits alone.
func digits(text string) (n int, ok bool) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = 10*n + int(text[i]-'0')
	}
	return n, true
}
