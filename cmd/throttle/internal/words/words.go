// Package words formats numbers, durations and names for people to read, and reads durations.
package words

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/throttle-go/throttle/internal/near"
)

// Quote returns a word as it is and other text in quotes, at most 40 runes of it.
func Quote(text string) string {
	if r := []rune(text); len(r) > 40 {
		text = string(r[:40]) + "..."
	}
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }
	if text == "" || strings.ContainsFunc(text, odd) || !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	return text
}

// Short writes a duration as Go does, without zeros at its end: 30m, not 30m0s.
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

// Duration reads a duration as Go does. One beyond 292 years is the longest there is, or
// below zero the shortest, so that a bound refuses it as too long or too short. ok is
// false for text that is no duration.
func Duration(text string) (d time.Duration, ok bool) {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil:
		return d, true
	case !durations.MatchString(text):
		return 0, false
	case text[0] == '-':
		return math.MinInt64, true
	}
	return math.MaxInt64, true
}

// durations are what time.ParseDuration reads, whatever the size of the numbers.
var durations = regexp.MustCompile(`^[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// Meant returns what an error adds about a name that is not known: the one of known that
// was likely meant, or all of them.
func Meant(name string, known []string) string {
	if likely := near.Of(name, known); likely != "" {
		return "did you mean " + likely + "?"
	}
	return "known are " + strings.Join(known, ", ")
}

// OneLine returns text with escapes for line breaks and other control characters, for
// what is not seen but changes how text reads, as marks that turn its direction, and for
// bytes that are no UTF-8, which may be control characters to a terminal.
func OneLine(text string) string {
	escaped := func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
	if !strings.ContainsFunc(text, escaped) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0]), 16))
		case escaped(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// Visible is OneLine that also escapes what is not seen but changes how text reads:
// marks that turn its direction, and characters without a width. Of more than most runes
// it keeps the first ones.
func Visible(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
	}
	return b.String()
}

// Fold breaks text at blanks into lines of at most width, where a word is not
// longer; no width breaks nothing.
func Fold(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(text, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// Lasting writes a duration as people write it: 290 ms, 1.5 s, 30 min.
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

// Number writes x with up to 6 digits.
func Number(x float64) string {
	if x >= 1e6 || x <= -1e6 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// Whole writes n with a comma before each three digits.
func Whole(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural writes a number and what it counts: 1 run, 2 runs.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Whole(int64(n)) + " " + many
}

// First joins the first few items, and says if there are more: a, b, ...
func First(most int, items []string) string {
	if len(items) <= most {
		return Enumerate(items)
	}
	return strings.Join(items[:most], ", ") + ", ..."
}

// Enumerate joins items: a, b and c.
func Enumerate(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " and " + items[last]
}
