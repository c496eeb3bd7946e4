package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/signal"
)

// This file compares how package signal reads a RateLimit field with what a
// complete parser of structured fields (RFC 9651) makes of it.

// fieldByUs is what package signal makes of a RateLimit field, an item a line.
func fieldByUs(text string) string {
	d, _ := signal.Named("general")
	r := d.Read(200, func(name string) string {
		if name == "RateLimit" {
			return text
		}
		return ""
	}, nil, time.Unix(0, 0))
	policies := r.Policies
	if policies == nil && r.Remaining.OK {
		policies = []signal.Policy{{Limit: r.Limit, Remaining: r.Remaining, Reset: r.Reset}}
	}
	var b strings.Builder
	for _, p := range policies {
		fmt.Fprintf(&b, "remaining %d", p.Remaining.V)
		if p.Limit.OK {
			fmt.Fprintf(&b, " limit %d", p.Limit.V)
		}
		if p.Reset.OK {
			fmt.Fprintf(&b, " reset %v", p.Reset.V)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// fieldByParser is the same by the parser, with the rules of the draft on top: r is a
// number from 0, t one that is believed up to a day.
func fieldByParser(text string) (said string, valid bool) {
	if list, err := httpsfv.UnmarshalList([]string{text}); err == nil {
		var b strings.Builder
		for _, m := range list {
			item, ok := m.(httpsfv.Item)
			if !ok {
				return "", false // an inner list: no form of the field has any
			}
			r, _ := item.Params.Get("r")
			left, ok := fieldQuantity(r)
			if !ok {
				continue
			}
			fmt.Fprintf(&b, "remaining %d", int64(left))
			t, _ := item.Params.Get("t")
			if wait, ok := fieldQuantity(t); ok && wait <= fieldLongest {
				fmt.Fprintf(&b, " reset %v", fieldSpan(wait))
			}
			b.WriteString("\n")
		}
		return b.String(), true
	}
	dict, err := httpsfv.UnmarshalDictionary([]string{text})
	if err != nil {
		return "", false
	}
	get := func(name string) (float64, bool) {
		m, _ := dict.Get(name)
		item, ok := m.(httpsfv.Item)
		if !ok {
			return 0, false
		}
		return fieldQuantity(item.Value)
	}
	for _, name := range dict.Names() {
		if m, _ := dict.Get(name); m != nil {
			if _, ok := m.(httpsfv.Item); !ok {
				return "", false
			}
		}
	}
	left, ok := get("remaining")
	if !ok {
		return "", true
	}
	said = fmt.Sprintf("remaining %d", int64(left))
	if most, ok := get("limit"); ok {
		said += fmt.Sprintf(" limit %d", int64(most))
	}
	if wait, ok := get("reset"); ok && wait <= fieldLongest {
		said += fmt.Sprintf(" reset %v", fieldSpan(wait))
	}
	return said + "\n", true
}

// fieldQuantity is a number that is not below zero.
func fieldQuantity(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), v >= 0
	case float64:
		return v, v >= 0
	}
	return 0, false
}

// fieldLongest is the longest reset that is not ignored: 366 days.
const fieldLongest = 366 * 24 * 60 * 60

func fieldSpan(seconds float64) time.Duration {
	return min(time.Duration(math.Round(min(seconds, 1e6)*1e9)), signal.MaxAfter)
}

// fieldPieces are what fields are put together of.
var fieldPieces = []string{
	`"default"`, `"a b"`, `"q\"\\x"`, `"a,b;r=9"`, "default", "*tok/en:1", "5", "-3", "2.5", ":YWI=:", "?1", "?0",
	";r=50", ";r=0", ";r=1.5", ";r=-1", ";t=30", ";t=0.25", ";t=1000000", ";pk=:QXBw:", ";q=100", ";w=60", `;x="y"`, ";flag", "; r=7", ";r=?1", ";r=tok",
	", ", ",", " ,\t", " ", "limit=100", "remaining=99", "reset=50", "remaining=7.25", "=", `"`, `\`, ";", "é", "\x01", "()", `("a" "b")`,
}

// randomField is any of the pieces in any order, or, mostly, some items with
// some parameters.
func randomField(rng *rand.Rand) string {
	var b strings.Builder
	if rng.IntN(4) == 0 {
		for range 1 + rng.IntN(8) {
			b.WriteString(fieldPieces[rng.IntN(len(fieldPieces))])
		}
		return b.String()
	}
	for i := range 1 + rng.IntN(3) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(fieldPieces[rng.IntN(12)])
		for range rng.IntN(4) {
			b.WriteString(fieldPieces[12+rng.IntN(14)])
		}
	}
	return b.String()
}

// freedoms are those that package signal takes here: a number of any length, and a
// second String before the parameters. (Keys of upper case, another one, do not occur.)
var freedoms = regexp.MustCompile(`\.\d{4,}|\d{13,}|";[ \t]*"`)

// TestStructuredFields: what is valid is read as by the parser, and what is not
// says nothing.
func TestStructuredFields(t *testing.T) {
	bubble.Long(t)
	rng := rand.New(rand.NewPCG(9, 651))
	valid, said, wrong := 0, 0, 0
	for range 300_000 {
		text := randomField(rng)
		want, ok := fieldByParser(text)
		if ok {
			valid++
		}
		if want != "" {
			said++
		}
		if got := fieldByUs(text); got != want && (ok || !freedoms.MatchString(text)) {
			t.Errorf("%q is read as %q, want %q", text, got, want)
			if wrong++; wrong == 20 {
				t.Fatal("and so on")
			}
		}
	}
	t.Logf("%d valid, %d of them say something", valid, said)
	if valid < 50_000 || said < 20_000 {
		t.Errorf("%d fields are valid, %d say something; want enough of both", valid, said)
	}
}
