package tree

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// node converts a node of the parser. After an error it returns an empty one.
func (r *reading) node(from *yaml.Node, depth int) *Node {
	n := &Node{Line: from.Line, Column: from.Column, size: 1}
	r.nodes++
	switch {
	case r.err != nil:
		return n
	case depth > maxNesting:
		r.fail(from.Line, from.Column, "nested more than %d deep", maxNesting)
		return n
	case r.nodes > maxNodes:
		r.fail(from.Line, from.Column, "more than %d values", maxNodes)
		return n
	case from.Style&yaml.TaggedStyle != 0:
		r.fail(from.Line, from.Column, "%s: tags are not read; write a plain value", words.Quote(from.ShortTag()))
		return n
	}
	if from.Anchor != "" {
		r.done[from] = nil
	}
	switch from.Kind {
	case yaml.DocumentNode:
		if len(from.Content) > 0 {
			return r.node(from.Content[0], depth)
		}
	case yaml.SequenceNode:
		r.items(n, from.Content, depth)
	case yaml.MappingNode:
		r.fields(n, from.Content, depth)
	case yaml.AliasNode:
		return r.alias(from)
	default:
		n.scalar(from)
	}
	if from.Anchor != "" {
		r.done[from] = n
	}
	return n
}

// scalar reads a value that is neither a list nor a mapping.
func (n *Node) scalar(from *yaml.Node) {
	switch from.ShortTag() {
	case "!!null":
		return
	case "!!bool":
		n.Kind = Bool
	case "!!int", "!!float":
		n.Kind = Number
	default: // times too
		n.Kind, n.Quoted = Text, from.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	}
	n.Text = from.Value
	if n.Kind == Bool {
		n.Text = strings.ToLower(n.Text) // True and TRUE are true too
	}
}

// alias is what an alias stands for: not a copy, but counted as one. In what it
// stands for, it has no end.
func (r *reading) alias(from *yaml.Node) *Node {
	n := r.done[from.Alias]
	name := words.Quote("*" + from.Value)
	if n == nil {
		r.fail(from.Line, from.Column, "alias %s: inside what it stands for", name)
		return &Node{}
	}
	if r.nodes += n.size; r.nodes > maxNodes {
		r.fail(from.Line, from.Column, "alias %s: more than %d values with it", name, maxNodes)
		return &Node{}
	}
	return n
}

func (r *reading) items(n *Node, content []*yaml.Node, depth int) {
	n.Kind = List
	for _, c := range content {
		item := r.node(c, depth+1)
		n.size += item.size
		n.Items = append(n.Items, item)
	}
}

func (r *reading) fields(n *Node, content []*yaml.Node, depth int) {
	n.Kind = Map
	seen := map[string]int{}
	for i := 0; i+1 < len(content); i += 2 {
		key, value := content[i], r.node(content[i+1], depth+1)
		switch before := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Style&yaml.TaggedStyle != 0:
			r.fail(key.Line, key.Column, "a key that is not text; write a plain name")
		case key.ShortTag() == "!!merge":
			r.fail(key.Line, key.Column, "<<: merge keys are not read; write the fields")
		case before > 0:
			r.fail(key.Line, key.Column, "%s occurs twice, first in line %d", words.Quote(key.Value), before)
		}
		seen[key.Value] = key.Line
		n.size += value.size
		n.Fields = append(n.Fields, Field{key.Line, key.Column, key.Value, value})
	}
}
