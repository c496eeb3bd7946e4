package rules

import (
	"bytes"
	"encoding/json"
	"errors"
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

// text is the text being read, and how far it has been.
type text struct {
	data         []byte
	plain        []byte // without comments
	trusted      bool   // without bounds
	nodes        int
	at           int // offset of the place below
	line, column int
}

// ReadNode reads JSON of at most [MaxSize] bytes, in which // to the end of the
// line and /* so */ are comments. The error is an [*Error] with its place.
func ReadNode(data []byte) (Node, error) {
	t := &text{data: data}
	t.rewind()
	if e := t.check(); e != nil {
		return Node{}, e
	}
	d := json.NewDecoder(bytes.NewReader(t.plain))
	d.UseNumber()
	n, e := t.node(d, 0)
	if e != nil {
		return Node{}, e
	}
	return n, nil
}

// filled reads a Set from text that this package has written, of any size.
func filled(data []byte) (s Set) {
	t := &text{data: data, plain: data, trusted: true}
	t.rewind()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if n, e := t.node(d, 0); e == nil {
		if e := decode(node{"", n}, &s); e != nil {
			return Set{} // it was read before: this cannot be
		}
	}
	return s
}

func (t *text) rewind() {
	t.at, t.line, t.column = 0, 1, 1
	if bytes.HasPrefix(t.data, byteOrderMark) {
		t.at = len(byteOrderMark)
	}
}

// place moves to an offset, and returns a Node without a value there.
func (t *text) place(offset int) Node {
	if offset < t.at {
		t.rewind()
	}
	for offset = min(offset, len(t.data)); t.at < offset; {
		_, size := utf8.DecodeRune(t.data[t.at:])
		if t.data[t.at] == '\n' {
			t.line, t.column = t.line+1, 0
		}
		t.at, t.column = t.at+size, t.column+1
	}
	return Node{Line: t.line, Column: t.column}
}

// check finds what is wrong with the text as a whole.
func (t *text) check() *Error {
	if len(t.data) > MaxSize {
		return t.place(0).fail("longer than %d bytes", MaxSize)
	}
	for i := 0; i < len(t.data); {
		r, size := utf8.DecodeRune(t.data[i:])
		if r == utf8.RuneError && size == 1 {
			return t.place(i).fail("not UTF-8")
		}
		i += size
	}
	var flaw int
	if t.plain, flaw = uncomment(t.data); flaw >= 0 {
		return t.place(flaw).fail("a comment without end; close it by */")
	}
	var raw json.RawMessage // checks all of it, and that nothing follows
	if err := json.Unmarshal(t.plain, &raw); err != nil {
		var syntax *json.SyntaxError
		offset := len(t.data)
		if errors.As(err, &syntax) && !strings.Contains(err.Error(), "unexpected end") {
			offset = int(syntax.Offset) - 1
		}
		return t.place(offset).fail("not JSON: %v", err)
	}
	t.rewind()
	return nil
}

// node reads the next value.
func (t *text) node(d *json.Decoder, depth int) (n Node, e *Error) {
	n = t.place(t.next(d))
	token, err := d.Token()
	if err != nil {
		return n, n.fail("not JSON: %v", err)
	}
	t.nodes++
	switch {
	case depth > maxDepth:
		return n, n.fail("nested too deep")
	case t.nodes > maxNodes && !t.trusted:
		return n, n.fail("more than %d values", maxNodes)
	}
	switch token {
	case json.Delim('{'):
		n.Value, e = t.fields(d, depth+1)
	case json.Delim('['):
		n.Value, e = t.items(d, depth+1)
	default:
		n.Value = token
	}
	return n, e
}

// next is where the next token begins.
func (t *text) next(d *json.Decoder) int {
	offset := int(d.InputOffset())
	for offset < len(t.plain) && strings.IndexByte(" \t\r\n,:", t.plain[offset]) >= 0 {
		offset++
	}
	return offset
}

func (t *text) fields(d *json.Decoder, depth int) ([]Field, *Error) {
	list := []Field{}
	for d.More() {
		at := t.place(t.next(d))
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, at.fail("not JSON")
		}
		n, e := t.node(d, depth)
		if e != nil {
			return nil, e
		}
		list = append(list, Field{name, at.Line, at.Column, n})
	}
	return list, t.end(d)
}

func (t *text) items(d *json.Decoder, depth int) ([]Node, *Error) {
	list := []Node{}
	for d.More() {
		n, e := t.node(d, depth)
		if e != nil {
			return nil, e
		}
		list = append(list, n)
	}
	return list, t.end(d)
}

// end reads the bracket that closes a list or an object.
func (t *text) end(d *json.Decoder) *Error {
	if _, err := d.Token(); err != nil {
		return t.place(t.next(d)).fail("not JSON: %v", err)
	}
	return nil
}

// uncomment returns text of the same length with comments, // to the end of the
// line and /* to */, and a byte order mark at its beginning made blanks. flaw is
// where a comment begins that has no end, or -1. Text without any is returned as
// it is.
func uncomment(text []byte) (plain []byte, flaw int) {
	plain = text
	blank := func(from, to int) {
		if &plain[0] == &text[0] {
			plain = bytes.Clone(text)
		}
		for i := from; i < to; i++ {
			if plain[i] != '\n' && plain[i] != '\r' {
				plain[i] = ' '
			}
		}
	}
	i := 0
	if bytes.HasPrefix(text, byteOrderMark) {
		i = len(byteOrderMark)
		blank(0, i)
	}
	for i < len(text) {
		rest := text[i:]
		switch {
		case rest[0] == '"':
			i += quoted(rest)
			continue
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			blank(i, i+end)
			i += end
			continue
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return plain, i
			}
			blank(i, i+end+4)
			i += end + 4
			continue
		}
		i++
	}
	return plain, -1
}

var byteOrderMark = []byte("\ufeff")

// quoted returns the length of the JSON text that begins with a quote.
func quoted(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
