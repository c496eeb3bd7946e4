package signal

import (
	"fmt"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Note explains, for people, how one field was read.
type Note struct {
	// Field is the name of the field, or "body" and a path into it; "default"
	// stands for knowledge of the preset.
	Field string
	// Value is the value of the field, cut to 128 bytes.
	Value string
	// Says is the meaning that was read, or why the field was ignored.
	Says string
	// Ignored reports whether the field has no part in the result.
	Ignored bool
}

// Explain reads an answer as Read does, and returns a note for each field that
// was read and present, in the order in which they were read.
func (d *Dialect) Explain(status int, field func(name string) string, body []byte, now time.Time) (Reading, []Note) {
	var notes []Note
	r := reader{d: d, status: status, field: field, now: now, whole: body, notes: &notes}
	r.read()
	return r.Reading, notes
}

// note says what a field means.
func (r *reader) note(field, format string, args ...any) {
	value := ""
	if field != "default" {
		value = r.text(field)
	}
	r.noteText(field, value, fmt.Sprintf(format, args...))
}

func (r *reader) noteText(field, value, says string) {
	*r.notes = append(*r.notes, Note{Field: field, Value: cut(value), Says: says})
}

// ignore says why a field has no part.
func (r *reader) ignore(field, value, format string, args ...any) {
	*r.notes = append(*r.notes, Note{Field: field, Value: cut(value), Says: fmt.Sprintf(format, args...), Ignored: true})
}

// notePolicies says what a RateLimit-Policy field is good for.
func (r *reader) notePolicies(text string, policies int) {
	switch policies {
	case 0:
		r.ignore("RateLimit-Policy", text, "not a structured field (RFC 9651)")
	case 1:
		r.noteText("RateLimit-Policy", text, "a policy")
	default:
		r.noteText("RateLimit-Policy", text, fmt.Sprint(policies, " policies"))
	}
}

// noteSpan says how a wait or a reset was read.
func (r *reader) noteSpan(from, text, is, what string, d pace.Opt[time.Duration]) {
	if !d.OK && r.ahead(text, is).OK {
		r.ignore(from, text, "no time that can be meant")
		return
	}
	if !d.OK && is == "details" {
		r.ignore(from, text, "no RetryInfo in it")
		return
	}
	if !d.OK && is == "words" {
		return // most sentences name no wait
	}
	if !d.OK && is == "pushback" {
		r.note(from, "do not ask again")
		return
	}
	if !d.OK {
		r.ignore(from, text, "neither a number nor a date nor a duration")
		return
	}
	capped := ""
	switch {
	case d.V == MaxAfter:
		capped = ", the longest that is believed"
	case d.V == FallbackAfter && r.ahead(text, is).V > MaxAfter:
		capped = ", in place of one too long to be believed"
	}
	r.note(from, "%s %v (%s%s)", what, d.V, r.formOf(text, is), capped)
}

// noteCount says how a number was read.
func (r *reader) noteCount(from, text, what string, n pace.Opt[int64]) {
	if !n.OK {
		r.ignore(from, text, "not a number from 0 to %d", int64(maxCount))
		return
	}
	r.note(from, "%s %d", what, n.V)
}

// formOf is what a time was taken for.
func (r *reader) formOf(text, is string) string {
	v, number := decimal(text)
	guessed := is == "guess" || number && (is == "seconds" && v > unixTime || is == "ms" && v > 1000*unixTime || is == "epoch" && v <= unixTime || is == "after" && v > unixTime)
	switch {
	case is == "details", is == "words":
	case !number && len(text) > 0 && text[len(text)-1] == 's':
		is = "duration"
	case !number:
		is = "date"
	case guessed && v <= unixTime, is == "after" && !guessed:
		is = "seconds"
	case guessed && v <= 1000*unixTime:
		is = "epoch"
	case guessed:
		return "guessed: Unix time, milliseconds"
	}
	name := ""
	for _, f := range forms {
		if f[0] == is {
			name = f[1]
		}
	}
	if guessed {
		return "guessed: " + name
	}
	return name
}

// notePolicy says what a limit is that stands in one field.
func (r *reader) notePolicy(p Policy, by string) {
	text := ""
	if p.Name != "" {
		text = p.Name + ": "
	}
	if p.Remaining.OK {
		text += fmt.Sprint(p.Remaining.V, " ")
	}
	most := or(p.Burst, p.Limit) // of which something remains
	if p.Remaining.OK && most.OK {
		text += "of "
	}
	if most.OK {
		text += fmt.Sprint(most.V, " ")
	}
	text += p.Unit
	if p.Remaining.OK {
		text += " left"
	}
	if p.Burst.OK && p.Limit.OK {
		text += fmt.Sprint(", limit ", p.Limit.V)
	}
	if p.Window.OK {
		text += fmt.Sprint(", window ", p.Window.V)
	}
	if p.Reset.OK {
		text += fmt.Sprint(", reset in ", p.Reset.V)
	}
	r.note(by, "%s", text)
}
