package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
)

// Bounds of a file. The parser's time and stack grow with the square of its
// nesting and of its fields, so these are bounded before it is parsed.
const (
	maxFile    = 1 << 20
	maxTokens  = 150_000 // 10,000 changes have 100,000
	maxNesting = 16
	maxFields  = 100
)

// yamlFile is a file being read. It keeps the first thing that is wrong with
// it, so that reading it needs no check at each field.
type yamlFile struct {
	path string
	err  error
}

// failAt refuses the file because of what is at a place in it.
func (y *yamlFile) failAt(line, column int, format string, a ...any) {
	if y.err == nil {
		what := fmt.Sprintf(format, a...)
		y.err = usage.Error(words.OneLine(fmt.Sprintf("%s:%d:%d: %s", y.path, line, column, what)))
	}
}

func (y *yamlFile) failToken(t *token.Token, format string, a ...any) {
	line, column := 1, 1
	if t != nil && t.Position != nil {
		line, column = max(t.Position.Line, 1), max(t.Position.Column, 1)
	}
	y.failAt(line, column, format, a...)
}

func (y *yamlFile) fail(n ast.Node, format string, a ...any) {
	y.failToken(startOf(n), format, a...)
}

// startOf is the first token of a node. That of a mapping in block style is,
// for the parser, its first colon.
func startOf(n ast.Node) *token.Token {
	switch n := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return n.GetToken()
}

// parse reads the one document of a file. After an error it returns nil.
func (y *yamlFile) parse(data []byte) ast.Node {
	if len(data) > maxFile {
		y.failAt(1, 1, "longer than 1 MiB; a scenario is a few lines")
		return nil
	}
	data = tree.Undirected(bytes.TrimPrefix(data, []byte("\ufeff")))
	if !y.readable(data) {
		return nil
	}
	// The lexer counts a CR LF behind a comment as two lines.
	tokens := lexer.Tokenize(strings.ReplaceAll(string(data), "\r\n", "\n"))
	if y.guard(tokens); y.err != nil {
		return nil
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) {
			y.failToken(at.GetToken(), "%s", advised(at.GetMessage()))
		}
		y.failAt(1, 1, "not YAML: %v", err)
		return nil
	}
	return y.only(file)
}

// advised is what the parser says, and what would be right.
func advised(says string) string {
	switch {
	case strings.Contains(says, "'\t'"):
		return "begins with a tab; indent by spaces"
	case strings.Contains(says, "already defined"):
		return says + "; write it once"
	}
	return says + "; see the example in 'throttle sim -h'"
}

// only is the body of the only document.
func (y *yamlFile) only(file *ast.File) ast.Node {
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType && d.Body.Type() != ast.NullType {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		y.failAt(1, 1, "empty; a scenario needs at least a server and clients")
		return nil
	case 1:
		return bodies[0]
	}
	y.fail(bodies[1], "a second document; write one scenario a file")
	return nil
}

// readable reports whether data is text.
func (y *yamlFile) readable(data []byte) bool {
	line, column := 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			y.failAt(line, column, "not UTF-8; save the file as UTF-8")
			return false
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\t' && r != '\r':
			y.failAt(line, column, "control character %q; write plain text", r)
			return false
		}
		data, column = data[size:], column+1
	}
	return true
}

// guard refuses what a scenario does not need and what would cost the parser
// too much.
func (y *yamlFile) guard(tokens token.Tokens) {
	flow, dashes, colons, line := 0, 0, 0, 0
	for _, t := range tokens[:min(len(tokens), maxTokens)] {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType, token.MappingKeyType:
			y.failToken(t, "%q: anchors, aliases, tags, directives and complex keys are not read; write plain values", t.Value)
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
			y.failToken(t, "more than %d fields in a row; a scenario has fewer than 40", maxFields)
			return
		}
		if flow > maxNesting || dashes > maxNesting {
			y.failToken(t, "nested more than %d deep; a scenario needs 4", maxNesting)
			return
		}
	}
	if len(tokens) > maxTokens {
		y.failToken(tokens[maxTokens], "more than %d words and signs; a scenario is a few lines", maxTokens)
	}
}

// fields are the fields of a mapping.
type fields struct {
	y    *yamlFile
	node ast.Node
	list []field
}

// field is one of them. If it is absent its node is nil.
type field struct {
	y    *yamlFile
	name string
	key  ast.Node
	node ast.Node
}

// mapping reads n, which is called what, as a mapping. If known is empty every
// field is taken.
func (y *yamlFile) mapping(n ast.Node, what string, known ...string) fields {
	f := fields{y: y, node: n}
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		right := "its fields: " + strings.Join(known, ", ")
		if len(known) == 0 {
			right = "{NAME: VALUE}, or leave it out"
		}
		y.fail(n, "%s: %s; write %s", what, show(n), right)
	}
	for _, v := range values {
		name := v.Key.GetToken().Value
		if len(known) > 0 && !slices.Contains(known, name) {
			y.fail(v.Key, "%s: field %s is not known; %s", what, words.Quote(name), words.Meant(name, known))
		}
		if f.get(name).node != nil {
			y.fail(v.Key, "%s: field %s occurs twice; write it once", what, words.Quote(name))
		}
		f.list = append(f.list, field{y, name, v.Key, v.Value})
	}
	return f
}

func (f fields) get(name string) field {
	for _, x := range f.list {
		if x.name == name {
			return x
		}
	}
	return field{y: f.y, name: name}
}

func (f field) present() bool { return f.node != nil }

// fail refuses the value of the field.
func (f field) fail(format string, a ...any) {
	f.y.fail(f.node, "%s %s: "+format, append([]any{f.name, show(f.node)}, a...)...)
}

// scalar is the text of a value that is not a list or mapping.
func (f field) scalar() (string, bool) {
	switch n := f.node.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// duration is the field as a duration from least to most, or zero if absent.
func (f field) duration(least, most time.Duration) time.Duration {
	if !f.present() {
		return 0
	}
	text, _ := f.scalar()
	d, ok := words.Duration(text)
	switch {
	case !ok:
		f.fail("is not a duration; write a number with a unit of ms, s, m or h, as in 500ms or 30m")
	case d < least || d > most:
		f.fail("must be from %s to %s", words.Short(least), words.Short(most))
	}
	return d
}

// integer is the field as a whole number from least to most, or zero if absent.
func (f field) integer(least, most int64) int64 {
	if !f.present() {
		return 0
	}
	text, _ := f.scalar()
	n, err := strconv.ParseInt(text, 10, 64)
	if f.node.Type() != ast.IntegerType || err != nil || strconv.FormatInt(n, 10) != text || n < least || n > most {
		f.fail("must be a whole number from %d to %d", least, most)
	}
	return n
}

// share is the field as a number of at least 0 and below 1, or zero if absent.
func (f field) share() float64 {
	if !f.present() {
		return 0
	}
	text, _ := f.scalar()
	x, err := strconv.ParseFloat(text, 64)
	if t := f.node.Type(); t != ast.IntegerType && t != ast.FloatType || err != nil || !(x >= 0 && x < 1) {
		f.fail("must be a number of at least 0 and below 1, as in 0.01")
	}
	return x
}

// number is the field as a number from least to most, or zero if absent.
func (f field) number(least, most float64) float64 {
	if !f.present() {
		return 0
	}
	text, _ := f.scalar()
	x, err := strconv.ParseFloat(text, 64)
	if t := f.node.Type(); t != ast.IntegerType && t != ast.FloatType || err != nil || !(x >= least && x <= most) {
		f.fail("must be a number from %v to %v", least, most)
	}
	return x
}

// choice is the index of the field among words, the first if absent.
func (f field) choice(known ...string) int {
	if !f.present() {
		return 0
	}
	text, _ := f.scalar()
	i := slices.Index(known, text)
	if i < 0 {
		f.fail("must be one of %s", strings.Join(known, ", "))
	}
	return max(i, 0)
}

// yes is the field as true or false, or false if absent.
func (f field) yes() bool {
	if !f.present() {
		return false
	}
	b, ok := f.node.(*ast.BoolNode)
	if !ok {
		f.fail("must be true or false")
		return false
	}
	return b.Value
}

// rate is the field as a rate.
func (f field) rate() (count int64, period time.Duration) {
	text, ok := f.scalar()
	count, period, err := limit.ParseRate(text)
	switch {
	case !ok:
		f.fail("is not a rate; write COUNT/[N]UNIT, as in 4/s or 100/10s")
	case err != nil:
		f.y.fail(f.node, "%s", strings.TrimPrefix(err.Error(), "limit: "))
	case count > maxCount || period > maxTime:
		f.fail("must be at most %d, a period of at most %s", maxCount, words.Short(maxTime))
	}
	return count, period
}

// sequence is the items of a list, which may look like example.
func (f field) sequence(most int, example string) []ast.Node {
	if !f.present() {
		return nil
	}
	list, ok := f.node.(*ast.SequenceNode)
	switch {
	case !ok:
		f.fail("must be a list, as in %s", example)
		return nil
	case len(list.Values) > most:
		f.y.fail(list.Values[most], "%s: more than %d of them", f.name, most)
	}
	return list.Values
}

// show is a node's text, short enough for a line.
func show(n ast.Node) string {
	switch n := n.(type) {
	case nil:
		return "nothing"
	case *ast.NullNode:
		return "empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "(a mapping)"
	case *ast.SequenceNode:
		if len(n.Values) == 0 {
			return "(an empty list)"
		}
		return "(a list)"
	case *ast.LiteralNode:
		return words.Quote(n.Value.Value)
	}
	t := n.GetToken()
	if text := words.Quote(t.Value); t.Type != token.SingleQuoteType && t.Type != token.DoubleQuoteType || text != t.Value {
		return text
	}
	return strconv.Quote(t.Value) // '8' is no number
}
