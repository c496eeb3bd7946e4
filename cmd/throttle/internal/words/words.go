package words

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Quote is text as it is if it is a word, else in quotes; at most 40 of it.
func Quote(text string) string {
	if r := []rune(text); len(r) > 40 {
		text = string(r[:40]) + "..."
	}
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }
	if text == "" || strings.ContainsFunc(text, odd) {
		return strconv.Quote(text)
	}
	return text
}

// Short is a duration as people write it: 30m, not 30m0s.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// OneLine is text without line breaks and other control characters.
func OneLine(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Lasting is a duration as people write it: 290 ms, 1.5 s, 30 min.
func Lasting(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d >= unit.size && (d%unit.size == 0 || unit.size <= time.Second) {
			return Number(float64(d)/float64(unit.size)) + " " + unit.name
		}
	}
	if d == 0 {
		return "0 s"
	}
	return Number(float64(d)/1e3) + " µs"
}

func Percent(share float64) string { return Number(100*share) + " %" }

// Number has up to 6 digits.
func Number(x float64) string {
	if x >= 1e6 || x <= -1e6 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// Whole is n with a comma before each three digits.
func Whole(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Whole(int64(n)) + " " + many
}

func Enumerate(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " and " + items[last]
}
