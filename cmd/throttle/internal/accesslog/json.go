package accesslog

import (
	"encoding/json"
	"strings"
)

// object is a parser of JSON lines: an object on each. A name within an object within
// it has the names of both, with a dot between them; of a list its first text counts.
type object struct {
	byName  map[string][]field
	longest int // name
	given   Fields
}

const mostDepth = 8

func newObject(given Fields) *Format {
	t := newTable(given)
	for i, g := range given {
		source := strings.ToLower(g.Source)
		t.byName[source] = append(t.byName[source], mark(i))
	}
	o := &object{byName: t.byName, given: given}
	for name := range t.byName {
		o.longest = max(o.longest, len(name))
	}
	return &Format{Name: "json", Names: t.names, parser: o, given: t.given, marked: len(given)}
}

// scanner reads one line. It checks no more than it needs to find values.
type scanner struct {
	o     *object
	s     *setter
	e     *Entry
	text  string
	name  [mostSource]byte
	small [mostSource]byte
	what  string
}

// mark returns what stands for the i-th of Fields: below zero, and no field.
func mark(i int) field { return field(-1 - i) }

func (o *object) parse(line string, s *setter, e *Entry) (what string) {
	c := scanner{o: o, s: s, e: e, text: line}
	c.blank()
	if !c.next('{') {
		return "not an object of JSON: " + quoted(line)
	}
	if !c.object(0, 0) {
		if c.what == "" {
			return "malformed JSON at " + quoted(c.text)
		}
		return c.what
	}
	if c.blank(); c.text != "" {
		return "more after the object: " + quoted(c.text)
	}
	if e.Time.IsZero() {
		return "no time among its names; name it by -fields time=NAME"
	}
	return ""
}

func (c *scanner) blank() { c.text = strings.TrimLeft(c.text, " \t\r") }

// next reads one character.
func (c *scanner) next(b byte) bool {
	if c.text == "" || c.text[0] != b {
		return false
	}
	c.text = c.text[1:]
	return true
}

// object reads what follows a brace; the name of the object has n bytes.
func (c *scanner) object(n, depth int) bool {
	if c.blank(); c.next('}') {
		return true
	}
	for depth < mostDepth {
		c.blank()
		key, _, ok := c.string()
		if c.blank(); !ok || !c.next(':') {
			return false
		}
		c.blank()
		if !c.value(c.join(n, key), depth) {
			return false
		}
		if c.blank(); c.next('}') {
			return true
		}
		if !c.next(',') {
			return false
		}
	}
	return false
}

// join adds a key to the name of n bytes; it returns a length above that of all names
// if it is longer.
func (c *scanner) join(n int, key string) int {
	if n > 0 && n < len(c.name) {
		c.name[n] = '.'
		n++
	}
	if n+len(key) > len(c.name) {
		return len(c.name) + 1
	}
	return n + copy(c.name[n:], key)
}

// fields returns what the name of n bytes stands for.
func (c *scanner) fields(n int) []field {
	if n > c.o.longest || n > len(c.name) {
		return nil
	}
	if all, ok := c.o.byName[string(c.name[:n])]; ok {
		return all
	}
	upper := false
	for i := range n {
		b := c.name[i]
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
			upper = true
		}
		c.small[i] = b
	}
	if !upper {
		return nil
	}
	return c.o.byName[string(c.small[:n])]
}

// value reads a value of the name of n bytes.
func (c *scanner) value(n, depth int) bool {
	if c.text == "" {
		return false
	}
	switch c.text[0] {
	case '{':
		c.text = c.text[1:]
		return c.object(n, depth+1)
	case '[':
		c.text = c.text[1:]
		return c.list(n, depth+1)
	case '"':
		raw, escaped, ok := c.string()
		if !ok {
			return false
		}
		return c.give(n, raw, escaped)
	}
	end := strings.IndexAny(c.text, ",}] \t")
	if end <= 0 {
		return false
	}
	text := c.text[:end]
	c.text = c.text[end:]
	switch text[0] {
	case 'n', 't', 'f':
		return text == "null" || text == "true" || text == "false"
	}
	return strings.IndexByte("-0123456789", text[0]) >= 0 && c.give(n, text, false)
}

// list reads what follows a bracket; its first value counts.
func (c *scanner) list(n, depth int) bool {
	if c.blank(); c.next(']') {
		return true
	}
	for depth < mostDepth {
		c.blank()
		if !c.value(n, depth) {
			return false
		}
		n = len(c.name) + 1
		if c.blank(); c.next(']') {
			return true
		}
		if !c.next(',') {
			return false
		}
	}
	return false
}

// string reads a text in quotes, which is raw if it is escaped.
func (c *scanner) string() (text string, escaped, ok bool) {
	if !c.next('"') {
		return "", false, false
	}
	for i := 0; i < len(c.text); i++ {
		switch c.text[i] {
		case '"':
			text, c.text = c.text[:i], c.text[i+1:]
			return text, escaped, true
		case '\\':
			escaped = true
			i++
		}
	}
	return "", false, false
}

// give sets the fields of the name of n bytes, unless they are set by another name.
func (c *scanner) give(n int, text string, escaped bool) bool {
	fields := c.fields(n)
	if len(fields) == 0 {
		return true
	}
	if escaped {
		var plain string
		if json.Unmarshal([]byte(`"`+text+`"`), &plain) != nil {
			return false
		}
		text = plain
	}
	for _, f := range fields {
		if f < 0 {
			c.s.seen[-1-f] = true
			continue
		}
		if c.what = c.s.take(c.e, f, text); c.what != "" {
			c.what = string(c.name[:n]) + " is " + c.what
			return false
		}
	}
	return true
}
