// Package tree reads YAML and JSON as a tree of nodes that know their line and
// column, within bounds.
package tree

import (
	"fmt"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// A Kind is the kind of value that a Node is.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Map
)

// A Node is a value of a file.
type Node struct {
	Line, Column int // from 1; a column is a character
	Kind         Kind
	// Text is the text of a scalar: without quotes and escapes. That of a Bool is
	// true or false.
	Text string
	// Quoted means that a Text stands in quotes or is a block: a plain yes is true to
	// readers of YAML 1.1.
	Quoted bool
	Items  []*Node // of a List
	Fields []Field // of a Map, in the order of the file; no name occurs twice
	// Secret means that Text must not be shown: Raw may be.
	Secret bool
	// Raw is the text of the file, if Text has replaced it.
	Raw string

	size int // how many nodes it is, those of aliases included
}

// A Field is a field of a Map.
type Field struct {
	Line, Column int
	Name         string
	Value        *Node
}

// Get returns the value of a field of a Map, nil if it is absent.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			return n.Fields[i].Value
		}
	}
	return nil
}

// Show returns a node for an error, short enough for a line. What replaced the
// text of the file is not shown.
func (n *Node) Show() string {
	switch {
	case n.Kind == Null:
		return "empty"
	case n.Kind == Map:
		return "(a mapping)"
	case n.Kind == List:
		return "(a list)"
	case n.Raw != "":
		return words.Quote(n.Raw)
	}
	return words.Quote(n.Text)
}

// An Error is one mistake in a file, with its place.
type Error struct {
	// File is the name of the file.
	File string
	// Line and Column are from 1. Zero if it is the file as a whole.
	Line, Column int
	// What states the mistake, and a correct form.
	What string
}

// Error returns the text FILE:LINE:COLUMN: and What.
func (e *Error) Error() string {
	if e.Line == 0 {
		return words.OneLine(e.File + ": " + e.What)
	}
	return words.OneLine(fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.What))
}
