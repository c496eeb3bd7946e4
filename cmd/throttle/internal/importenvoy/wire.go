package importenvoy

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

const (
	// mostResources bounds the resources of a server.
	mostResources = 1_000
	// mostValues bounds the messages and scalars of all resources.
	mostValues = 100_000
	// mostNesting bounds messages within messages: Envoy sends at most 100 entries.
	mostNesting = 100
)

// wireField is a field of a message.
type wireField struct {
	name string
	kind tree.Kind // a Map is a message, a List messages
	of   string    // which message, or which words stand for the numbers
}

// messages are those of package ratelimit.config.ratelimit.v3, by the numbers of their
// fields. They are read here, as no module with all of these fields has been released.
var messages = map[string]map[protowire.Number]wireField{
	"RateLimitConfig": {1: {name: "name", kind: tree.Text}, 2: {name: "domain", kind: tree.Text}, 3: {"descriptors", tree.List, "RateLimitDescriptor"}},
	"RateLimitDescriptor": {
		1: {name: "key", kind: tree.Text}, 2: {name: "value", kind: tree.Text}, 3: {"rate_limit", tree.Map, "RateLimitPolicy"},
		4: {"descriptors", tree.List, "RateLimitDescriptor"}, 5: {name: "shadow_mode", kind: tree.Bool},
		6: {name: "detailed_metric", kind: tree.Bool}, 7: {name: "quota_mode", kind: tree.Bool}, 8: {name: "metadata", kind: tree.Map},
	},
	"RateLimitPolicy": {
		1: {"unit", tree.Number, "RateLimitUnit"}, 2: {name: "requests_per_unit", kind: tree.Number}, 3: {name: "unlimited", kind: tree.Bool},
		4: {name: "name", kind: tree.Text}, 5: {"replaces", tree.List, "RateLimitReplace"},
	},
	"RateLimitReplace": {1: {name: "name", kind: tree.Text}},
}

// wireUnits are the words for the numbers of RateLimitUnit; zero is absent.
var wireUnits = map[uint64]string{1: "SECOND", 2: "MINUTE", 3: "HOUR", 4: "DAY", 5: "MONTH", 6: "YEAR", 7: "WEEK"}

// readResources reads resources as domains, in the order of their names: a server sends
// them in any.
func readResources(resources [][]byte, n *notes) (all []*domain, err error) {
	if len(resources) > mostResources {
		return nil, place{file: "resources"}.fail("%d of them; there are at most %d", len(resources), mostResources)
	}
	w := &wire{reading: &reading{notes: n}}
	seen := map[string]*domain{}
	for _, data := range sorted(resources) {
		w.file, w.paths = nameOf(data), nil
		root := w.message("RateLimitConfig", "", 0, data)
		root.Fields = slices.DeleteFunc(root.Fields, func(f tree.Field) bool { return f.Name == "name" })
		d, err := w.domain(root)
		if err != nil {
			return nil, err
		}
		if first := seen[d.name]; first != nil {
			return nil, d.at.fail("domain %s is that of %s too; there is one resource for each domain", words.Quote(d.name), first.at)
		}
		seen[d.name], all = d, append(all, d)
	}
	return all, nil
}

// sorted returns resources by their names.
func sorted(resources [][]byte) [][]byte {
	all := slices.Clone(resources)
	slices.SortFunc(all, func(a, b []byte) int { return cmp.Or(strings.Compare(nameOf(a), nameOf(b)), bytes.Compare(a, b)) })
	return all
}

// nameOf returns the name of a RateLimitConfig for errors.
func nameOf(data []byte) string {
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeField(data)
		if n < 0 {
			break
		}
		if num == 1 && typ == protowire.BytesType {
			_, _, head := protowire.ConsumeTag(data)
			name, _ := protowire.ConsumeBytes(data[head:n])
			return words.Visible(string(name), mostText)
		}
		data = data[n:]
	}
	return "a resource without a name"
}

// wire reads the wire format of Protocol Buffers as trees. The Line of a node is the number
// of the message that it is, or that it is a field of.
type wire struct {
	*reading
	values int // of all resources
}

// message reads a message at a path. One of which there may be no list may come in parts.
func (w *wire) message(kind, path string, depth int, data []byte) *tree.Node {
	w.paths = append(w.paths, path)
	n := &tree.Node{Line: len(w.paths), Column: 1, Kind: tree.Map}
	if depth > mostNesting {
		w.fail(n, "nested more than %d deep", mostNesting)
	}
	if kind == "" { // whose content is free
		return n
	}
	parts := map[protowire.Number][]byte{}
	for len(data) > 0 && w.err == nil {
		num, typ, value, rest := w.next(n, kind, data)
		data = rest
		switch f, known := messages[kind][num]; {
		case w.err != nil:
		case !known || typ != f.wireType():
			w.notes.same(w.at(n), fmt.Sprintf("field %d of %s is not known; left out", num, kind))
		case f.kind == tree.Map:
			part, _ := protowire.ConsumeBytes(value)
			parts[num] = append(parts[num], part...)
		case f.kind == tree.List:
			w.item(n, f, path, depth, value)
		default:
			w.scalar(n, f, value)
		}
	}
	for num, part := range parts { // rate_limit and metadata, in any order
		f := messages[kind][num]
		set(n, f.name, w.message(f.of, join(path, f.name), depth+1, part))
	}
	return n
}

// next returns the first field of a message, and what follows it.
func (w *wire) next(n *tree.Node, kind string, data []byte) (num protowire.Number, typ protowire.Type, value, rest []byte) {
	num, typ, head := protowire.ConsumeTag(data)
	size := head
	if head > 0 {
		size = protowire.ConsumeFieldValue(num, typ, data[head:])
	}
	switch w.values++; {
	case size < 0:
		w.fail(n, "cut short, or not a %s", kind)
	case w.values > mostValues:
		w.fail(n, "more than %d values in all resources", mostValues)
	default:
		return num, typ, data[head : head+size], data[head+size:]
	}
	return 0, 0, nil, nil
}

// set sets a field of a Map, as what comes last counts.
func set(n *tree.Node, name string, value *tree.Node) {
	for i := range n.Fields {
		if n.Fields[i].Name == name {
			n.Fields[i].Value = value
			return
		}
	}
	n.Fields = append(n.Fields, tree.Field{Line: n.Line, Column: n.Column, Name: name, Value: value})
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (f wireField) wireType() protowire.Type {
	if f.kind == tree.Bool || f.kind == tree.Number {
		return protowire.VarintType
	}
	return protowire.BytesType
}

// item reads a further message of a list.
func (w *wire) item(n *tree.Node, f wireField, path string, depth int, value []byte) {
	list := n.Get(f.name)
	if list == nil {
		list = &tree.Node{Line: n.Line, Column: n.Column, Kind: tree.List}
		set(n, f.name, list)
	}
	part, _ := protowire.ConsumeBytes(value)
	at := join(path, f.name) + "[" + strconv.Itoa(len(list.Items)) + "]"
	list.Items = append(list.Items, w.message(f.of, at, depth+1, part))
}

// scalar reads a text, a number or a flag; zero is as if it were absent.
func (w *wire) scalar(n *tree.Node, f wireField, value []byte) {
	to := &tree.Node{Line: n.Line, Column: n.Column, Kind: f.kind}
	number, _ := protowire.ConsumeVarint(value)
	switch {
	case f.kind == tree.Text:
		text, _ := protowire.ConsumeBytes(value)
		if !utf8.Valid(text) {
			w.fail(n, "%s: not UTF-8", f.name)
		}
		to.Text, to.Quoted = string(text), true
	case number == 0:
		to.Kind = tree.Null
	case f.kind == tree.Bool:
		to.Text = "true"
	case f.of != "" && wireUnits[number] != "":
		to.Kind, to.Text = tree.Text, wireUnits[number]
	default:
		to.Text = strconv.FormatUint(uint64(uint32(number)), 10)
	}
	set(n, f.name, to)
}
