package rules

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// maxDiff bounds the lines of Diff.
const maxDiff = 100

// Diff describes what a Set adds to an older one, removes from it and changes in it:
// rules, limits, overrides, entries and switches, a line each. There are at most 100
// lines, and one more says how many are left out. Nil if the two are equal.
func Diff(old, now Set) (lines []string) {
	d := &differ{}
	d.fields("", reflect.ValueOf(old), reflect.ValueOf(now), "rules", "deny", "allow", "switches")
	named(d, "deny: ", old.Deny, now.Deny, func(e Entry) string { return e.Text }, func(d *differ, _ string, a, b Entry) {
		d.changed("deny: "+a.Text, noteWords(a.Note), noteWords(b.Note))
	})
	named(d, "allow: ", old.Allow, now.Allow, func(e Entry) string { return e.Text }, func(d *differ, _ string, a, b Entry) {
		d.changed("allow: "+a.Text, noteWords(a.Note), noteWords(b.Note))
	})
	named(d, "rule ", old.Rules, now.Rules, func(r Rule) string { return r.Name }, (*differ).rule)
	named(d, "switch ", old.Switches, now.Switches, func(s Switch) string { return s.Name }, (*differ).toggle)
	if n := len(d.lines); n > maxDiff {
		return append(d.lines[:maxDiff], fmt.Sprintf("and %d more", n-maxDiff))
	}
	return d.lines
}

type differ struct{ lines []string }

func (d *differ) add(format string, a ...any) {
	d.lines = append(d.lines, clip(oneLine(fmt.Sprintf(format, a...)), 2*maxText))
}

func (d *differ) changed(what, old, now string) {
	if old != now {
		d.add("%s: %s, was %s", what, now, old)
	}
}

// named compares lists whose items have names: those added, removed and changed.
func named[T any](d *differ, what string, old, now []T, name func(T) string, changed func(d *differ, what string, a, b T)) {
	before := map[string]T{}
	for _, x := range old {
		before[name(x)] = x
	}
	after := map[string]bool{}
	for _, x := range now {
		n := name(x)
		if was, ok := before[n]; !ok {
			d.add("%s%s: added%s", what, n, addedWords(x))
		} else if !reflect.DeepEqual(was, x) {
			changed(d, what+n, was, x)
		}
		after[n] = true
	}
	for _, x := range old {
		if n := name(x); !after[n] {
			d.add("%s%s: removed", what, n)
			after[n] = true
		}
	}
}

// addedWords says what is worth knowing of an item that was added.
func addedWords(x any) string {
	switch x := x.(type) {
	case Entry:
		return untilWords(x.Note)
	case Rule:
		return ", limits " + limitWords(x.Limits)
	case Override:
		return ", " + overrideWords(x)
	case Case:
		return ", " + string(x.Value) + untilWords(x.Note)
	}
	return ""
}

func (d *differ) rule(what string, a, b Rule) {
	d.changed(what+": limits", limitWords(a.Limits), limitWords(b.Limits))
	d.moved(what, limitTexts(a.Limits), limitTexts(b.Limits))
	named(d, what+": override for ", a.Overrides, b.Overrides, func(v Override) string { return keyWords(v.Key) },
		func(d *differ, what string, a, b Override) { d.changed(what, overrideWords(a), overrideWords(b)) })
	d.fields(what+": ", reflect.ValueOf(a), reflect.ValueOf(b), "name", "limits", "overrides")
}

// moved says which limits have another place in their rule, as keys have the place in them:
// a limit in front of another makes that one start over.
func (d *differ) moved(what string, a, b []string) {
	for to, text := range b {
		from, stays := slices.Index(a, text), func(in []string, at int) bool { return at < len(in) && in[at] == text }
		if from >= 0 && !stays(a, to) && !stays(b, from) {
			d.add("%s: %s is limit %d now, was %d: what it has used stays with limit %[4]d", what, text, to+1, from+1)
		}
	}
}

func (d *differ) toggle(what string, a, b Switch) {
	d.changed(what, valueWords(a.Value), valueWords(b.Value))
	named(d, what+": ", a.Cases, b.Cases, func(c Case) string { return c.Key }, func(d *differ, what string, a, b Case) {
		d.changed(what, valueWords(a.Value)+untilWords(a.Note), valueWords(b.Value)+untilWords(b.Note))
	})
}

// fields compares the fields of two structs but some, by their JSON.
func (d *differ) fields(what string, a, b reflect.Value, but ...string) {
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		if !slices.Contains(but, name) {
			d.changed(what+name, jsonWords(a.Field(i)), jsonWords(b.Field(i)))
		}
	}
}

func jsonWords(v reflect.Value) string {
	if v.IsZero() {
		return "none"
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func limitWords(all []Limit) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(limitTexts(all), " and ")
}

func limitTexts(all []Limit) (texts []string) {
	for _, l := range all {
		texts = append(texts, limit.Limit(l).String())
	}
	return texts
}

func overrideWords(v Override) string {
	words := "limits " + limitWords(v.Limits)
	if v.InFlight != 0 {
		words += fmt.Sprintf(", %d in flight", v.InFlight)
	}
	return words + untilWords(v.Note)
}

func valueWords(v Value) string {
	if v == "" {
		return "none"
	}
	return string(v)
}

func keyWords(key []string) string { return strings.Join(key, "+") }

func untilWords(n Note) string {
	if n.Until.IsZero() {
		return ""
	}
	return " until " + n.Until.Format(time.RFC3339)
}

func noteWords(n Note) string {
	words := "for ever"
	if !n.Until.IsZero() {
		words = untilWords(n)[1:]
	}
	if n.Why != "" {
		words += " (" + n.Why + ")"
	}
	return words
}
