package rules

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/internal/glob"
)

// Note says until when something that was changed by hand holds, and why it is
// there. The zero Note holds for ever.
type Note struct {
	// Until is when the change ends by itself, by [Request.Now]. If zero, it does not
	// end.
	Until time.Time `json:"until,omitzero"`
	// At is when it was written. If zero, that is not known.
	At time.Time `json:"at,omitzero"`
	// Why is the reason, at most 256 bytes.
	Why string `json:"why,omitzero"`
	// By names the author, at most 256 bytes.
	By string `json:"by,omitzero"`
}

// Ended reports whether it has ended at now.
func (n Note) Ended(now time.Time) bool { return ended(n.Until, now) }

func ended(until, now time.Time) bool { return !until.IsZero() && !now.Before(until) }

// Entry is an entry of an allow or a deny list. In JSON it is text, or an object
// if it has a Note: {"entry": "203.0.113.0/24", "until": "2026-12-01T00:00:00Z"}.
type Entry struct {
	// Text is an address, a network, or PART=PATTERN, where PART is any part of a
	// [Key] but the address.
	Text string `json:"entry"`
	Note
}

// MarshalJSON returns text if there is no Note.
func (e Entry) MarshalJSON() ([]byte, error) {
	if e.Note == (Note{}) {
		return json.Marshal(e.Text)
	}
	type plain Entry
	return json.Marshal(plain(e))
}

// Shadow is a dry run of a whole rule, or of other limits beside those of a rule.
// In JSON it is true, or an object such as {"limits": "8/s"}. The zero value is
// none.
type Shadow struct {
	// Rule makes the rule itself a shadow rule. If true, nothing else is set.
	Rule bool `json:"-"`
	// Limits are tried out beside the rule's, for the same requests by the same
	// key, with states of their own; at most 8.
	Limits []Limit `json:"limits,omitempty"`
	// InFlight is tried out in the same way. If zero, there is no bound.
	InFlight Max `json:"in_flight,omitzero"`
}

// MarshalJSON returns true or the object.
func (s Shadow) MarshalJSON() ([]byte, error) {
	if s.Rule {
		return []byte("true"), nil
	}
	type plain Shadow
	return json.Marshal(plain(s))
}

// IsZero reports whether there is none.
func (s Shadow) IsZero() bool { return !s.Rule && !s.tried() }

// tried reports whether there are other limits beside those of the rule.
func (s Shadow) tried() bool { return len(s.Limits) > 0 || s.InFlight != 0 }

// Kill is a kill switch. In JSON it is true or false, or an object if it has a
// Note: {"on": true, "until": "2026-12-01T00:00:00Z"}. The zero value is off.
type Kill struct {
	// On switches limiting off.
	On bool `json:"on"`
	Note
}

// MarshalJSON returns true or false if there is no Note.
func (k Kill) MarshalJSON() ([]byte, error) {
	if k.Note == (Note{}) {
		return json.Marshal(k.On)
	}
	type plain Kill
	return json.Marshal(plain(k))
}

// on reports whether it is on at now.
func (k Kill) on(now time.Time) bool { return k.On && !k.Ended(now) }

// or returns the one of two switches that is on for longer.
func (k Kill) or(other Kill) Kill {
	switch {
	case !k.On:
		return other
	case !other.On, k.Until.IsZero(), !other.Until.IsZero() && !other.Until.After(k.Until):
		return k
	}
	return other
}

// note checks a Note.
func (k *compiler) note(path string, n Note) {
	k.c.timed = k.c.timed || !n.Until.IsZero()
	for _, x := range [...]struct {
		name string
		time.Time
	}{{"until", n.Until}, {"at", n.At}} {
		if !writable(x.Time) {
			k.fail(join(path, x.name), "must be a time of the years 1 to 9999")
		}
	}
	for _, x := range [...]struct{ name, text string }{{"why", n.Why}, {"by", n.By}} {
		if len(x.text) > maxText {
			k.fail(join(path, x.name), "longer than %d bytes", maxText)
		} else if strings.ContainsFunc(x.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			k.fail(join(path, x.name), "control characters; write one line of text")
		}
	}
}

// Switch is a value for the program (a feature toggle), which may differ by key:
// by customer, by path, by anything that the program has a text for.
type Switch struct {
	// Name is its name, as that of a rule, and no other switch's.
	Name string `json:"name"`
	// Value is for keys without a Case. If empty, there is none.
	Value Value `json:"value,omitzero"`
	// Cases are other values for some keys: at most 10,000, and at most 100 of
	// them with '*'. The first that matches and has not ended counts.
	Cases []Case `json:"cases,omitempty"`
}

// Case is the value of a Switch for some keys.
type Case struct {
	// Key is exact, or a pattern with '*'.
	Key string `json:"key"`
	// Value is the value.
	Value Value `json:"value"`
	Note
}

// Value is the value of a [Switch], at most 256 bytes. In JSON a number, true
// or false is read as its text.
type Value string

// On reports whether the value is "true" or "on".
func (v Value) On() bool { return v == "true" || v == "on" }

// switched is a Switch made ready.
type switched struct {
	value Value
	cases []Case
	exact map[string][]int // into cases, by key
	globs []glob.Pattern
	stars []int // into cases, of each of globs
}

// Switch returns the value of a switch for a key at a time. If it is empty, the
// switch has no value for the key, or there is none of that name. It is safe for
// concurrent use.
func (c *Compiled) Switch(name, key string, now time.Time) Value {
	if c == nil || c.switches[name] == nil {
		return ""
	}
	s := c.switches[name]
	first := len(s.cases)
	for _, i := range s.exact[key] {
		if !s.cases[i].Ended(now) {
			first = i
			break
		}
	}
	for n, i := range s.stars {
		if i < first && !s.cases[i].Ended(now) && s.globs[n].Match(key) {
			first = i
			break
		}
	}
	if first == len(s.cases) {
		return s.value
	}
	return s.cases[first].Value
}

func (k *compiler) switches(all []Switch) {
	if len(all) > maxRules {
		k.fail("switches", "more than %d switches", maxRules)
	}
	k.c.switches = make(map[string]*switched, len(all))
	for i := range all {
		s, path := &all[i], item("switches", i)
		switch {
		case k.err != nil:
			return
		case !isName(s.Name):
			k.fail(path+".name", "a switch needs a name: letters, digits, '-', '_' and '.', at most %d", maxName)
		case k.c.switches[s.Name] != nil:
			k.fail(path+".name", "another switch has the name %q", s.Name)
		case len(s.Value) > maxText:
			k.fail(path+".value", "longer than %d bytes", maxText)
		case len(s.Cases) > maxEntries:
			k.fail(path+".cases", "more than %d cases", maxEntries)
		}
		k.c.switches[s.Name] = k.cases(path+".cases", s)
	}
}

func (k *compiler) cases(path string, s *Switch) *switched {
	done := &switched{value: s.Value, cases: slices.Clone(s.Cases), exact: map[string][]int{}}
	for i, c := range done.cases {
		at := item(path, i)
		k.note(at, c.Note)
		if len(c.Value) > maxText {
			k.fail(at+".value", "longer than %d bytes", maxText)
		}
		if g := k.glob(at+".key", c.Key); g.Exact() {
			done.exact[c.Key] = append(done.exact[c.Key], i)
		} else {
			done.globs, done.stars = append(done.globs, g), append(done.stars, i)
		}
		if len(done.exact[c.Key]) > mostTwins {
			k.fail(at, "more than %d cases of one key", mostTwins)
		}
		if len(done.stars) > maxPatterns {
			k.fail(at, "more than %d cases with '*'", maxPatterns)
			return done
		}
	}
	return done
}

// read reads text, or an object with a Note.
func (e *Entry) read(n node) *Error {
	if s, ok := n.Value.(string); ok {
		e.Text = s
		return nil
	}
	if _, ok := n.Value.([]Field); !ok {
		return n.fail("must be text, or {\"entry\": TEXT, \"until\": TIME, \"why\": TEXT, \"by\": TEXT}")
	}
	return decodeStruct(n, reflect.ValueOf(e).Elem())
}
