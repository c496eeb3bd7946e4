package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/throttle-go/throttle/rules"
)

// Rules reads a file of rules in YAML or JSON, to be the Read of a rules.Source.
// Text that begins with { or a comment of JSON is JSON. The error is a *rules.Error.
func Rules(data []byte) (rules.Node, error) {
	n, err := rulesOf(data)
	if err == nil {
		err = ofServe(n)
	}
	return n, err
}

// ofServe returns an error for a file of 'throttle serve', which names a file of rules
// and has none itself: its version and its rules would be refused for their form.
func ofServe(n rules.Node) error {
	fields, _ := n.Value.([]rules.Field)
	for _, f := range fields {
		switch f.Name {
		case "store", "gateway", "admin", "drain", "log":
			return &rules.Error{Line: f.Line, Column: f.Column, What: f.Name + " is a section of a file of 'throttle serve'; write the file of rules that its section rules names"}
		}
	}
	return nil
}

func rulesOf(data []byte) (rules.Node, error) {
	start := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
	switch {
	case len(start) == 0 && len(data) <= rules.MaxSize:
		return rules.Node{}, &rules.Error{Line: 1, Column: 1, What: emptyRules}
	case len(data) > rules.MaxSize || start[0] == '{' || start[0] == '/':
		return rules.ReadNode(data)
	}
	n, err := Parse("", data)
	if e := (*Error)(nil); errors.As(err, &e) {
		if e.What == Empty {
			e.What = emptyRules
		}
		return rules.Node{}, &rules.Error{Line: e.Line, Column: e.Column, What: e.What}
	}
	return n.rules(), err
}

// rules is the same tree in the words of package rules.
func (n *Node) rules() rules.Node {
	to := rules.Node{Line: n.Line, Column: n.Column}
	switch n.Kind {
	case Bool:
		to.Value = n.Text == "true"
	case Number:
		to.Value = json.Number(n.Text)
	case Text:
		to.Value = n.Text
	case List:
		list := make([]rules.Node, len(n.Items))
		for i, item := range n.Items {
			list[i] = item.rules()
		}
		to.Value = list
	case Map:
		fields := make([]rules.Field, len(n.Fields))
		for i, f := range n.Fields {
			fields[i] = rules.Field{Name: f.Name, Line: f.Line, Column: f.Column, Node: f.Value.rules()}
		}
		to.Value = fields
	}
	return to
}

// ofRules is the tree of a text in JSON.
func ofRules(from rules.Node) *Node {
	n := &Node{Line: from.Line, Column: from.Column, size: 1}
	switch v := from.Value.(type) {
	case bool:
		n.Kind, n.Text = Bool, strconv.FormatBool(v)
	case json.Number:
		n.Kind, n.Text = Number, v.String()
	case string:
		n.Kind, n.Text, n.Quoted = Text, v, true
	case []rules.Node:
		n.Kind = List
		for _, item := range v {
			n.Items = append(n.Items, ofRules(item))
		}
	case []rules.Field:
		n.Kind = Map
		for _, f := range v {
			n.Fields = append(n.Fields, Field{f.Line, f.Column, f.Name, ofRules(f.Node)})
		}
	}
	return n
}
