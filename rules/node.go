package rules

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Node is a value of a configuration file, with its place. A reader of YAML, TOML
// or the like hands over a tree of them, so that every format has the same fields
// and the same errors. [ReadNode] reads JSON.
type Node struct {
	// Value is a string, a json.Number, a bool, nil, a []Node (a list) or a
	// []Field (an object).
	Value any
	// Line and Column are where it begins, from 1; a column is a character. If
	// zero, the place is unknown.
	Line, Column int
}

// Field is one field of an object.
type Field struct {
	// Name is its name.
	Name string
	// Line and Column are where the name begins, as in a Node.
	Line, Column int
	// Node is its value.
	Node Node
}

// Parse reads and checks a Set in JSON of at most [MaxSize] bytes. known are the
// names that [Request.Value] and [Request.Cost] understand; others are refused.
// The error is an [*Error] with the place of the first thing that is wrong.
func Parse(data []byte, known ...string) (*Compiled, error) {
	root, err := ReadNode(data)
	if err != nil {
		return nil, err
	}
	return ParseNode(root, known...)
}

// ParseNode reads and checks a Set from a tree, as [Parse] does from text. A tree
// has at most 100,000 values and is at most 8 deep.
func ParseNode(root Node, known ...string) (*Compiled, error) {
	var s Set
	if err := root.Decode(&s); err != nil {
		return nil, err
	}
	c, e := compile(s, known)
	if e != nil {
		return nil, root.place(e)
	}
	return c, nil
}

// Decode reads n into what a pointer points at: by the names in the json tags of
// its structs, and nothing else. What they do not name is refused, as are null,
// names that occur twice, and what has another type; a single value will do for
// a list. A time.Duration is text, as in "1m30s"; types with UnmarshalText read
// text; a Node keeps its part of the tree. The error is an [*Error] with the
// place of the first thing that is wrong. A tree has at most 100,000 values and
// is at most 8 deep.
func (n Node) Decode(into any) error {
	most := maxNodes
	if e := n.check(0, &most); e != nil {
		return e
	}
	if e := decode(node{"", n}, into); e != nil {
		return n.place(e)
	}
	return nil
}

// Fail returns an error about the value at a path, as in "routes[2].to", for a
// mistake that a program finds after Decode. Its What is the text, which should
// state the mistake and a correct form.
// If there is no such value, the place is that of the nearest that would hold it.
func (n Node) Fail(path, what string) error {
	return n.place(&Error{Path: path, What: what})
}

// place fills in where the path of an error is: it, or the nearest that holds it.
func (n Node) place(e *Error) *Error {
	if e.Line == 0 {
		at := n.nearest(e.Path)
		e.Line, e.Column = at.Line, at.Column
	}
	return e
}

// nearest returns the value at a path, or the nearest that would hold it.
func (n Node) nearest(path string) Node {
	for path != "" {
		step, rest := path, ""
		if i := strings.IndexAny(path[1:], ".["); i >= 0 {
			step, rest = path[:i+1], path[i+1:]
		}
		next, ok := n.child(step)
		if !ok && step == "[0]" {
			next, ok = n, true // the one of a list may stand there alone
		}
		if !ok {
			next, rest, ok = n.longest(path)
		}
		if !ok {
			return n
		}
		n, path = next, rest
	}
	return n
}

// child returns the value that one step, "name", ".name" or "[2]", leads to.
func (n Node) child(step string) (Node, bool) {
	switch list := n.Value.(type) {
	case []Node:
		for i := range list {
			if item("", i) == step {
				return list[i], true
			}
		}
	case []Field:
		for i := range list {
			if clip(list[i].Name, maxText) == strings.TrimPrefix(step, ".") {
				return list[i].Node, true
			}
		}
	}
	return Node{}, false
}

// longest returns the field whose name, dots and brackets included, the path
// begins with.
func (n Node) longest(path string) (next Node, rest string, ok bool) {
	fields, _ := n.Value.([]Field)
	path = strings.TrimPrefix(path, ".")
	for _, f := range fields {
		if after, found := strings.CutPrefix(path, clip(f.Name, maxText)); found && (!ok || len(after) < len(rest)) {
			next, rest, ok = f.Node, after, true
		}
	}
	return next, rest, ok
}

func (n Node) fail(format string, a ...any) *Error {
	return &Error{Line: n.Line, Column: n.Column, What: fmt.Sprintf(format, a...)}
}

// check checks what a reader may get wrong: the bounds of a tree, its types, and
// names that occur twice. most is how many values there may still be.
func (n Node) check(depth int, most *int) *Error {
	*most--
	switch {
	case depth > maxDepth:
		return n.fail("nested too deep")
	case *most < 0:
		return n.fail("more than %d values", maxNodes)
	}
	switch v := n.Value.(type) {
	case nil, string, bool, json.Number:
	case []Node:
		for _, one := range v {
			if e := one.check(depth+1, most); e != nil {
				return e
			}
		}
	case []Field:
		return checkFields(v, depth+1, most)
	default:
		return n.fail("a %T is no value of a file; a program's reader handed it over", v)
	}
	return nil
}

func checkFields(fields []Field, depth int, most *int) *Error {
	seen := make(map[string]bool, len(fields))
	for _, f := range fields {
		if seen[f.Name] {
			return &Error{Line: f.Line, Column: f.Column, What: fmt.Sprintf("%.40q occurs twice", f.Name)}
		}
		seen[f.Name] = true
		if e := f.Node.check(depth, most); e != nil {
			return e
		}
	}
	return nil
}

// Error says what is wrong with a Set, in one line.
type Error struct {
	// Path is the place in the Set, as in "rules[2].limits[0]"; empty for the
	// whole.
	Path string
	// Line and Column are the place in the text, from 1; a column is a
	// character. Zero if the Set was not read from text, or its [Node] has no
	// place.
	Line, Column int
	// What states the mistake, and a correct form.
	What string
}

// Error returns the text "rules: LINE:COLUMN: PATH: " and What.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("rules: ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", e.Line, e.Column)
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.What)
	return oneLine(b.String())
}

// oneLine returns text without line breaks.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '\u007f' || r == '\u2028' || r == '\u2029' || r == '\u0085' {
			return ' '
		}
		return r
	}, text)
}
