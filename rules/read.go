package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a file.
const (
	// MaxSize bounds the bytes of a file of rules.
	MaxSize = 1 << 20
	// maxDepth is how deep its lists and objects may be nested.
	maxDepth = 8
	// maxNodes is how many values it may have, as each takes much more memory
	// than its text.
	maxNodes = 100_000
)

// A node is a JSON value that knows where it is.
type node struct {
	path   string
	offset int
	value  any // string, json.Number, bool, nil, []node or []field
}

type field struct {
	name   string
	offset int
	node   node
}

// text is the text being read, and where in it each path is.
type text struct {
	data   []byte
	plain  []byte         // without comments
	places map[string]int // path to offset
}

// readSet reads a Set. What it says is not checked yet.
func readSet(data []byte) (s Set, t *text, err error) {
	t = &text{data: data, places: map[string]int{}}
	top, err := t.tree()
	if err != nil {
		return Set{}, t, err
	}
	if fields, ok := top.value.([]field); ok && !has(fields, "rules") {
		return Set{}, t, t.at("", &Error{What: `no "rules"; to limit no request, write "rules": []`})
	}
	if e := decode(top, &s); e != nil {
		return Set{}, t, t.at(e.Path, e)
	}
	return s, t, nil
}

func has(fields []field, name string) bool {
	for _, f := range fields {
		if f.name == name {
			return true
		}
	}
	return false
}

// at fills in where a path is in the text: it, or the nearest that holds it.
func (t *text) at(path string, e *Error) *Error {
	offset, found := t.places[""], ""
	for path != "" && e.name == 0 {
		end := strings.IndexAny(path[1:], ".[") + 1
		if end == 0 {
			end = len(path)
		}
		if o, ok := t.places[found+path[:end]]; ok {
			offset, found = o, found+path[:end]
		} else if path[:end] != "[0]" { // the one of a list may stand there alone
			break
		}
		path = path[end:]
	}
	e.Line, e.Column = t.position(max(offset, e.name))
	return e
}

// position is the line and column of an offset.
func (t *text) position(offset int) (line, column int) {
	before := t.data[:min(max(offset, 0), len(t.data))]
	line = bytes.Count(before, []byte("\n")) + 1
	start := bytes.LastIndexByte(before, '\n') + 1
	return line, utf8.RuneCount(bytes.TrimPrefix(before[start:], byteOrderMark)) + 1
}

// fail is an error at an offset.
func (t *text) fail(offset int, format string, a ...any) *Error {
	e := &Error{What: fmt.Sprintf(format, a...)}
	e.Line, e.Column = t.position(offset)
	return e
}

// tree is the text as nodes. Its errors are *Error.
func (t *text) tree() (node, error) {
	if len(t.data) > MaxSize {
		return node{}, t.fail(0, "longer than %d bytes", MaxSize)
	}
	for i := 0; i < len(t.data); {
		r, size := utf8.DecodeRune(t.data[i:])
		if r == utf8.RuneError && size == 1 {
			return node{}, t.fail(i, "not UTF-8")
		}
		i += size
	}
	var flaw int
	if t.plain, flaw = uncomment(t.data); flaw >= 0 {
		return node{}, t.fail(flaw, "a comment without end; close it by */")
	}
	var raw json.RawMessage // checks all of it, and that nothing follows
	if err := json.Unmarshal(t.plain, &raw); err != nil {
		var syntax *json.SyntaxError
		offset := len(t.data)
		if errors.As(err, &syntax) && !strings.Contains(err.Error(), "unexpected end") {
			offset = int(syntax.Offset) - 1
		}
		return node{}, t.fail(offset, "not JSON: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(t.plain))
	d.UseNumber()
	return t.node(d, "", 0)
}

// node reads the next value.
func (t *text) node(d *json.Decoder, path string, depth int) (node, error) {
	offset := t.next(d)
	n := node{path: path, offset: offset}
	t.places[path] = offset
	token, err := d.Token()
	if err != nil {
		return n, t.fail(offset, "not JSON: %v", err)
	}
	switch {
	case depth > maxDepth:
		return n, t.fail(offset, "nested too deep")
	case len(t.places) > maxNodes:
		return n, t.fail(offset, "more than %d values", maxNodes)
	}
	switch token {
	case json.Delim('{'):
		n.value, err = t.fields(d, path, depth+1)
	case json.Delim('['):
		n.value, err = t.items(d, path, depth+1)
	default:
		n.value = token
	}
	return n, err
}

// next is where the next token begins.
func (t *text) next(d *json.Decoder) int {
	offset := int(d.InputOffset())
	for offset < len(t.plain) && strings.IndexByte(" \t\r\n,:", t.plain[offset]) >= 0 {
		offset++
	}
	return offset
}

func (t *text) fields(d *json.Decoder, path string, depth int) ([]field, error) {
	list := []field{}
	seen := map[string]bool{}
	for d.More() {
		offset := t.next(d)
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, t.fail(offset, "not JSON")
		}
		if seen[name] {
			return nil, t.fail(offset, "%.40q occurs twice", name)
		}
		seen[name] = true
		n, err := t.node(d, join(path, name), depth)
		if err != nil {
			return nil, err
		}
		list = append(list, field{name, offset, n})
	}
	_, err := d.Token()
	return list, err
}

// join is the path of a field. Long names are clipped, as a path is for people.
func join(path, name string) string {
	if len(name) > maxText {
		name = name[:maxText]
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func (t *text) items(d *json.Decoder, path string, depth int) ([]node, error) {
	list := []node{}
	for d.More() {
		n, err := t.node(d, path+"["+strconv.Itoa(len(list))+"]", depth)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	_, err := d.Token()
	return list, err
}
