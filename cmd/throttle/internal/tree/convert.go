package tree

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// startOf is the first token of a node. That of a mapping in block style is, for
// the parser, its first colon.
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

// node converts a node of the parser. After an error it returns an empty one.
func (r *reading) node(from ast.Node) *Node {
	line, column := placeOf(startOf(from))
	n := &Node{Line: line, Column: column, size: 1}
	r.nodes++
	if r.err != nil {
		return n
	}
	switch from := from.(type) {
	case nil, *ast.NullNode:
	case *ast.BoolNode:
		n.Kind, n.Text = Bool, from.String()
		n.Text = from.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.Kind, n.Text = Number, from.GetToken().Value
	case *ast.StringNode:
		n.Kind, n.Text = Text, from.Value
	case *ast.LiteralNode:
		n.Kind, n.Text = Text, from.Value.Value
	case *ast.MappingNode:
		r.fields(n, from.Values)
	case *ast.MappingValueNode:
		r.fields(n, []*ast.MappingValueNode{from})
	case *ast.SequenceNode:
		r.items(n, from.Values)
	case *ast.AnchorNode:
		return r.anchor(from)
	case *ast.AliasNode:
		return r.alias(from)
	default:
		r.fail(line, column, "%s: not a value that is read here", words.Quote(from.GetToken().Value))
	}
	return n
}

// anchor keeps what an anchor names. It is known only after its end, so that no
// alias can be inside what it stands for.
func (r *reading) anchor(from *ast.AnchorNode) *Node {
	n := r.node(from.Value)
	r.anchors[from.Name.GetToken().Value] = n
	return n
}

// alias is what an alias stands for: not a copy, but counted as one.
func (r *reading) alias(from *ast.AliasNode) *Node {
	name := from.Value.GetToken().Value
	n := r.anchors[name]
	if n == nil {
		r.failToken(from.GetToken(), "alias %s: no such anchor before it", words.Quote("*"+name))
		return &Node{}
	}
	if r.nodes += n.size; r.nodes > maxNodes {
		r.failToken(from.GetToken(), "alias %s: more than %d values with it", words.Quote("*"+name), maxNodes)
		return &Node{}
	}
	return n
}

func (r *reading) items(n *Node, values []ast.Node) {
	n.Kind = List
	for _, v := range values {
		item := r.node(v)
		n.size += item.size
		n.Items = append(n.Items, item)
	}
	r.bound(n)
}

func (r *reading) fields(n *Node, values []*ast.MappingValueNode) {
	n.Kind = Map
	seen := map[string]*token.Token{}
	for _, v := range values {
		key := v.Key.GetToken()
		line, column := placeOf(key)
		if before := seen[key.Value]; before != nil {
			r.fail(line, column, "%s occurs twice, first in line %d", words.Quote(key.Value), before.Position.Line)
		}
		seen[key.Value] = key
		value := r.node(v.Value)
		n.size += value.size
		n.Fields = append(n.Fields, Field{line, column, key.Value, value})
	}
	r.bound(n)
}

func (r *reading) bound(n *Node) {
	if n.size > maxNodes || r.nodes > maxNodes {
		r.fail(n.Line, n.Column, "more than %d values", maxNodes)
	}
}
