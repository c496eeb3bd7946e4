package rules

import (
	"slices"
	"time"
)

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

// Value is the value of a [Switch], at most 256 bytes. In JSON it may also be a
// number, true or false, whose text it is then.
type Value string

// On reports whether the value is "true" or "on".
func (v Value) On() bool { return v == "true" || v == "on" }

// switched is a Switch made ready.
type switched struct {
	value Value
	cases []Case
	exact map[string][]int // into cases, by key
	globs []glob
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
		if i < first && !s.cases[i].Ended(now) && s.globs[n].match(key) {
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
		if g := k.glob(at+".key", c.Key); g.exact() {
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
