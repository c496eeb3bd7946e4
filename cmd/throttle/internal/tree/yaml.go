package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/throttle-go/throttle/rules"
)

// Bounds of a file.
const (
	// MaxSize bounds the bytes of a file.
	MaxSize    = 1 << 20
	maxNodes   = 100_000 // with those of aliases counted each time
	maxNesting = 16
	maxSigns   = 250_000 // of commas and lines, before it is parsed: that takes 10 µs for each
)

// What is wrong with a file of which nothing is left but comments.
const (
	// Empty is the What of a file of serve, for readers of others to replace.
	Empty      = "empty; write version: 1 and a section, such as gateway:"
	emptyRules = "empty; write rules, as in rules: [{name: all, limits: 10/s}]"
)

// reading is one file being read. It keeps the first thing that is wrong with it.
type reading struct {
	name  string
	err   *Error
	done  map[*yaml.Node]*Node // nil while it is being converted
	nodes int
}

func (r *reading) fail(line, column int, format string, a ...any) {
	if r.err == nil {
		r.err = &Error{r.name, max(line, 1), max(column, 1), fmt.Sprintf(format, a...)}
	}
}

// Parse reads the one document of a file, whose name is for errors, as YAML or JSON.
// Files above MaxSize are refused, and so are tags and merge keys. Anchors and
// aliases are taken, within 100,000 values. The error is an *Error.
func Parse(name string, data []byte) (*Node, error) {
	r := &reading{name: name, done: map[*yaml.Node]*Node{}}
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
	data = Undirected(bytes.TrimPrefix(data, []byte("\ufeff")))
	if r.readable(data); r.err != nil {
		return nil
	}
	if n := bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("\n")); n > maxSigns {
		r.fail(1, 1, "%d commas and lines; at most %d", n, maxSigns)
		return nil
	}
	n, err := r.json(data)
	if n != nil || r.err != nil {
		return n
	}
	n = r.yaml(data)
	if err != nil && (r.err != nil || n.commented()) { // it looks like JSON
		r.err = &Error{r.name, err.Line, err.Column, err.What}
	}
	return n
}

// directive is a %YAML of a version 1 before all else but comments.
var directive = regexp.MustCompile(`^(?:[ \t]*(?:#[^\n]*)?\r?\n)*%YAML[ \t]+1\.[0-9]+[ \t]*(?:#[^\n]*)?\r?\n`)

// Undirected returns data with the %YAML directive of a version 1, such as %YAML 1.2,
// made a comment: programs read the same in all of them, and the parsers take few.
func Undirected(data []byte) []byte {
	head := directive.Find(data)
	if head == nil {
		return data
	}
	at := bytes.Index(head, []byte("\n%")) + 1 // 0 in the first line
	data = bytes.Clone(data)
	data[at] = '#'
	return data
}

// commented reports whether a name begins with a comment of JSON, which YAML takes for
// a part of the name.
func (n *Node) commented() bool {
	for _, item := range n.Items {
		if item.commented() {
			return true
		}
	}
	for _, f := range n.Fields {
		if strings.HasPrefix(f.Name, "//") || strings.HasPrefix(f.Name, "/*") || f.Value.commented() {
			return true
		}
	}
	return false
}

// json reads what begins with { as JSON: YAML has not all of its escapes. What is not
// JSON may be YAML all the same; flaw says why it is not, if it looks like JSON.
func (r *reading) json(data []byte) (n *Node, flaw *rules.Error) {
	rest := bytes.TrimLeft(data, " \t\r\n")
	if len(rest) == 0 || rest[0] != '{' {
		return nil, nil
	}
	root, err := rules.ReadNode(data)
	if err == nil {
		return ofRules(root), nil
	}
	if rest = bytes.TrimLeft(rest[1:], " \t\r\n"); len(rest) > 0 && bytes.IndexByte([]byte(`"}/`), rest[0]) >= 0 {
		errors.As(err, &flaw)
	}
	return nil, flaw
}

// yaml reads the only document.
func (r *reading) yaml(data []byte) *Node {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		r.syntax(data, err)
		return nil
	}
	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case errors.Is(err, io.EOF):
		r.fail(1, 1, Empty)
		return nil
	case err != nil:
		r.syntax(data, err)
		return nil
	}
	switch err := loader.Load(&second); {
	case err == nil:
		r.fail(second.Line, second.Column, "a second document; write one a file")
	case !errors.Is(err, io.EOF):
		r.syntax(data, err)
	}
	n := r.node(&first, 0)
	if n.Kind == Null {
		r.fail(1, 1, Empty)
	}
	return n
}

// syntax says what the parser says.
func (r *reading) syntax(data []byte, err error) {
	at := (*yaml.LoadError)(nil)
	if !errors.As(err, &at) {
		r.fail(1, 1, "not YAML: %v", err)
		return
	}
	r.fail(at.Mark.Line, at.Mark.Column, "not YAML: %s%s", at.Message, hint(lineOf(data, at.Mark.Line), at))
}

// hint says what would be right, for the mistakes that people make: the parser says
// only what it did not find.
func hint(line []byte, at *yaml.LoadError) string {
	rest := bytes.TrimLeft(line[min(len(line), max(0, at.Mark.Column-2)):], " :,[{")
	switch {
	case bytes.Contains(line, []byte("${")):
		return `; inside { } and [ ] write "${NAME}" in quotes`
	case bytes.HasPrefix(rest, []byte("\t")):
		return "; indent with spaces, not with a tab"
	case strings.HasPrefix(at.Message, "unknown anchor"), len(rest) > 0 && bytes.IndexByte([]byte("*&@`%"), rest[0]) >= 0:
		return "; write text that begins with one of * & @ ` % in quotes"
	case strings.HasPrefix(at.Message, "mapping values are not allowed"):
		return `; indent fields of one object alike, and write text with ": " in quotes`
	case strings.HasPrefix(at.Message, "did not find expected '-' indicator"), strings.HasPrefix(at.Message, "did not find expected key"):
		return "; indent the items of one list, and the fields of one object, alike"
	}
	return ""
}

// lineOf is a line of data, from 1.
func lineOf(data []byte, line int) []byte {
	for ; line > 1; line-- {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	return first
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
		case c < ' ' && c != '\t' && c != '\r' || c == 0x7f:
			r.fail(line, column, "control character %q; write plain text", c)
			return
		}
		data, column = data[size:], column+1
	}
}
