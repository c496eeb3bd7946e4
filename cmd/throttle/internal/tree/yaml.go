package tree

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. The parser's time and stack grow with the square of its
// nesting and of its fields, so these are bounded before it is parsed.
const (
	// MaxSize bounds the bytes of a file.
	MaxSize    = 1 << 20
	maxTokens  = 200_000
	maxNodes   = 100_000 // with those of aliases counted each time
	maxNesting = 16
	maxFields  = 500 // of a mapping with no list in it
)

// reading is one file being read. It keeps the first thing that is wrong with it.
type reading struct {
	name    string
	err     *Error
	anchors map[string]*Node
	nodes   int
}

func (r *reading) fail(line, column int, format string, a ...any) {
	if r.err == nil {
		r.err = &Error{r.name, line, column, fmt.Sprintf(format, a...)}
	}
}

func (r *reading) failToken(t *token.Token, format string, a ...any) {
	line, column := placeOf(t)
	r.fail(line, column, format, a...)
}

func placeOf(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return max(t.Position.Line, 1), max(t.Position.Column, 1)
}

// Parse reads the one document of a file, which name is for errors, as YAML or
// JSON. Files above MaxSize are refused, and so are tags, merge keys, and what
// costs too much. Anchors and aliases are taken, within 100,000 nodes. The error
// is an *Error.
func Parse(name string, data []byte) (*Node, error) {
	r := &reading{name: name, anchors: map[string]*Node{}}
	n := r.parse(data)
	if r.err != nil {
		return nil, r.err
	}
	return n, nil
}

func (r *reading) parse(data []byte) *Node {
	if len(data) > MaxSize {
		r.fail(1, 1, "longer than 1 MiB")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if r.readable(data); r.err != nil {
		return nil
	}
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" ")) // the lexer takes no tabs, not even in JSON
	}
	tokens := lexer.Tokenize(string(data))
	if r.guard(tokens); r.err != nil {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(data, err)
		return nil
	}
	return r.only(file)
}

// syntax says what the parser says.
func (r *reading) syntax(data []byte, err error) {
	var at yaml.Error
	if !errors.As(err, &at) {
		r.fail(1, 1, "not YAML: %v", err)
		return
	}
	line, column := placeOf(at.GetToken())
	hint := ""
	if bytes.Contains(lineOf(data, line), []byte("${")) {
		hint = `; inside { } and [ ] write "${NAME}" in quotes`
	}
	r.fail(line, column, "not YAML: %s%s", at.GetMessage(), hint)
}

// lineOf is a line of data, from 1.
func lineOf(data []byte, line int) []byte {
	for ; line > 1; line-- {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	return first
}

// only is the only document.
func (r *reading) only(file *ast.File) *Node {
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType && d.Body.Type() != ast.NullType {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		r.fail(1, 1, "empty")
		return nil
	case 1:
		return r.node(bodies[0])
	}
	r.failToken(startOf(bodies[1]), "a second document; write one a file")
	return nil
}

// readable refuses what is not text.
func (r *reading) readable(data []byte) {
	line, column := 1, 1
	for len(data) > 0 {
		c, size := utf8.DecodeRune(data)
		switch {
		case c == utf8.RuneError && size == 1:
			r.fail(line, column, "not UTF-8; save the file as UTF-8")
			return
		case c == '\n':
			line, column = line+1, 0
		case c < ' ' && c != '\t' && c != '\r':
			r.fail(line, column, "control character %q; write plain text", c)
			return
		}
		data, column = data[size:], column+1
	}
}

// guard refuses what no file needs and what would cost the parser too much.
func (r *reading) guard(tokens token.Tokens) {
	flow, dashes, colons, line := 0, 0, 0, 0
	for _, t := range tokens[:min(len(tokens), maxTokens)] {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.MergeKeyType, token.TagType, token.DirectiveType, token.MappingKeyType:
			r.failToken(t, "%q: tags, directives, merge keys and complex keys are not read; write plain values", t.Value)
		case token.SequenceStartType, token.MappingStartType:
			flow, colons = flow+1, 0
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType:
			dashes, colons = dashes+1, 0
		case token.MappingValueType:
			colons++
		}
		if colons > maxFields {
			r.failToken(t, "more than %d fields in a row", maxFields)
			return
		}
		if flow > maxNesting || dashes > maxNesting || t.Position.IndentNum > 16*maxNesting {
			r.failToken(t, "nested more than %d deep", maxNesting)
			return
		}
	}
	if len(tokens) > maxTokens {
		r.failToken(tokens[maxTokens], "more than %d words and signs", maxTokens)
	}
}
